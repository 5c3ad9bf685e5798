package connections_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/connections"
)

// The webhook after a change is judged by the change: a new connection is found, a new secret decides, a disabled,
// moved or deleted connection is seen as such.
func TestLookupSeesEveryChange(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		_, err := w.svc.Lookup(t.Context(), "acme")
		requireCode(t, apperr.CodeNotFound, err)

		c := w.create(t, w.a, github("acme"))
		for _, segment := range []string{c.PathToken, "acme"} {
			in, err := w.svc.Lookup(t.Context(), segment)
			require.NoError(t, err)
			require.Equal(t, c.UUID, in.Connection.UUID)
			require.Equal(t, "github", in.Provider.Definition.Slug)
			require.Equal(t, segment == "acme", in.ByAlias)
			require.True(t, accepts(in, githubSecret))
			require.False(t, accepts(in, "another secret"))
			again, err := w.svc.Lookup(t.Context(), segment)
			require.NoError(t, err)
			require.Same(t, in, again, "the hot path reads the database once")
		}

		change := func(ch connections.Change) *connections.Inbound {
			_, err := w.svc.Update(t.Context(), w.a, "github", "acme", ch)
			require.NoError(t, err)
			in, err := w.svc.Lookup(t.Context(), c.PathToken)
			require.NoError(t, err)
			return in
		}
		in := change(connections.Change{Secret: patch.To(secretbox.Secret("the next secret"))})
		require.True(t, accepts(in, "the next secret"))
		require.False(t, accepts(in, githubSecret))
		in = change(connections.Change{Secret: patch.Clear[secretbox.Secret]()})
		require.False(t, in.Connection.HasSecret)
		require.False(t, accepts(in, "the next secret"))

		_, err = w.svc.SetStatus(t.Context(), w.a, "github", "acme", connections.Disabled)
		require.NoError(t, err)
		in, err = w.svc.Lookup(t.Context(), "acme")
		require.NoError(t, err)
		require.Equal(t, connections.Disabled, in.Connection.Status)
		require.NotEmpty(t, in.Connection.StatusReason)
		c, err = w.svc.SetStatus(t.Context(), w.a, "github", "acme", connections.Active)
		require.NoError(t, err)
		require.Empty(t, c.StatusReason)

		rotated, err := w.svc.RotatePath(t.Context(), w.a, "github", "acme")
		require.NoError(t, err)
		require.True(t, id.Is(id.PrefixPathToken, rotated.PathToken))
		_, err = w.svc.Lookup(t.Context(), c.PathToken)
		requireCode(t, apperr.CodeNotFound, err)
		_, err = w.svc.Lookup(t.Context(), rotated.PathToken)
		require.NoError(t, err)

		require.NoError(t, w.svc.Delete(t.Context(), w.a, "github", "acme"))
		for _, segment := range []string{rotated.PathToken, "acme"} {
			_, err = w.svc.Lookup(t.Context(), segment)
			requireCode(t, apperr.CodeNotFound, err)
		}
		require.Zero(t, count(t, w, "SELECT count(*) FROM connection_secrets"))
	})
}

// Anyone can send webhooks to paths that do not exist: each costs at most one statement, and none where the segment
// cannot be a token or an alias. The first webhook of a connection also reads its secrets, and the next reads nothing.
func TestLookupStatements(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		c := w.create(t, w.a, github("acme"))
		reads := &testkit.CountedQuerier{Querier: s.DB.Read()}
		w.svc.ReadFrom(reads)
		const changed = "the connection changes"
		for _, step := range []struct {
			segment string
			queries int
		}{
			{id.NewRandom(id.PrefixPathToken), 1},
			{"no-such-alias", 1},
			{"no-such-alias", 1},
			{"not an alias", 0},
			{c.PathToken, 3},
			{c.PathToken, 0},
			{"acme", 1},
			{"acme", 0},
			{changed, 0},
			{c.PathToken, 2},
			{"acme", 0},
		} {
			if step.segment == changed {
				_, err := w.svc.Update(t.Context(), w.a, "github", "acme", connections.Change{MaxBodyBytes: ptr(int64(1))})
				require.NoError(t, err)
				continue
			}
			reads.Queries = 0
			_, err := w.svc.Lookup(t.Context(), step.segment)
			require.Equal(t, step.segment != c.PathToken && step.segment != "acme", apperr.Is(err, apperr.CodeNotFound),
				"%s: %v", step.segment, err)
			require.Equal(t, step.queries, reads.Queries, step.segment)
		}
	})
}

// However many webhooks read the cache while a change is made, none of them can put the old state back: a read after
// the change has returned sees it.
func TestLookupUnderLoadSeesEveryChange(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		c := w.create(t, w.a, github("acme"))
		done := make(chan struct{})
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
						_, _ = w.svc.Lookup(t.Context(), c.PathToken)
					}
				}
			})
		}
		for n := range int64(40) {
			_, err := w.svc.Update(t.Context(), w.a, "github", "acme", connections.Change{MaxBodyBytes: ptr(n + 1)})
			require.NoError(t, err)
			in, err := w.svc.Lookup(t.Context(), c.PathToken)
			require.NoError(t, err)
			require.Equal(t, n+1, in.Connection.Webhook.MaxBodyBytes)
		}
		close(done)
		readers.Wait()
	})
}

// A change made by another process is seen after the next Refresh, and a Refresh without a change costs no re-reading.
func TestRefreshSeesOtherProcesses(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		other := w.newService(t)
		c := w.create(t, w.a, github("acme"))
		require.NoError(t, other.Refresh(t.Context()))
		before, err := other.Lookup(t.Context(), c.PathToken)
		require.NoError(t, err)

		require.NoError(t, other.Refresh(t.Context()))
		same, err := other.Lookup(t.Context(), c.PathToken)
		require.NoError(t, err)
		require.Same(t, before, same)

		changes := []func() error{
			func() error {
				_, err := w.svc.Update(t.Context(), w.a, "github", "acme",
					connections.Change{Tags: patch.To(map[string]*string{"k": ptr("v")})})
				return err
			},
			func() error {
				_, err := w.svc.SetStatus(t.Context(), w.a, "github", "acme", connections.Disabled)
				return err
			},
			func() error {
				_, err := w.svc.SetStatus(t.Context(), w.a, "github", "acme", connections.Active)
				return err
			},
		}
		for _, change := range changes {
			require.NoError(t, change())
			require.NoError(t, other.Refresh(t.Context()))
			after, err := other.Lookup(t.Context(), c.PathToken)
			require.NoError(t, err)
			require.NotSame(t, before, after)
			before = after
		}
		w.create(t, w.a, github("second"))
		require.NoError(t, other.Refresh(t.Context()))
		same, err = other.Lookup(t.Context(), c.PathToken)
		require.NoError(t, err)
		require.Same(t, before, same, "the change of another connection is none of this one")
		require.NoError(t, w.svc.Delete(t.Context(), w.a, "github", "acme"))
		require.NoError(t, other.Refresh(t.Context()))
		_, err = other.Lookup(t.Context(), c.PathToken)
		requireCode(t, apperr.CodeNotFound, err)
	})
}

// Settings that the definition refuses make every webhook refused: an error in stored settings must never let one
// pass.
func TestUnusableSettingsRefuseDeliveries(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		c := w.create(t, w.a, github("acme"))
		_, err := s.DB.Write().ExecContext(t.Context(), `UPDATE connections SET webhook = $1`, `{"params":{"gone":"x"}}`)
		require.NoError(t, err)
		in, err := w.newService(t).Lookup(t.Context(), c.PathToken)
		require.NoError(t, err)
		require.False(t, accepts(in, githubSecret))
		require.True(t, in.Unusable, "nobody knows what of a request is secret")

		_, err = s.DB.Write().ExecContext(t.Context(), `UPDATE connections SET provider = 'taken-away'`)
		require.NoError(t, err)
		_, err = w.newService(t).Lookup(t.Context(), c.PathToken)
		require.Error(t, err)
		require.False(t, apperr.Is(err, apperr.CodeNotFound), "the provider must try again, not give up")
	})
}

// Secrets are unreadable at rest and bound to their row: neither the database nor the trail holds one, and a ciphertext
// copied to another connection opens nothing.
func TestSecretsAreSealed(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		mine := w.create(t, w.a, github("mine"))
		theirs := w.create(t, w.b, github("theirs"))
		require.Equal(t, "4f1c", mine.SecretHint)

		sealed := map[string][]byte{}
		for _, c := range []connections.Connection{mine, theirs} {
			var value []byte
			require.NoError(t, s.DB.Read().QueryRowContext(t.Context(),
				`SELECT value FROM connection_secrets WHERE connection_uuid = $1`, c.UUID).Scan(&value))
			require.NotContains(t, string(value), githubSecret)
			sealed[c.UUID] = value
		}
		var changes string
		require.NoError(t, s.DB.Read().QueryRowContext(t.Context(),
			`SELECT changes FROM audit_events WHERE target_id = $1`, mine.UUID).Scan(&changes))
		require.Contains(t, changes, secretbox.Redacted)
		require.NotContains(t, changes, githubSecret)

		_, err := s.DB.Write().ExecContext(t.Context(),
			`UPDATE connection_secrets SET value = $1 WHERE connection_uuid = $2`, sealed[mine.UUID], theirs.UUID)
		require.NoError(t, err)
		_, err = w.newService(t).Lookup(t.Context(), theirs.PathToken)
		require.ErrorIs(t, err, secretbox.ErrDecrypt)

		require.Contains(t, connections.SealedColumns(), secretbox.Column{Table: "connection_secrets", Column: "value",
			IDColumn: "id"})
	})
}

// A hint must not give a short secret away.
func TestSecretHint(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		w.create(t, w.a, github("acme"))
		for secret, want := range map[string]string{
			strings.Repeat("x", 15): "", "0123456789abcdef": "cdef", "0123456789abcdéü": "cdéü", strings.Repeat("é", 15): "",
		} {
			c, err := w.svc.Update(t.Context(), w.a, "github", "acme",
				connections.Change{Secret: patch.To(secretbox.Secret(secret))})
			require.NoError(t, err)
			require.True(t, c.HasSecret)
			require.Equal(t, want, c.SecretHint)
		}
	})
}

// A connection of another environment does not exist, for reading and for changing, and stays as it is.
func TestForeignEnvironment(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		c := w.create(t, w.a, github("acme"))
		_, err := w.svc.Get(t.Context(), access.Whole(w.b.Environment), "github", "acme")
		requireCode(t, apperr.CodeNotFound, err)
		_, err = w.svc.Update(t.Context(), w.b, "github", "acme", connections.Change{Alias: patch.Clear[string]()})
		requireCode(t, apperr.CodeNotFound, err)
		_, err = w.svc.SetStatus(t.Context(), w.b, "github", "acme", connections.Disabled)
		requireCode(t, apperr.CodeNotFound, err)
		_, err = w.svc.RotatePath(t.Context(), w.b, "github", "acme")
		requireCode(t, apperr.CodeNotFound, err)
		requireCode(t, apperr.CodeNotFound, w.svc.Delete(t.Context(), w.b, "github", "acme"))
		exists, err := w.svc.Exists(t.Context(), w.store.DB.Read(), w.b.Environment, "github", "acme")
		require.NoError(t, err)
		require.False(t, exists)
		first, err := page.Query{Order: "desc"}.Parse("", nil)
		require.NoError(t, err)
		rows, err := w.svc.List(t.Context(), access.Whole(w.b.Environment), connections.Filter{}, first)
		require.NoError(t, err)
		require.Empty(t, rows)

		in := github("acme")
		in.OnConflict = connections.ConflictUpdate
		other, created, err := w.svc.Create(t.Context(), w.b, in)
		require.NoError(t, err)
		require.True(t, created)
		require.NotEqual(t, c.UUID, other.UUID)

		kept, err := w.svc.Get(t.Context(), access.Whole(w.a.Environment), "github", "acme")
		require.NoError(t, err)
		require.Equal(t, c, kept)
		exists, err = w.svc.Exists(t.Context(), w.store.DB.Read(), w.a.Environment, "github", "acme")
		require.NoError(t, err)
		require.True(t, exists)
	})
}

// Names that no connection can have cost no query: with a context that is over, only a query could fail.
func TestImpossibleNamesReachNoSQL(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := w.svc.Get(over, access.Whole(w.a.Environment), "github", "possible")
		require.Error(t, err)
		require.False(t, apperr.Is(err, apperr.CodeNotFound))
		for _, names := range [][2]string{
			{"GitHub", "a"}, {"-github", "a"}, {"", "a"}, {strings.Repeat("g", 64), "a"}, {"git\x00hub", "a"},
			{"github", ""}, {"github", ".a"}, {"github", "a/b"}, {"github", "a\x00"}, {"github", strings.Repeat("a", 256)},
			{"github", "whk_0123456789abcdefghjkmnpqrs"}, {"github", "0190163d-8694-739b-aea5-966c26f8ad91"},
		} {
			_, err := w.svc.Get(over, access.Whole(w.a.Environment), names[0], names[1])
			requireCode(t, apperr.CodeNotFound, err)
			requireCode(t, apperr.CodeNotFound, w.svc.Delete(over, w.a, names[0], names[1]))
		}
		for _, segment := range []string{"", "a b", "whk_short", strings.Repeat("a", 256),
			"0190163d-8694-739b-aea5-966c26f8ad91"} {
			_, err := w.svc.Lookup(t.Context(), segment)
			requireCode(t, apperr.CodeNotFound, err)
		}
	})
}
