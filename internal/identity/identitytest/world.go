// Package identitytest sets up the capabilities of the identity district over a fresh database, for tests.
package identitytest

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/internal/identity/apikeys"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/argon2"

	"sallyport/internal/identity"
	"sallyport/internal/identity/mails"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
)

// The owner of a World, and the URL under which it is reached.
const (
	Issuer   = "https://gateway.example.test"
	Email    = "ada@example.test"
	Password = secretbox.Secret("correct horse battery")
)

// World is the district over a database of its own, as one process has it.
type World struct {
	*identity.Services
	Store  testkit.Store
	Clock  *clock.Manual
	Keyset string
	// Hashes counts the runs of Argon2id.
	Hashes *atomic.Int64

	post     *Postbox
	contents *[]module.Content
}

// Each runs fn with a World on every engine.
func Each(t *testing.T, fn func(t *testing.T, w World)) {
	t.Helper()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		fn(t, New(t, s, false))
	})
}

// New returns a World over a database, with a keyset of its own. dev opens it in development mode.
func New(t *testing.T, s testkit.Store, dev bool) World {
	t.Helper()
	w, err := Closed(t, s).Start(t.Context(), dev)
	require.NoError(t, err)
	return w
}

// Closed returns a World that no process has opened yet. It has no services.
func Closed(t *testing.T, s testkit.Store) World {
	t.Helper()
	w := World{
		Store: s, Clock: clock.NewManual(Began()), Keyset: filepath.Join(t.TempDir(), "keyset.json"),
		Hashes: &atomic.Int64{}, post: &Postbox{Off: true}, contents: &[]module.Content{},
	}
	require.NoError(t, secretbox.Create(w.Keyset))
	return w
}

// Start returns the World as another process has it.
func (w World) Start(ctx context.Context, dev bool) (World, error) {
	box, err := secretbox.Open(secretbox.Source{Path: w.Keyset}, secretbox.WithClock(w.Clock))
	if err != nil {
		return World{}, err
	}
	w.Services, err = identity.Open(ctx, identity.Config{DB: w.Store.DB, Box: box, Clock: w.Clock,
		Issuer: Issuer, Mails: w.post, Contents: w.held, Derive: w.derive}, dev)
	return w, err
}

// Another returns the World as another process has it.
func (w World) Another(t *testing.T) World {
	t.Helper()
	other, err := w.Start(t.Context(), false)
	require.NoError(t, err)
	return other
}

// Derive is Argon2id at a low cost. Stored hashes carry the costs of the product all the same.
func Derive(password, salt []byte, _, _ uint32, lanes uint8, length uint32) []byte {
	return argon2.IDKey(password, salt, 1, 64, lanes, length)
}

// derive counts the calls of Derive.
func (w World) derive(password, salt []byte, passes, memory uint32, lanes uint8, length uint32) []byte {
	w.Hashes.Add(1)
	return Derive(password, salt, passes, memory, lanes, length)
}

// Hold has every environment hold resources of these kinds, apart from API keys.
func (w World) Hold(kinds ...string) {
	*w.contents = nil
	for _, kind := range kinds {
		*w.contents = append(*w.contents, module.Content{Name: kind,
			Held: func(context.Context, db.Querier, id.Environment) (bool, error) { return true, nil }})
	}
}

// held lists what keeps an environment from being deleted.
func (w World) held() []module.Content {
	return append(slices.Clone(*w.contents), new(apikeys.Service).Module().Contents...)
}

// Post switches mails on and returns those that are queued.
func (w World) Post() *Postbox {
	w.post.Off = false
	return w.post
}

// Postbox keeps the mails that are queued, as if their transactions were always committed.
type Postbox struct {
	Off     bool
	mu      sync.Mutex
	Mails   []mails.Mail
	Dropped []string
}

// Enabled reports whether the Postbox is on.
func (p *Postbox) Enabled() bool { return !p.Off }

// Queue keeps a mail.
func (p *Postbox) Queue(_ context.Context, _ *sql.Tx, m mails.Mail) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Mails = append(p.Mails, m)
	return nil
}

// Drop notes what the mails to be dropped are about.
func (p *Postbox) Drop(_ context.Context, _ *sql.Tx, about string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Dropped = append(p.Dropped, about)
	return nil
}

// Client is where the requests of a World's people come from.
func Client() access.Client {
	return access.Client{IP: "192.0.2.17", UserAgent: "browser/1.0", RequestID: "request-1"}
}

// Stranger is the n-th of many other clients.
func Stranger(n int) access.Client {
	return access.Client{IP: fmt.Sprintf("198.51.100.%d", n), UserAgent: "guesser/1.0", RequestID: "request-2"}
}

// AuditRow is an event of the audit trail.
type AuditRow struct{ Action, Actor, Target, Team, Environment, Changes string }

// Trail returns the audit events, oldest first, with testkit.AuditDiff as their changes.
func (w World) Trail(t *testing.T) []AuditRow {
	t.Helper()
	rows, err := w.Store.DB.Read().QueryContext(t.Context(), `SELECT action, actor_id, target_id, COALESCE(team_id, ''),
		COALESCE(environment_id, ''), changes, details FROM audit_events ORDER BY id`)
	require.NoError(t, err)
	var out []AuditRow
	require.NoError(t, db.Each(rows, func(r *sql.Rows) error {
		var a AuditRow
		var details string
		if err := r.Scan(&a.Action, &a.Actor, &a.Target, &a.Team, &a.Environment, &a.Changes, &details); err != nil {
			return err
		}
		a.Changes = testkit.AuditDiff(t, a.Changes, details)
		out = append(out, a)
		return nil
	}))
	return out
}

// Actions returns the actions of the audit trail, oldest first.
func (w World) Actions(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, e := range w.Trail(t) {
		out = append(out, e.Action)
	}
	return out
}

// Exec runs a statement on the database.
func (w World) Exec(t *testing.T, text string, args ...any) {
	t.Helper()
	_, err := w.Store.DB.Write().ExecContext(t.Context(), text, args...)
	require.NoError(t, err)
}

// Count counts the rows of a table.
func (w World) Count(t *testing.T, table string) int {
	t.Helper()
	var n int
	require.NoError(t, w.Store.DB.Read().QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// Began is when the clock of a World begins.
func Began() time.Time { return time.Date(2026, 11, 2, 9, 30, 0, 250_000_000, time.UTC) }
