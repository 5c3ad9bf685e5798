package credentials_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/identity/installation"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/credentials"
)

// world is one database with two environments that have two connections each, and a Vault on it.
type world struct {
	db     *db.DB
	clock  *clock.Manual
	keyset string
	vault  *credentials.Vault
	a, b   id.Environment
}

const (
	uuidA1, uuidA2 = "01a20eb7-2a2f-7c82-bf5b-178ad59552a1", "01a20eb7-2a2f-7c82-bf5b-178ad59552a2"
	uuidB1         = "01a20eb7-2a2f-7c82-bf5b-178ad59552b1"
)

func newWorld(t testing.TB, s testkit.Store) *world {
	t.Helper()
	w := &world{db: s.DB, clock: clock.NewManual(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)),
		keyset: filepath.Join(s.Dir, "keyset.json"), a: "env_a", b: "env_b"}
	require.NoError(t, secretbox.Create(w.keyset))
	w.exec(t, `INSERT INTO teams (id, name, created_ms) VALUES ('team_x', 'x', 0)`)
	for _, env := range []id.Environment{w.a, w.b} {
		w.exec(t, `INSERT INTO environments (id, team_id, name, created_ms) VALUES ($1, 'team_x', $2, 0)`, string(env),
			string(env))
	}
	for uuid, env := range map[string]id.Environment{uuidA1: w.a, uuidA2: w.a, uuidB1: w.b} {
		w.exec(t, `INSERT INTO connections (uuid, environment_id, provider, provider_config_key, connection_id, path_token,
			status, status_reason, tags, metadata, webhook, created_ms, updated_ms)
			VALUES ($1, $2, 'github', 'github', $1, $1, 'active', '', '{}', '{}', '{}', 0, 0)`, uuid, string(env))
	}
	w.vault = w.newVault(t)
	return w
}

// newVault returns a Vault as another process on the same database would have it.
func (w *world) newVault(t testing.TB) *credentials.Vault {
	t.Helper()
	box, err := secretbox.Open(secretbox.Source{Path: w.keyset}, secretbox.WithColumns(credentials.SealedColumns()))
	require.NoError(t, err)
	return credentials.NewVault(credentials.Config{DB: w.db, Clock: w.clock, Box: box,
		Pepper: installation.Pepper("a pepper of the tests")})
}

func (w *world) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	_, err := w.db.Write().ExecContext(t.Context(), query, args...)
	require.NoError(t, err)
}

//nolint:revive // the order of require's functions
func (w *world) tx(t require.TestingT, ctx context.Context, fn func(tx *sql.Tx) error) {
	require.NoError(t, w.db.Tx(ctx, fn))
}

func (w *world) store(t testing.TB, in credentials.New) credentials.Set {
	t.Helper()
	var set credentials.Set
	w.tx(t, t.Context(), func(tx *sql.Tx) (err error) {
		set, err = w.vault.Store(t.Context(), tx, &in)
		return err
	})
	w.vault.Forget(in.ConnectionUUID)
	return set
}

// get describes the credentials of the first connection, or returns not_found.
func (w *world) get(t testing.TB, env id.Environment) (credentials.Set, error) {
	t.Helper()
	sets, err := w.vault.Sets(t.Context(), w.db.Read(), env, []string{uuidA1})
	if set, found := sets[uuidA1]; found || err != nil {
		return set, err
	}
	return credentials.Set{}, apperr.NotFound("credentials")
}

func (w *world) renew(t testing.TB, in credentials.Renewal) (renewed bool) {
	t.Helper()
	w.tx(t, t.Context(), func(tx *sql.Tx) (err error) {
		renewed, err = w.vault.Renew(t.Context(), tx, &in)
		return err
	})
	w.vault.Forget(in.Of.ConnectionUUID)
	return renewed
}

func open(t testing.TB, v *credentials.Vault, env id.Environment, uuid string) credentials.Values {
	t.Helper()
	s, err := v.Sealed(t.Context(), env, uuid)
	require.NoError(t, err)
	values, err := v.OpenAll(s)
	require.NoError(t, err)
	return values
}

func apiKey(w *world, uuid, key string) credentials.New {
	return credentials.New{ConnectionUUID: uuid, Environment: w.a, Mode: "api_key",
		Values: credentials.Values{"api_key": secretbox.Secret(key)}, Hosts: []string{"api.example.com"}}
}

// Stored credentials open again, their description shows no value, and other credentials of the connection are gone.
func TestStoreReplaces(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		expires := w.clock.Now().Add(time.Hour).UTC()
		first := w.store(t, credentials.New{ConnectionUUID: uuidA1, Environment: w.a, Mode: "oauth2", ExpiresAt: &expires,
			Values:          credentials.Values{"access_token": "at-1", "refresh_token": "rt-1"},
			Hosts:           []string{"b.example.com", "a.example.com", "b.example.com"},
			ScopesRequested: []string{"write", "read"}, ScopesGranted: []string{"read"}})
		require.Equal(t, credentials.Values{"access_token": "at-1", "refresh_token": "rt-1"},
			open(t, w.vault, w.a, uuidA1))
		stored, err := w.get(t, w.a)
		require.NoError(t, err)
		require.Equal(t, first, stored)
		require.Equal(t, []string{"a.example.com", "b.example.com"}, stored.Hosts)
		require.Equal(t, []string{"access_token", "refresh_token"}, stored.Fields)
		require.Equal(t, []string{"write", "read"}, stored.ScopesRequested)
		require.Equal(t, expires, *stored.ExpiresAt)

		second := w.store(t, apiKey(w, uuidA1, "k-1"))
		require.Equal(t, int64(2), second.Revision)
		require.Equal(t, credentials.Values{"api_key": "k-1"}, open(t, w.vault, w.a, uuidA1))
		stored, err = w.get(t, w.a)
		require.NoError(t, err)
		require.Equal(t, second, stored)
		require.Nil(t, stored.ExpiresAt)
		require.Empty(t, stored.ScopesGranted)
	})
}

// A connection without credentials, and one of an API without any, are different.
func TestNoValues(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		_, err := w.vault.Sealed(t.Context(), w.a, uuidA1)
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
		w.store(t, credentials.New{ConnectionUUID: uuidA1, Environment: w.a, Mode: "none"})
		require.Empty(t, open(t, w.vault, w.a, uuidA1))
		sets, err := w.vault.Sets(t.Context(), w.db.Read(), w.a, []string{uuidA1, uuidA2})
		require.NoError(t, err)
		require.Len(t, sets, 1)
		require.Equal(t, "none", sets[uuidA1].Mode)
	})
}

// No method sees or changes the credentials of a connection through another environment.
func TestEnvironmentsAreIsolated(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, ctx := newWorld(t, s), t.Context()
		before := w.store(t, apiKey(w, uuidA1, "k-1"))
		_, err := w.vault.Sealed(ctx, w.b, uuidA1)
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
		_, err = w.get(t, w.b)
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
		sets, err := w.vault.Sets(ctx, w.db.Read(), w.b, []string{uuidA1})
		require.NoError(t, err)
		require.Empty(t, sets)
		w.tx(t, ctx, func(tx *sql.Tx) error { return w.vault.Delete(ctx, tx, w.b, uuidA1) })
		theirs, err := w.vault.Sealed(ctx, w.a, uuidA1)
		require.NoError(t, err)
		taken := *theirs
		taken.Environment = w.b
		require.False(t, w.renew(t, credentials.Renewal{Of: &taken, Values: credentials.Values{"api_key": "k-2"}}))
		w.tx(t, ctx, func(tx *sql.Tx) error { return w.vault.RecordFailure(ctx, tx, w.b, uuidA1, 1, "no") })
		foreign := apiKey(w, uuidA1, "k-3")
		foreign.Environment = w.b
		require.Error(t, w.db.Tx(ctx, func(tx *sql.Tx) error {
			_, err := w.vault.Store(ctx, tx, &foreign)
			return err
		}))
		after, err := w.get(t, w.a)
		require.NoError(t, err)
		require.Equal(t, before, after)
		require.Equal(t, credentials.Values{"api_key": "k-1"}, open(t, w.vault, w.a, uuidA1))
	})
}

// A refresh changes the values that it brings and keeps the others, and one of credentials that are others by now
// changes nothing.
func TestRenew(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, ctx := newWorld(t, s), t.Context()
		in := apiKey(w, uuidA1, "")
		in.Values = credentials.Values{"access_token": "at-1", "refresh_token": "rt-1", "subject": "s"}
		first := w.store(t, in)
		w.tx(t, ctx, func(tx *sql.Tx) error {
			return w.vault.RecordFailure(ctx, tx, w.a, uuidA1, first.Revision, strings.Repeat("ä", 400))
		})
		failed, err := w.get(t, w.a)
		require.NoError(t, err)
		require.Equal(t, int64(1), failed.RefreshFailures)
		require.Equal(t, strings.Repeat("ä", 250), failed.RefreshError)

		w.clock.Advance(time.Minute)
		expires := w.clock.Now().Add(time.Hour).UTC()
		of, err := w.vault.Sealed(ctx, w.a, uuidA1)
		require.NoError(t, err)
		require.True(t, w.renew(t, credentials.Renewal{Of: of,
			Values: credentials.Values{"access_token": "at-2", "refresh_token": "rt-2"}, ExpiresAt: &expires,
			ScopesGranted: []string{"read"}}))
		require.Equal(t, credentials.Values{"access_token": "at-2", "refresh_token": "rt-2", "subject": "s"},
			open(t, w.vault, w.a, uuidA1))
		renewed, err := w.get(t, w.a)
		require.NoError(t, err)
		require.Equal(t, w.clock.Now().UTC(), *renewed.RefreshedAt)
		require.Equal(t, first.StoredAt, renewed.StoredAt)
		require.Zero(t, renewed.RefreshFailures)
		require.Empty(t, renewed.RefreshError)
		require.Equal(t, []string{"read"}, renewed.ScopesGranted)
		require.NotEqual(t, first.Fingerprint, renewed.Fingerprint)

		require.False(t, w.renew(t, credentials.Renewal{Of: of, Values: credentials.Values{"access_token": "at-3"}}))
		w.tx(t, ctx, func(tx *sql.Tx) error {
			return w.vault.RecordFailure(ctx, tx, w.a, uuidA1, first.Revision, "of the first")
		})
		after, err := w.get(t, w.a)
		require.NoError(t, err)
		require.Equal(t, renewed, after)
	})
}

// Another process sees a change after its next refresh of the cache, and this one after Forget.
func TestCacheFollows(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, ctx := newWorld(t, s), t.Context()
		w.store(t, apiKey(w, uuidA1, "k-1"))
		other := w.newVault(t)
		require.NoError(t, other.Refresh(ctx))
		require.Equal(t, credentials.Values{"api_key": "k-1"}, open(t, other, w.a, uuidA1))
		w.store(t, apiKey(w, uuidA1, "k-2"))
		require.Equal(t, credentials.Values{"api_key": "k-1"}, open(t, other, w.a, uuidA1), "no query is needed")
		require.NoError(t, other.Refresh(ctx))
		require.Equal(t, credentials.Values{"api_key": "k-2"}, open(t, other, w.a, uuidA1))

		w.tx(t, ctx, func(tx *sql.Tx) error { return w.vault.Delete(ctx, tx, w.a, uuidA1) })
		w.vault.Forget(uuidA1)
		require.NoError(t, other.Refresh(ctx))
		for _, v := range []*credentials.Vault{w.vault, other} {
			_, err := v.Sealed(ctx, w.a, uuidA1)
			require.True(t, apperr.Is(err, apperr.CodeNotFound))
		}
	})
}

// A value opens only in its own place: one that is moved to another connection or under another name is refused.
func TestMovedValuesDoNotOpen(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.store(t, apiKey(w, uuidA1, "k-1"))
		second := apiKey(w, uuidA2, "")
		second.Values = credentials.Values{"api_key": "k-2", "token": "t-2"}
		w.store(t, second)
		const move = `UPDATE connection_credential_values SET value = (SELECT value FROM connection_credential_values
			WHERE id = $1) WHERE id = $2`
		for to, from := range map[string]string{uuidA2 + "/api_key": uuidA1 + "/api_key",
			uuidA2 + "/token": uuidA2 + "/api_key"} {
			w.exec(t, move, from, to)
			sealed, err := w.newVault(t).Sealed(t.Context(), w.a, uuidA2)
			require.NoError(t, err)
			_, name, _ := strings.Cut(to, "/")
			_, err = w.vault.Open(sealed, name)
			require.ErrorIs(t, err, secretbox.ErrDecrypt)
			require.NotContains(t, err.Error(), "k-")
			w.store(t, second)
		}
	})
}

// Neither the database nor anything that prints credentials shows a value.
func TestValuesAreNeverShown(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		const mark = "MARK-4f1c9a7e"
		set := w.store(t, apiKey(w, uuidA1, mark))
		sealed, err := w.vault.Sealed(t.Context(), w.a, uuidA1)
		require.NoError(t, err)
		values := open(t, w.vault, w.a, uuidA1)
		var stored bytes.Buffer
		rows, err := w.db.Read().QueryContext(t.Context(), "SELECT id, value FROM connection_credential_values")
		require.NoError(t, err)
		require.NoError(t, db.Each(rows, func(r *sql.Rows) error {
			var id string
			var value []byte
			err := r.Scan(&id, &value)
			stored.WriteString(id)
			stored.Write(value)
			return err
		}))
		printed := stored.String() + fmt.Sprintf("%v %+v %#v %v %+v %#v %v %#v", set, set, set, sealed, sealed, sealed,
			values, values)
		for _, form := range []string{mark, hex.EncodeToString([]byte(mark)),
			base64.StdEncoding.EncodeToString([]byte(mark))} {
			require.NotContains(t, printed, form)
		}
	})
}

// The keyset's rotation finds every value, and the old key opens none of them afterwards.
func TestRotation(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.store(t, apiKey(w, uuidA1, "k-1"))
		info, err := secretbox.Rotate(w.keyset)
		require.NoError(t, err)
		box, err := secretbox.Open(secretbox.Source{Path: w.keyset})
		require.NoError(t, err)
		n, err := secretbox.Reseal(t.Context(), w.db, box, credentials.SealedColumns(), nil)
		require.NoError(t, err)
		require.Equal(t, 1, n.Changed)
		var value []byte
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(),
			"SELECT value FROM connection_credential_values").Scan(&value))
		key, ok := secretbox.KeyID(value)
		require.True(t, ok)
		require.Equal(t, info.ID, key)
		require.Equal(t, credentials.Values{"api_key": "k-1"}, open(t, w.newVault(t), w.a, uuidA1))
	})
}

// Two sets of values of one environment have the same fingerprint exactly if they are equal, with any bytes in them,
// and no other environment can compare its own with them.
func TestFingerprints(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		values := rapid.Custom(func(t *rapid.T) credentials.Values {
			return credentials.Values(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "ab"}),
				rapid.Custom(func(t *rapid.T) secretbox.Secret {
					return secretbox.Secret(rapid.StringMatching(`[ab\x00]{0,3}`).Draw(t, "value"))
				}), 1, 3).Draw(t, "values"))
		})
		fingerprint := func(env id.Environment, uuid string, v credentials.Values) string {
			in := apiKey(w, uuid, "")
			in.Environment, in.Values = env, v
			return w.store(t, in).Fingerprint
		}
		rapid.Check(t, func(rt *rapid.T) {
			x, y := values.Draw(rt, "x"), values.Draw(rt, "y")
			of := fingerprint(w.a, uuidA1, x)
			require.Len(rt, of, 16)
			require.Equal(rt, fmt.Sprint(reveal(x)) == fmt.Sprint(reveal(y)),
				of == fingerprint(w.a, uuidA2, y))
			require.NotEqual(rt, of, fingerprint(w.b, uuidB1, x))
		})
	})
}

func reveal(v credentials.Values) map[string]string {
	out := map[string]string{}
	for name, value := range v {
		out[name] = value.Reveal()
	}
	return out
}

// Values that the vault has no place for are refused before anything is stored.
func TestLimits(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, ctx := newWorld(t, s), t.Context()
		many := credentials.Values{}
		for i := range credentials.MaxValues + 1 {
			many[fmt.Sprintf("v%d", i)] = "v"
		}
		for name, values := range map[string]credentials.Values{
			"many": many, "long": {"a": secretbox.Secret(strings.Repeat("x", credentials.MaxValueBytes+1))},
			"no name": {"": "x"}, "slash": {"a/b": "x"}, "upper case": {"A": "x"},
			"long name": {strings.Repeat("a", 64): "x"},
		} {
			in := apiKey(w, uuidA1, "")
			in.Values = values
			require.Error(t, w.db.Tx(ctx, func(tx *sql.Tx) error {
				_, err := w.vault.Store(ctx, tx, &in)
				return err
			}), name)
		}
		_, err := w.get(t, w.a)
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
	})
}
