package identity

import (
	"database/sql"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
)

const (
	testIssuer   = "https://gateway.example.test"
	testEmail    = "ada@example.test"
	testPassword = secretbox.Secret("correct horse battery")
)

// fixture is a Service over a fresh database.
type fixture struct {
	*Service
	store  testkit.Store
	clk    *clock.Manual
	keyset string
	// hashes counts the runs of Argon2id.
	hashes *atomic.Int64
}

// each runs fn with an initialised Service on every engine.
func each(t *testing.T, fn func(t *testing.T, f fixture)) {
	t.Helper()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		f := newFixture(t, s)
		require.NoError(t, f.Init(t.Context(), false))
		fn(t, f)
	})
}

func newFixture(t *testing.T, s testkit.Store) fixture {
	t.Helper()
	f := fixture{
		store: s, clk: clock.NewManual(began()),
		keyset: filepath.Join(t.TempDir(), "keyset.json"), hashes: &atomic.Int64{},
	}
	require.NoError(t, secretbox.Create(f.keyset))
	f.Service = f.another(t)
	return f
}

// another returns a second Service on the same database: another process.
func (f fixture) another(t *testing.T) *Service {
	t.Helper()
	box, err := secretbox.Open(secretbox.Source{Path: f.keyset}, secretbox.WithClock(f.clk))
	require.NoError(t, err)
	s, err := New(f.store.DB, box, f.clk, Options{Issuer: testIssuer})
	require.NoError(t, err)
	s.hasher.derive = func(p passwordHash, password []byte) []byte {
		f.hashes.Add(1)
		p.params.memoryKiB, p.params.passes = 64, 1 // what is stored says today's costs; these tests are about the rest
		return argon2id(p, password)
	}
	return s
}

// owner creates the team with its first owner and returns them as the actor of a request.
func (f fixture) owner(t *testing.T) (access.Principal, Profile) {
	t.Helper()
	p, err := f.CreateOwner(t.Context(), access.System("test"), "", testEmail, testPassword)
	require.NoError(t, err)
	return access.Principal{Kind: access.KindUser, ID: p.User.ID, Name: p.User.Email, Team: p.Team.ID, Rights: p.Rights}, p
}

func testClient() access.Client {
	return access.Client{IP: "192.0.2.17", UserAgent: "browser/1.0", RequestID: "request-1"}
}

// signIn signs in from the address of testClient.
func (f fixture) signIn(t *testing.T, email string, password secretbox.Secret) (SignIn, error) {
	t.Helper()
	return f.Login(t.Context(), testClient(), Credentials{Email: email, Password: password}, "")
}

// signedIn signs the owner in.
func (f fixture) signedIn(t *testing.T) SignIn {
	t.Helper()
	in, err := f.signIn(t, testEmail, testPassword)
	require.NoError(t, err)
	return in
}

// bearer returns who is behind an access token that must hold.
func (f fixture) bearer(t *testing.T, token secretbox.Secret) access.Principal {
	t.Helper()
	p, err := f.Bearer(t.Context(), token.Reveal())
	require.NoError(t, err)
	return p
}

// refused requires that an access token does not hold.
func (f fixture) refused(t *testing.T, token secretbox.Secret) {
	t.Helper()
	_, err := f.Bearer(t.Context(), token.Reveal())
	require.True(t, apperr.Is(err, apperr.CodeUnauthorized), err)
}

// key creates a key of the first environment.
func (f fixture) key(t *testing.T, actor access.Principal, env id.Environment, grants ...Grant) (Key, string) {
	t.Helper()
	k, secret, err := f.CreateKey(t.Context(), actor, NewKey{Name: "service", Environment: env, Grants: grants})
	require.NoError(t, err)
	return k, secret.Reveal()
}

// foreign adds another team with one environment and one key, and returns its owner as an actor.
func (f fixture) foreign(t *testing.T) (access.Principal, id.Environment, Key) {
	t.Helper()
	other := Team{ID: id.Team(id.New(id.PrefixTeam)), Name: "Others", CreatedMillis: 1}
	env := Environment{ID: id.Environment(id.New(id.PrefixEnvironment)), Team: other.ID, Name: Development, Type: Test,
		CreatedMillis: 1}
	require.NoError(t, f.store.DB.Tx(t.Context(), func(tx *sql.Tx) error {
		require.NoError(t, insertTeam(t.Context(), tx, other))
		return insertEnvironment(t.Context(), tx, env)
	}))
	actor := f.person(t, other.ID, "owner@others.test", access.Owner)
	k, _ := f.key(t, actor, env.ID)
	return actor, env.ID, k
}

func allow(routes ...access.Route) Grant { return Grant{Effect: Allow, Routes: routes} }
func deny(routes ...access.Route) Grant  { return Grant{Effect: Deny, Routes: routes} }

type auditRow struct{ action, actor, target, team, environment, changes string }

// trail returns the audit events, oldest first, with testkit.AuditDiff as their changes.
func (f fixture) trail(t *testing.T) []auditRow {
	t.Helper()
	rows, err := f.store.DB.Read().QueryContext(t.Context(), `SELECT action, actor_id, target_id, COALESCE(team_id, ''),
		COALESCE(environment_id, ''), changes, details FROM audit_events ORDER BY id`)
	require.NoError(t, err)
	var out []auditRow
	require.NoError(t, db.Each(rows, func(r *sql.Rows) error {
		var a auditRow
		out = append(out, a)
		last := &out[len(out)-1]
		var details string
		err := r.Scan(&last.action, &last.actor, &last.target, &last.team, &last.environment, &last.changes, &details)
		if err == nil {
			last.changes = testkit.AuditDiff(t, last.changes, details)
		}
		return err
	}))
	return out
}

func (f fixture) exec(t *testing.T, text string, args ...any) {
	t.Helper()
	_, err := f.store.DB.Write().ExecContext(t.Context(), text, args...)
	require.NoError(t, err)
}

func (f fixture) count(t *testing.T, table string) int {
	t.Helper()
	var n int
	require.NoError(t, f.store.DB.Read().QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// began is when the clock of a fixture begins.
func began() time.Time { return time.Date(2026, 11, 2, 9, 30, 0, 250_000_000, time.UTC) }
