package connections

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/probes"
	"sallyport/internal/providers/tokens"
)

// Health is the outcome of the last test of a connection's credentials.
type Health struct {
	Status probes.Status
	Code   probes.Code
	Checks []probes.Check
	// Latency is the time that the probes took, in whole milliseconds.
	Latency   time.Duration
	CheckedAt time.Time
	// ChangedAt is when the status or code last became another.
	ChangedAt time.Time
	// Refusals counts the tests in a row in which the credentials were refused.
	Refusals int64
}

// healthRow is a stored outcome.
type healthRow struct {
	Health
	connectionUUID string
	environment    id.Environment
	latencyMillis  int64
}

func healthColumns(r *healthRow) db.Columns {
	return db.Columns{
		db.Col("connection_uuid", &r.connectionUUID),
		db.Col("environment_id", &r.environment),
		db.Col("status", &r.Status),
		db.Col("code", &r.Code),
		db.Col("checks", db.JSON(&r.Checks)),
		db.Col("latency_ms", &r.latencyMillis),
		db.Col("checked_ms", db.Millis(&r.CheckedAt)),
		db.Col("changed_ms", db.Millis(&r.ChangedAt)),
		db.Col("refusals", &r.Refusals),
	}
}

// after returns the health that a test leaves.
func (h *Health) after(r *probes.Report, now time.Time) Health {
	next := Health{Status: r.Status, Code: r.Code, Checks: r.Checks, Latency: r.Latency.Truncate(time.Millisecond),
		CheckedAt: now, ChangedAt: now}
	if next.Checks == nil {
		next.Checks = []probes.Check{}
	}
	refused := r.Code == probes.CodeCredentialsRefused
	if refused {
		next.Refusals = 1
	}
	if h == nil {
		return next
	}
	if h.Status == next.Status && h.Code == next.Code {
		next.ChangedAt = h.ChangedAt
	}
	switch {
	case refused:
		next.Refusals += h.Refusals
	case next.Status == probes.Degraded:
		next.Refusals = h.Refusals // the test says nothing about the credentials
	}
	return next
}

// storeHealth stores the outcome of a test.
func storeHealth(ctx context.Context, tx *sql.Tx, env id.Environment, connectionUUID string, h *Health) error {
	row := healthRow{Health: *h, connectionUUID: connectionUUID, environment: env,
		latencyMillis: h.Latency.Milliseconds()}
	_, err := db.Insert(ctx, tx, "INSERT INTO connection_health", healthColumns(&row), `ON CONFLICT (connection_uuid) DO
		UPDATE SET status = excluded.status, code = excluded.code, checks = excluded.checks,
		latency_ms = excluded.latency_ms, checked_ms = excluded.checked_ms, changed_ms = excluded.changed_ms,
		refusals = excluded.refusals WHERE connection_health.environment_id = excluded.environment_id`)
	if err != nil {
		return fmt.Errorf("store the outcome of a test: %w", err)
	}
	return nil
}

// forgetHealth removes the outcome of tests of credentials that are gone.
func forgetHealth(ctx context.Context, tx *sql.Tx, env id.Environment, connectionUUID string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM connection_health WHERE environment_id = $1 AND connection_uuid = $2`,
		string(env), connectionUUID)
	if err != nil {
		return fmt.Errorf("forget the outcome of a test: %w", err)
	}
	return nil
}

// healthOf returns the outcomes of the last tests of connections, by UUID.
func healthOf(ctx context.Context, q querier, env id.Environment, uuids []string) (map[string]*Health, error) {
	w := new(db.Where).And("environment_id = ?", string(env))
	rows, err := db.All(ctx, q, healthColumns, "FROM connection_health", db.AnyOf(w, "connection_uuid", uuids), "")
	if err != nil {
		return nil, fmt.Errorf("read the outcomes of tests: %w", err)
	}
	out := make(map[string]*Health, len(rows))
	for i := range rows {
		h := rows[i].Health
		h.Latency = time.Duration(rows[i].latencyMillis) * time.Millisecond
		out[rows[i].connectionUUID] = &h
	}
	return out, nil
}

// describe adds what is stored about credentials and tests to connections of an environment that have credentials.
func (a *authenticator) describe(ctx context.Context, q querier, env id.Environment, list ...*Connection) error {
	uuids := make([]string, len(list))
	for i, c := range list {
		uuids[i] = c.UUID
	}
	if len(uuids) == 0 {
		return nil
	}
	sets, err := a.vault.Sets(ctx, q, env, uuids)
	if err != nil {
		return err
	}
	health, err := healthOf(ctx, q, env, uuids)
	if err != nil {
		return err
	}
	limits, err := a.limits.Of(ctx, q, env, uuids)
	if err != nil {
		return err
	}
	next, err := tokens.NextRenewals(ctx, q, env, uuids)
	if err != nil {
		return err //nolint:wrapcheck // it says what failed
	}
	for _, c := range list {
		if seen, found := limits[c.UUID]; found {
			c.RateLimit = &seen
		}
		if set, found := sets[c.UUID]; found {
			c.Credentials = &set
		}
		// A token that nothing renews is looked at when it ends.
		if at, found := next[c.UUID]; found && c.Credentials != nil && (c.Credentials.RefreshFailures > 0 ||
			c.Credentials.ExpiresAt == nil || !at.Equal(*c.Credentials.ExpiresAt)) {
			c.NextRefreshAt = &at
		}
		c.Health = health[c.UUID]
	}
	return nil
}

// minTestInterval is the shortest time between two tests of a connection.
const minTestInterval = 5 * time.Second

// isTested reports whether the last test of a connection stands for another one: it is recent, and the credentials were
// not refreshed since.
func (c *Connection) isTested(now time.Time) bool {
	return c.Health.isRecent(now) && (c.Credentials == nil || c.Credentials.RefreshedAt == nil ||
		!c.Credentials.RefreshedAt.After(c.Health.CheckedAt))
}

// isRecent reports whether a test was made so recently that its outcome is shown again.
func (h *Health) isRecent(now time.Time) bool {
	if h == nil {
		return false
	}
	age := now.Sub(h.CheckedAt)
	return age >= 0 && age < minTestInterval
}
