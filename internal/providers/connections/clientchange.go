package connections

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
	"sallyport/internal/providers/configs"
)

const (
	// clientBatch is how many connections get another status in one transaction. Each may emit an event, so these are
	// some hundred rows.
	clientBatch = 100
	// clientInterval is how often changes of clients are looked for of which connections are left.
	clientInterval = time.Second
)

// ClientWatch keeps the connections of a provider configuration from using tokens of a former OAuth client.
type ClientWatch struct {
	Clock clock.Clock
	// ClientModes returns the modes of a provider whose tokens belong to the OAuth client.
	ClientModes func(provider string) []string
	// OnChange returns the hooks of the connections' changes. Without it all connections are left to a server.
	OnChange func() []ChangeHook
}

// Changed is a configs.ClientHook. The connections with tokens of the former client need their credentials again: the
// provider would refuse to renew them. The first ones get the status with the change, the others from a worker. A
// first client changes nothing.
func (w ClientWatch) Changed(ctx context.Context, tx *sql.Tx, change configs.ClientChange) error {
	if change.Before == "" {
		return nil
	}
	r := clientChange{environment: change.Environment, key: change.Key, provider: change.Provider,
		changed: w.Clock.Now()}
	_, err := db.Insert(ctx, tx, "INSERT INTO connection_client_changes", clientColumns(&r), `
		ON CONFLICT (environment_id, provider_config_key) DO UPDATE SET provider = excluded.provider,
		changed_ms = excluded.changed_ms, after_uuid = excluded.after_uuid`)
	if err != nil {
		return fmt.Errorf("store a change of a client: %w", err)
	}
	if w.OnChange == nil {
		return nil
	}
	// All credentials are older than the change.
	everyone := func(context.Context, []Connection) (map[string]bool, error) { return nil, nil }
	return w.part(ctx, tx, &r, everyone)
}

// clientChange is a change of a client of which connections are left: those after a UUID.
type clientChange struct {
	environment   id.Environment
	key, provider string
	changed       time.Time
	after         string
}

func clientColumns(r *clientChange) db.Columns {
	return db.Columns{
		db.Col("environment_id", &r.environment),
		db.Col("provider_config_key", &r.key),
		db.Col("provider", &r.provider),
		db.Col("changed_ms", db.Millis(&r.changed)),
		db.Col("after_uuid", &r.after),
	}
}

func (r *clientChange) owned() *db.Where {
	return new(db.Where).And("environment_id = ?", string(r.environment)).And("provider_config_key = ?", r.key)
}

// part gives the next connections of a change, whose row is locked, the status. Newer returns those whose credentials
// are newer than the change.
func (w ClientWatch) part(ctx context.Context, tx *sql.Tx, r *clientChange,
	newer func(context.Context, []Connection) (map[string]bool, error)) error {
	var list []Connection
	if modes := w.ClientModes(r.provider); len(modes) > 0 {
		where := db.AnyOf(r.owned(), "auth_mode", modes)
		db.AnyOf(where, "enabled_status", []Status{Active, Error, Expired}).And("uuid > ?", r.after)
		var err error
		if list, err = readAll(ctx, tx, where, fmt.Sprintf("ORDER BY uuid LIMIT %d", clientBatch)); err != nil {
			return err
		}
	}
	except, err := newer(ctx, list)
	if err != nil {
		return err
	}
	for i := range list {
		if except[list[i].UUID] {
			continue
		}
		if err := w.condemn(ctx, tx, &list[i]); err != nil {
			return err
		}
	}
	if len(list) < clientBatch {
		own := r.owned()
		//nolint:gosec // the text comes from code, the values are bound
		if _, err := tx.ExecContext(ctx, "DELETE FROM connection_client_changes"+own.Text(), own.Args()...); err != nil {
			return fmt.Errorf("end a change of a client: %w", err)
		}
		return nil
	}
	r.after = list[len(list)-1].UUID
	_, err = db.Update(ctx, tx, "UPDATE connection_client_changes", clientColumns(r).Only("after_uuid"), r.owned())
	if err != nil {
		return fmt.Errorf("store how far a change of a client has come: %w", err)
	}
	return nil
}

func (w ClientWatch) condemn(ctx context.Context, tx *sql.Tx, seen *Connection) error {
	c, err := lock(ctx, tx, seen.Environment, seen.ProviderConfigKey, seen.ConnectionID)
	if err != nil {
		return ignoreNotFound(err)
	}
	if c.UUID != seen.UUID || c.EnabledStatus != Active && c.EnabledStatus != Error && c.EnabledStatus != Expired {
		return nil // it was changed meanwhile
	}
	kinds := c.moveTo(NeedsReauth, ReasonClientChanged)
	c.UpdatedAt = clock.After(w.Clock.Now(), c.UpdatedAt)
	if err := update(ctx, tx, &c); err != nil {
		return err
	}
	return publish(ctx, tx, w.OnChange(), &c, kinds)
}

// Extend adds the worker for the connections that are left to the module of connections.
func (w ClientWatch) Extend(m module.Module, s *Service) module.Module {
	m.Tables = append(m.Tables, module.Table{Name: "connection_client_changes",
		Outlives: "a worker removes its rows as soon as no connection is left"})
	m.Jobs = append(m.Jobs, jobs.Periodic{Name: "follow-client-changes", Part: role.Working,
		Failure: "cannot follow the change of an OAuth client", Run: jobs.Every(clientInterval,
			func(ctx context.Context) error { return w.follow(ctx, s) })})
	return m
}

// follow gives all connections that are left the status.
func (w ClientWatch) follow(ctx context.Context, s *Service) error {
	for {
		left, err := db.All(ctx, s.db.Read(), clientColumns, "FROM connection_client_changes", new(db.Where),
			"ORDER BY changed_ms LIMIT 1")
		if err != nil {
			return fmt.Errorf("look for changes of clients: %w", err)
		}
		if len(left) == 0 || ctx.Err() != nil {
			return nil //nolint:nilerr // the next run goes on where a stop ended this one
		}
		if err := w.next(ctx, s, &left[0]); err != nil {
			return err
		}
	}
}

func (w ClientWatch) next(ctx context.Context, s *Service, r *clientChange) error {
	var changed []Connection
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		next := *r
		// Another node may have been faster, or the client may have been changed again.
		held, err := db.Update(ctx, tx, "UPDATE connection_client_changes", clientColumns(&next).Only("after_uuid"),
			r.owned().And("after_uuid = ?", r.after).And("changed_ms = ?", clock.Millis(r.changed)))
		if err != nil || !held {
			return err
		}
		return w.part(ctx, tx, &next, func(ctx context.Context, list []Connection) (map[string]bool, error) {
			changed = list
			uuids := make([]string, len(list))
			for i := range list {
				uuids[i] = list[i].UUID
			}
			sets, err := s.auth.vault.Sets(ctx, tx, r.environment, uuids)
			newer := map[string]bool{}
			for uuid := range sets {
				newer[uuid] = sets[uuid].StoredAt.After(r.changed)
			}
			return newer, err
		})
	})
	for i := range changed {
		s.inbound.Drop(changed[i].UUID)
	}
	if err != nil {
		return fmt.Errorf("follow a change of a client: %w", err)
	}
	return nil
}
