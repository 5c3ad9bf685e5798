package executions

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sallyport/internal/calls/gateway"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// storeExecutions stores executions, those that have ended in place of those that had begun, and of those that were
// taken for abandoned because the end came late.
var storeExecutions = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: "INSERT INTO executions (" + columns(new(Execution)).Names() + ")",
	Types: []string{"text", "text", "text", "text", "text", "text", "text", "text", "text", "text", "text", "text",
		"bigint", "bigint", "bigint", "text", "bytea", "bytea", "bigint"},
	After: `ON CONFLICT (id) DO UPDATE SET status = excluded.status, error_code = excluded.error_code,
		finished_ms = excluded.finished_ms, lease_ms = excluded.lease_ms, state = excluded.state, output = excluded.output,
		output_until_ms = excluded.output_until_ms WHERE executions.lease_ms > 0
		OR executions.error_code = '` + string(apperr.CodeOutcomeUnknown) + `' AND excluded.lease_ms = 0`,
}

// Statements implements calllog.Part.
func (s *Service) Statements(calls []*gateway.Call) ([]db.Statement, error) {
	var args []any
	for _, c := range calls {
		x, ok := c.Extension.(*extension)
		if !ok {
			continue // it belongs to no execution
		}
		row, err := s.row(present(c, x), c)
		if err != nil {
			return nil, err
		}
		args = append(args, row...)
	}
	if len(args) == 0 {
		return nil, nil
	}
	return []db.Statement{{Rows: storeExecutions, Args: args}}, nil
}

// row returns the values of a row, with what it has sealed.
func (s *Service) row(e *Execution, c *gateway.Call) ([]any, error) {
	var err error
	if e.Input != nil {
		if e.sealedInput, err = s.cfg.Box.Seal(e.Input, inputAD(e.ID)); err != nil {
			return nil, fmt.Errorf("seal the input of an execution: %w", err)
		}
	}
	if !e.OutputUntil.IsZero() {
		output := []byte(e.Output)
		if c.Result.Full != nil {
			output = c.Result.Full
		}
		if e.sealedOutput, err = s.cfg.Box.Seal(output, outputAD(e.ID)); err != nil {
			return nil, fmt.Errorf("seal the output of an execution: %w", err)
		}
	}
	row, err := columns(e).Args()
	if err != nil {
		return nil, fmt.Errorf("encode an execution: %w", err)
	}
	return row, nil
}

// Filter narrows a list. An execution must match one value of each field; an empty field does not restrict.
type Filter struct {
	ConfigKeys, ConnectionIDs, Actions, ErrorCodes []string
	Statuses                                       []Status
	// After and Before restrict the time at which it was asked for; zero for none.
	After, Before time.Time
}

// Reader says which executions a caller reads: those of a principal, or of all.
type Reader struct {
	View access.View
	// Kind and ID are those of the principal whose executions are read; ID is empty for those of all.
	Kind access.Kind
	ID   string
}

// ReaderOf returns what a principal reads: an API key its own executions, a user those of all.
func ReaderOf(p access.Principal) Reader {
	r := Reader{View: p.View(), Kind: p.Kind, ID: p.ID}
	if p.Kind != access.KindAPIKey {
		r.ID = ""
	}
	return r
}

func (r *Reader) where() *db.Where {
	w := new(db.Where).And("environment_id = ?", string(r.View.Environment))
	w.Numbered(r.View.Connections.Where("connection_id", w.Next()))
	if r.ID != "" {
		w.And("principal_type = ?", string(r.Kind)).And("principal_id = ?", r.ID)
	}
	return w
}

// List returns a page of executions without inputs and outputs, and one row more if another page follows. It takes
// turns among the lists of the environment.
func (s *Service) List(ctx context.Context, r Reader, f *Filter, p page.Request) ([]Execution, error) {
	w := r.where()
	db.AnyOf(w, "provider_config_key", f.ConfigKeys)
	db.AnyOf(w, "connection_id", f.ConnectionIDs)
	db.AnyOf(w, "action", f.Actions)
	db.AnyOf(w, "status", f.Statuses)
	db.AnyOf(w, "error_code", f.ErrorCodes)
	if !f.After.IsZero() {
		w.And("id >= ?", id.FirstUUID(f.After))
	}
	if !f.Before.IsZero() {
		w.And("id < ?", id.FirstUUID(f.Before))
	}
	tail := w.Page("id", p)
	list, err := db.Listed(ctx, s.cfg.DB, string(r.View.Environment), func(ctx context.Context,
		q db.Querier) ([]Execution, error) {
		return db.All(ctx, q, shown, "FROM executions", w, tail)
	})
	if err != nil {
		return nil, fmt.Errorf("list executions: %w", err)
	}
	return list, nil
}

// shown are the columns without inputs and outputs.
func shown(e *Execution) db.Columns {
	all := columns(e)
	return append(all[:len(all)-3:len(all)-3], all[len(all)-1])
}

// Get returns an execution, with its input and its output as far as they are kept, or not_found.
func (s *Service) Get(ctx context.Context, r Reader, executionID string) (*Execution, error) {
	if !id.IsUUID(executionID) {
		return nil, notFound()
	}
	e, found, err := db.One(ctx, s.cfg.DB.Read(), columns, "FROM executions", r.where().And("id = ?", executionID), "")
	switch {
	case err != nil:
		return nil, fmt.Errorf("read an execution: %w", err)
	case !found:
		return nil, notFound()
	}
	return &e, s.open(&e)
}

// open opens the input and the output of an execution. That of a large output is left to Output.
func (s *Service) open(e *Execution) error {
	if e.sealedInput != nil {
		input, err := s.cfg.Box.Open(e.sealedInput, inputAD(e.ID))
		if err != nil {
			return fmt.Errorf("open the input of execution %s: %w", e.ID, err)
		}
		e.Input = input
	}
	if e.sealedOutput == nil || e.State.Large {
		return nil
	}
	output, err := s.cfg.Box.Open(e.sealedOutput, outputAD(e.ID))
	if err != nil {
		return fmt.Errorf("open the output of execution %s: %w", e.ID, err)
	}
	e.Output = output
	return nil
}

// Output returns the whole output of an execution, or not_found if it is not kept.
func (s *Service) Output(ctx context.Context, r Reader, executionID string) ([]byte, error) {
	e, err := s.Get(ctx, r, executionID)
	switch {
	case err != nil:
		return nil, err
	case e.sealedOutput == nil:
		return nil, apperr.NotFound("output")
	case !e.State.Large:
		return e.Output, nil
	}
	body, err := s.cfg.Box.Open(e.sealedOutput, outputAD(e.ID))
	if err != nil {
		return nil, fmt.Errorf("open the output of execution %s: %w", e.ID, err)
	}
	return body, nil
}

func notFound() error { return apperr.NotFound("execution") }

// secretNames are parts of names of members that hold secrets.
func secretNames() []string {
	return []string{"password", "passwd", "secret", "token", "api_key", "apikey", "private_key", "privatekey",
		"credential", "authorization"}
}

// isSecretName reports whether a member of that name holds a secret.
func isSecretName(name string) bool {
	name = strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	for _, part := range secretNames() {
		if strings.Contains(name, part) {
			return !strings.Contains(name, "page_token") && !strings.Contains(name, "pagetoken")
		}
	}
	return false
}

// readKey returns the execution of a key.
func (s *Service) readKey(ctx context.Context, q db.Querier, environment id.Environment, hash string) (executionID,
	fingerprint string, err error) {
	err = q.QueryRowContext(ctx, `SELECT execution_id, fingerprint FROM execution_keys WHERE key_hash = $1 AND
		environment_id = $2`, hash, string(environment)).Scan(&executionID, &fingerprint)
	if err != nil {
		return "", "", fmt.Errorf("read an idempotency key: %w", err)
	}
	return executionID, fingerprint, nil
}
