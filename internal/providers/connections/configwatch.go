package connections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/credentials"
	"sallyport/internal/providers/tokens"
)

const (
	// watchBatch is how many connections get another status in one transaction. Each may emit an event, so these are
	// some hundred rows.
	watchBatch = 100
	// watchInterval is how often changes of provider configurations are looked for of which connections are left.
	watchInterval = 500 * time.Millisecond
)

// ConfigWatch gives the connections of a provider configuration the status that a change of it leads to: of its OAuth
// client, to which tokens belong, or of its base URL, for which credentials were given. It gives it back when the
// change is reversed.
type ConfigWatch struct {
	Clock clock.Clock
	// ClientModes returns the modes of a provider whose tokens belong to the OAuth client.
	ClientModes func(env id.Environment, provider string) []string
	// OnChange returns the hooks of the connections' changes. Without it all connections are left to a server.
	OnChange func() []ChangeHook
}

// ProviderChanged is for definitions of an environment: another version of one has another definition of where
// credentials go.
func (w ConfigWatch) ProviderChanged(ctx context.Context, tx *sql.Tx, env id.Environment, provider string) error {
	keys, err := configs.KeysOfProvider(ctx, tx, env, provider)
	if err != nil {
		return err //nolint:wrapcheck // it says what failed
	}
	for _, k := range keys {
		change := configs.AccessChange{Environment: env, Key: k.Key, Provider: provider, Before: k.ClientID,
			After: k.ClientID}
		if err := w.Changed(ctx, tx, change); err != nil {
			return err
		}
	}
	return nil
}

// Changed is a configs.AccessHook. The first connections with tokens of a former client get their status with the
// change, the others from a worker.
func (w ConfigWatch) Changed(ctx context.Context, tx *sql.Tx, change configs.AccessChange) error {
	r := configChange{environment: change.Environment, key: change.Key, provider: change.Provider,
		client: change.Before, changed: w.Clock.Now()}
	// Of two changes in a row, credentials whose client is not known belong to that before the first.
	_, err := db.Insert(ctx, tx, "INSERT INTO connection_client_changes", changeColumns(&r), `
		ON CONFLICT (environment_id, provider_config_key) DO UPDATE SET provider = excluded.provider,
		client_id = CASE WHEN connection_client_changes.client_id = '' THEN excluded.client_id
			ELSE connection_client_changes.client_id END,
		changed_ms = CASE WHEN excluded.changed_ms > connection_client_changes.changed_ms THEN excluded.changed_ms
			ELSE connection_client_changes.changed_ms + 1 END,
		after_uuid = excluded.after_uuid`)
	if err != nil {
		return fmt.Errorf("store a change of a provider configuration: %w", err)
	}
	if w.OnChange == nil || change.Before == "" || change.Before == change.After {
		return nil
	}
	modes := w.ClientModes(r.environment, r.provider)
	if len(modes) == 0 {
		return nil
	}
	where := clientTokens(r.owned(), modes)
	list, err := readAll(ctx, tx, where, fmt.Sprintf("ORDER BY uuid LIMIT %d", watchBatch))
	if err != nil {
		return err
	}
	sets, err := credentials.Describe(ctx, tx, r.environment, uuidsOf(list))
	if err != nil {
		return err //nolint:wrapcheck // it says what failed
	}
	for i := range list {
		set, found := sets[list[i].UUID]
		if found && set.ClientID == change.After {
			continue // it is that client which returns
		}
		seen := verdict{uuid: list[i].UUID, id: list[i].ConnectionID, reason: ReasonClientChanged}
		if _, err := w.follow(ctx, tx, &r, &seen); err != nil {
			return err
		}
	}
	return nil
}

// clientTokens limits connections to those whose tokens belong to the present OAuth client, by the modes that use one.
func clientTokens(where *db.Where, modes []string) *db.Where {
	return db.AnyOf(db.AnyOf(where, "auth_mode", modes), "enabled_status", []Status{Active, Error, Expired})
}

// CountOfClient returns how many connections of a provider configuration have tokens of its OAuth client, by the modes
// that use one.
func CountOfClient(ctx context.Context, q db.Querier, env id.Environment, key string,
	modes []string) (n int, err error) {
	if len(modes) == 0 {
		return 0, nil
	}
	where := clientTokens((&configChange{environment: env, key: key}).owned(), modes)
	err = q.QueryRowContext(ctx, "SELECT count(*) FROM connections"+where.Text(), where.Args()...).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the connections of an OAuth client: %w", err)
	}
	return n, nil
}

func uuidsOf(list []Connection) []string {
	uuids := make([]string, len(list))
	for i := range list {
		uuids[i] = list[i].UUID
	}
	return uuids
}

// configChange is a change of a provider configuration of which connections are left: those after a UUID.
type configChange struct {
	environment   id.Environment
	key, provider string
	// client is the OAuth client before the change; empty for none.
	client  string
	changed time.Time
	after   string
}

func changeColumns(r *configChange) db.Columns {
	return db.Columns{
		db.Col("environment_id", &r.environment),
		db.Col("provider_config_key", &r.key),
		db.Col("provider", &r.provider),
		db.Col("client_id", &r.client),
		db.Col("changed_ms", db.Millis(&r.changed)),
		db.Col("after_uuid", &r.after),
	}
}

func (r *configChange) owned() *db.Where {
	return new(db.Where).And("environment_id = ?", string(r.environment)).And("provider_config_key = ?", r.key)
}

// verdict is what the present provider configuration means for a connection.
type verdict struct {
	uuid, id string
	// reason is why its credentials cannot be used; empty if they can.
	reason string
	// version is that of the connection that was looked at; zero for any.
	version time.Time
	// client is the OAuth client to which the credentials belong, where that was not stored with them.
	client string
	// account is what its requests are made from.
	account *tokens.Account
}

// follow gives a connection the status of its verdict. It reports false if the connection is another by now.
func (w ConfigWatch) follow(ctx context.Context, tx *sql.Tx, r *configChange, seen *verdict) (bool, error) {
	c, err := lock(ctx, tx, r.environment, r.key, seen.id)
	if err != nil || c.UUID != seen.uuid {
		return true, ignoreNotFound(err) // it is gone
	}
	if !seen.version.IsZero() && !c.UpdatedAt.Equal(seen.version) {
		return false, nil
	}
	var kinds []ChangeKind
	before := c
	switch ofConfig := c.EnabledReason == ReasonHostChanged || c.EnabledReason == ReasonClientChanged; {
	case seen.reason != "" && (ofConfig || c.EnabledStatus == Active || c.EnabledStatus == Error ||
		c.EnabledStatus == Expired):
		kinds = c.moveTo(NeedsReauth, seen.reason)
	case seen.reason == "" && ofConfig:
		health, err := healthOf(ctx, tx, r.environment, []string{c.UUID})
		if err != nil {
			return false, err
		}
		c.Health = health[c.UUID]
		kinds = c.restore()
	}
	if c.EnabledReason == before.EnabledReason && c.EnabledStatus == before.EnabledStatus {
		return true, nil
	}
	c.UpdatedAt = clock.After(w.Clock.Now(), c.UpdatedAt)
	if err := update(ctx, tx, &c); err != nil {
		return false, err
	}
	if len(kinds) > 0 {
		if err := describeForHooks(ctx, tx, &c); err != nil {
			return false, err
		}
	}
	return true, publish(ctx, tx, w.OnChange(), &c, kinds)
}

// describeForHooks adds the credentials and the outcome of the last test, which hooks show with a change.
func describeForHooks(ctx context.Context, tx *sql.Tx, c *Connection) error {
	sets, err := credentials.Describe(ctx, tx, c.Environment, []string{c.UUID})
	if err != nil {
		return err //nolint:wrapcheck // it says what failed
	}
	if set, found := sets[c.UUID]; found {
		c.Credentials = &set
	}
	health, err := healthOf(ctx, tx, c.Environment, []string{c.UUID})
	c.Health = health[c.UUID]
	return err
}

// restore ends a status that a change has led to which was reversed.
func (c *Connection) restore() []ChangeKind {
	if c.Health != nil && c.Health.Refusals >= refusalsUntilReauth {
		return c.moveTo(NeedsReauth, ReasonCredentialsRefused)
	}
	return c.moveTo(Active, "")
}

// Extend adds the worker for the connections that are left to the module of connections.
func (w ConfigWatch) Extend(m module.Module, s *Service) module.Module {
	m.Tables = append(m.Tables, module.Table{Name: "connection_client_changes",
		Outlives: "a worker removes its rows as soon as no connection is left"})
	m.Jobs = append(m.Jobs, jobs.Periodic{Name: "follow-config-changes", Part: role.Working,
		Failure: "cannot follow the change of a provider configuration", Run: jobs.Every(watchInterval,
			func(ctx context.Context) error { return w.work(ctx, s) })})
	return m
}

// work gives all connections that are left their status.
func (w ConfigWatch) work(ctx context.Context, s *Service) error {
	for {
		left, err := db.All(ctx, s.db.Read(), changeColumns, "FROM connection_client_changes", new(db.Where),
			"ORDER BY changed_ms LIMIT 1")
		if err != nil {
			return fmt.Errorf("look for changes of provider configurations: %w", err)
		}
		if len(left) == 0 || ctx.Err() != nil {
			return nil //nolint:nilerr // the next run goes on where a stop ended this one
		}
		if err := w.next(ctx, s, &left[0]); err != nil {
			return err
		}
	}
}

// next gives the next connections of a change their status.
func (w ConfigWatch) next(ctx context.Context, s *Service, r *configChange) error {
	if err := s.auth.configs.Forget(ctx, r.environment); err != nil { // another node may have made the change
		return err //nolint:wrapcheck // it says what failed
	}
	list, err := readAll(ctx, s.db.Read(), r.owned().And("auth_mode <> ?", NoAuth).And("uuid > ?", r.after),
		fmt.Sprintf("ORDER BY uuid LIMIT %d", watchBatch))
	if err != nil {
		return err
	}
	next := *r
	if len(list) == watchBatch {
		next.after = list[len(list)-1].UUID
	}
	for len(list) > 0 {
		if list, err = w.part(ctx, s, r, list); err != nil {
			return err
		}
	}
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		// The configuration may have been changed again, or another node may have been faster.
		own := r.owned().And("after_uuid = ?", r.after).And("changed_ms = ?", clock.Millis(r.changed))
		if next.after == r.after {
			//nolint:gosec // the text comes from code, the values are bound
			_, err = tx.ExecContext(ctx, "DELETE FROM connection_client_changes"+own.Text(), own.Args()...)
		} else {
			_, err = db.Update(ctx, tx, "UPDATE connection_client_changes", changeColumns(&next).Only("after_uuid"), own)
		}
		if err != nil {
			return fmt.Errorf("store how far a change of a provider configuration has come: %w", err)
		}
		return nil
	})
}

// part gives connections their status, and returns those that have changed meanwhile.
func (w ConfigWatch) part(ctx context.Context, s *Service, r *configChange, list []Connection) ([]Connection, error) {
	var verdicts []*verdict
	for i := range list {
		v, err := w.judge(ctx, s, r, &list[i])
		if err != nil {
			return nil, err
		}
		if v != nil {
			verdicts = append(verdicts, v)
			defer accounts{s}.Forget(v.uuid)
		}
	}
	var again []Connection
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		again = nil
		if err := w.lock(ctx, tx, s, verdicts); err != nil {
			return err
		}
		for _, v := range verdicts {
			done, err := w.follow(ctx, tx, r, v)
			if err != nil {
				return err
			}
			if !done {
				c, err := read(ctx, tx, r.owned().And("uuid = ?", v.uuid))
				if err != nil {
					return err
				}
				again = append(again, c)
				continue
			}
			if v.client != "" {
				if err := s.auth.vault.Assign(ctx, tx, r.environment, v.uuid, v.client); err != nil {
					return err
				}
			}
			if v.reason == "" {
				if err := s.auth.tokens.Resume(ctx, tx, v.account); err != nil {
					return err //nolint:wrapcheck // it says what failed
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("follow a change of a provider configuration: %w", err)
	}
	return again, nil
}

// lock locks connections first, and then the version of credentials that belong to another client now: in the order in
// which the outcomes of refreshes are stored, so that neither waits for the other.
func (ConfigWatch) lock(ctx context.Context, tx *sql.Tx, s *Service, verdicts []*verdict) error {
	var all, assigned []string
	for _, v := range verdicts {
		all = append(all, v.uuid)
		if v.client != "" {
			assigned = append(assigned, v.uuid)
		}
	}
	if len(all) == 0 {
		return nil
	}
	if _, err := lockAll(ctx, tx, all, s.db.ForUpdate()); err != nil {
		return err
	}
	return s.auth.vault.Announce(ctx, tx, assigned...) //nolint:wrapcheck // it says what failed
}

// judge looks at what the present configuration means for a connection. It returns nil if that cannot be said.
func (w ConfigWatch) judge(ctx context.Context, s *Service, r *configChange, c *Connection) (*verdict, error) {
	accounts{s}.Forget(c.UUID)
	a, err := accounts{s}.Account(ctx, r.environment, c.UUID)
	out := &verdict{uuid: c.UUID, id: c.ConnectionID}
	switch {
	case errors.Is(err, tokens.ErrHosts):
		out.reason = ReasonHostChanged
	case apperr.Is(err, apperr.CodeNotFound), apperr.Is(err, apperr.CodeConnectionNotReady):
		return nil, nil //nolint:nilnil // it stays as it is
	case err != nil && !db.IsUnavailable(err) && ctx.Err() == nil:
		// Such as a secret that does not open. It must not keep the others from being followed.
		s.loader.log.LogAttrs(ctx, slog.LevelError, "cannot read a connection whose provider configuration has changed",
			slog.String("connection_uuid", c.UUID), slog.String("error", err.Error()))
		return nil, nil //nolint:nilnil // it stays as it is
	case err != nil:
		return nil, err
	}
	out.account, out.version = a, a.Version
	return out, w.judgeClient(ctx, s, r, c, out)
}

// judgeClient looks at whether the credentials belong to the present OAuth client.
func (w ConfigWatch) judgeClient(ctx context.Context, s *Service, r *configChange, c *Connection, out *verdict) error {
	a := out.account
	mode, ok := a.Source.Engine.Mode(a.Source.Target.Mode)
	if !ok || !mode.Client {
		return nil
	}
	present, err := s.auth.clientOf(ctx, c, mode)
	if err != nil {
		return err
	}
	owner := a.Sealed.ClientID
	if owner == "" && c.EnabledReason == ReasonClientChanged {
		// Its client was not recorded, so no other is known to be the former one.
		if out.reason == "" {
			out.reason = ReasonClientChanged
		}
		return nil
	}
	if owner == "" {
		owner = r.client
		if owner == "" || a.Sealed.StoredAt.After(r.changed) {
			owner = present // the first client changes nothing
		}
		out.client = owner
	}
	if owner != present && out.reason == "" {
		out.reason = ReasonClientChanged
	}
	return nil
}
