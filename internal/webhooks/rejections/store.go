package rejections

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// Filter restricts a list. A rejection must match one value of each field; an empty field does not restrict.
type Filter struct {
	ConnectionIDs      []string
	ProviderConfigKeys []string
	Reasons            []string
}

// columns binds the columns of a row.
func columns(r *Rejection) db.Columns {
	return db.Columns{
		db.Col("id", &r.ID),
		db.Col("environment_id", &r.Environment),
		db.Col("connection_uuid", &r.ConnectionUUID),
		db.Col("connection_id", &r.ConnectionID),
		db.Col("provider", &r.Provider),
		db.Col("provider_config_key", &r.ProviderConfigKey),
		db.Col("received_ms", db.Millis(&r.ReceivedAt)),
		db.Col("reason", &r.Reason),
		db.Col("message", &r.Message),
		db.Col("diagnosis_code", &r.Diagnosis.Code),
		db.Col("diagnosis_message", &r.Diagnosis.Message),
		db.Col("by_alias", &r.ByAlias),
		db.Col("client_ip", &r.ClientIP),
		db.Col("method", &r.Method),
		db.Col("headers", &r.Headers),
		db.Col("body", &r.Body),
		db.Col("body_size", &r.BodySize),
		db.Col("suppressed", &r.Suppressed),
	}
}

// List returns a page of the rejections that the view shows, and one row more if another page follows. It takes turns
// among the lists of the environment.
func (s *Service) List(ctx context.Context, v access.View, f Filter, p page.Request) ([]Rejection, error) {
	w := new(db.Where).And("environment_id = ?", string(v.Environment))
	w.Numbered(v.Connections.Where("connection_id", w.Next()))
	db.AnyOf(w, "connection_id", f.ConnectionIDs)
	db.AnyOf(w, "provider_config_key", f.ProviderConfigKeys)
	db.AnyOf(w, "reason", f.Reasons)
	tail := w.Page("id", p)
	list, err := db.Listed(ctx, s.db, string(v.Environment), func(ctx context.Context, q db.Querier) ([]Rejection, error) {
		return db.All(ctx, q, columns, "FROM webhook_rejections", w, tail)
	})
	if err != nil {
		return nil, fmt.Errorf("list rejected requests: %w", err)
	}
	return list, nil
}

// Get returns a rejection that the view shows, or not_found.
func (s *Service) Get(ctx context.Context, v access.View, rejectionID string) (Rejection, error) {
	if !id.Is(id.PrefixRejection, rejectionID) {
		return Rejection{}, apperr.NotFound("webhook rejection")
	}
	w := new(db.Where).And("environment_id = ?", string(v.Environment)).And("id = ?", rejectionID)
	w.Numbered(v.Connections.Where("connection_id", w.Next()))
	r, found, err := db.One(ctx, s.db.Read(), columns, "FROM webhook_rejections", w, "")
	switch {
	case err != nil:
		return Rejection{}, fmt.Errorf("read a rejected request: %w", err)
	case !found:
		return Rejection{}, apperr.NotFound("webhook rejection")
	default:
		return r, nil
	}
}

// store inserts rejections, adds suppressed ones to the rejection before them, and trims the rings.
func (s *Service) store(ctx context.Context, batch []Rejection, suppressed map[string]int64) error {
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		for rejectionID, n := range suppressed {
			if _, err := tx.ExecContext(ctx, `UPDATE webhook_rejections SET suppressed = suppressed + $2 WHERE id = $1`,
				rejectionID, n); err != nil {
				return fmt.Errorf("count suppressed rejections: %w", err)
			}
		}
		touched := map[place]bool{}
		for i := range batch {
			v := &batch[i]
			_, err := db.Insert(ctx, tx, "INSERT INTO webhook_rejections", columns(v), "")
			if err != nil {
				return fmt.Errorf("store a rejected request: %w", err)
			}
			touched[place{v.ConnectionUUID, v.ByAlias}] = true
		}
		for at := range touched {
			keep := PerConnection
			if at.byAlias {
				keep = PerAlias
			}
			_, err := tx.ExecContext(ctx, fmt.Sprintf(`DELETE FROM webhook_rejections WHERE connection_uuid = $1
				AND by_alias = $2 AND id <=
				(SELECT id FROM webhook_rejections WHERE connection_uuid = $1 AND by_alias = $2
				ORDER BY id DESC LIMIT 1 OFFSET %d)`,
				keep),
				at.connectionUUID, at.byAlias)
			if err != nil {
				return fmt.Errorf("trim the rejected requests: %w", err)
			}
		}
		return nil
	})
}

// Forget deletes the rejections of a connection, in the transaction that deletes the connection.
func (s *Service) Forget(ctx context.Context, tx *sql.Tx, connectionUUID string) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM webhook_rejections WHERE connection_uuid = $1`,
		connectionUUID); err != nil {
		return fmt.Errorf("delete the rejected requests of a connection: %w", err)
	}
	return nil
}

// expireRows is the maximum number of rejections that one transaction deletes.
const expireRows = 500

// Expire deletes rejections older than Lifetime, in small transactions.
func (s *Service) Expire(ctx context.Context, now time.Time) error {
	before := clock.Millis(now.Add(-Lifetime))
	for {
		var n int64
		err := s.db.Tx(ctx, func(tx *sql.Tx) error {
			var err error
			n, err = db.Affected(tx.ExecContext(ctx, fmt.Sprintf(`DELETE FROM webhook_rejections WHERE id IN
				(SELECT id FROM webhook_rejections WHERE received_ms < $1 ORDER BY id LIMIT %d)`, expireRows), before))
			return err
		})
		if err != nil {
			return fmt.Errorf("delete old rejected requests: %w", err)
		}
		if n < expireRows {
			return nil
		}
	}
}
