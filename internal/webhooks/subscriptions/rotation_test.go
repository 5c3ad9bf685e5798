package subscriptions_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/subscriptions"
)

// rotated is a subscription whose secret is replaced, one after the other.
type rotated struct {
	*world
	id string
}

func newRotated(t *testing.T, store testkit.Store) rotated {
	t.Helper()
	w := newWorld(t, store)
	ch := change("*")
	ch.SigningSecret = patch.To(secret("a"))
	sub, _, err := w.Create(t.Context(), w.p, ch)
	require.NoError(t, err)
	require.Empty(t, sub.Retiring)
	return rotated{w, sub.ID}
}

// secret is the secret of that name, whose hint is the name.
func secret(name string) secretbox.Secret {
	return secretbox.Secret(fmt.Sprintf("the signing secret  %4s", name))
}

func (r rotated) change(t *testing.T, ch subscriptions.Change) subscriptions.Subscription {
	t.Helper()
	sub, err := r.Update(t.Context(), r.p, r.id, ch)
	require.NoError(t, err)
	read, err := r.Get(t.Context(), access.Whole(r.p.Environment), r.id)
	require.NoError(t, err)
	require.Equal(t, read, sub, "the answer is what is read next")
	return sub
}

func replacing(name string, grace time.Duration) subscriptions.Change {
	return subscriptions.Change{SecretGraceSeconds: patch.Some(int64(grace / time.Second)),
		Settings: subscriptions.Settings{SigningSecret: patch.To(secret(name))}}
}

// signs returns the names of the secrets that sign now, as a process without anything in its caches finds them.
func (r rotated) signs(t *testing.T) string {
	t.Helper()
	target, err := r.process().Target(t.Context(), r.p.Environment, r.id)
	require.NoError(t, err)
	names := lastOf(target.SigningKey)
	for _, old := range target.Retiring {
		require.True(t, old.Until.After(r.clock.Now()))
		names += lastOf(old.Key)
	}
	return names
}

func lastOf(key []byte) string { return string(key[len(key)-1:]) }

// A replaced secret signs alongside the new one for the requested time, a day by default, and the reader sees until
// when.
func TestReplacedSecretSignsForAWhile(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		r := newRotated(t, store)
		start := r.clock.Now().UTC()
		sub := r.change(t, subscriptions.Change{Settings: subscriptions.Settings{SigningSecret: patch.To(secret("b"))}})
		require.Equal(t, "   b", sub.SecretHint)
		require.Equal(t, []subscriptions.RetiringSecret{{Hint: "   a", Until: start.Add(24 * time.Hour)}}, sub.Retiring)
		sub = r.change(t, replacing("c", time.Hour))
		require.Equal(t, []subscriptions.RetiringSecret{{Hint: "   b", Until: start.Add(time.Hour)},
			{Hint: "   a", Until: start.Add(24 * time.Hour)}}, sub.Retiring)
		require.Equal(t, "cba", r.signs(t))

		r.clock.Advance(time.Hour - time.Millisecond)
		require.Equal(t, "cba", r.signs(t))
		r.clock.Advance(time.Millisecond)
		require.Equal(t, "ca", r.signs(t))
		read, err := r.Get(t.Context(), access.Whole(r.p.Environment), r.id)
		require.NoError(t, err)
		require.Len(t, read.Retiring, 1)
		r.clock.Advance(24 * time.Hour)
		require.Equal(t, "c", r.signs(t))

		actions, changes := r.audited(t, r.id)
		require.Len(t, actions, 3)
		require.Contains(t, changes[1], `"details":{"secret_grace_seconds":86400}`)
		require.Contains(t, changes[1], `"signing_secret":{"before":"[redacted]","after":"[redacted]"}`)
		require.Contains(t, changes[2], `"details":{"secret_grace_seconds":3600}`)
		require.Contains(t, changes[2], `"signing_secret":{"before":"[redacted]","after":"[redacted]"}`)
	})
}

// A grace of zero ends the signatures of all replaced secrets immediately, with a new secret and without one.
func TestGraceOfZero(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		r := newRotated(t, store)
		r.change(t, replacing("b", time.Hour))
		require.Empty(t, r.change(t, replacing("c", 0)).Retiring)
		require.Equal(t, "c", r.signs(t))
		r.change(t, replacing("d", time.Hour))
		require.Equal(t, "dc", r.signs(t))
		end := subscriptions.Change{SecretGraceSeconds: patch.Some(int64(0))}
		sub := r.change(t, end)
		require.Empty(t, sub.Retiring)
		require.Equal(t, "d", r.signs(t))
		require.Equal(t, sub, r.change(t, end), "there is nothing left to end, so nothing changes")
		_, changes := r.audited(t, r.id)
		require.Len(t, changes, 5)
		require.JSONEq(t, `{"details":{"secret_grace_seconds":0}}`, changes[4])
	})
}

// However often a secret is replaced, few sign: the oldest gives way. A secret that comes back signs once, and the
// present one sent again changes nothing.
func TestFewSecretsSign(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		r := newRotated(t, store)
		for _, name := range []string{"b", "c", "d", "e", "f"} {
			r.change(t, replacing(name, time.Hour))
		}
		require.Equal(t, "fedcb", r.signs(t))
		require.Len(t, r.signs(t), 1+subscriptions.MaxRetiring)
		r.change(t, replacing("d", time.Hour))
		require.Equal(t, "dfecb", r.signs(t))
		before, err := r.Get(t.Context(), access.Whole(r.p.Environment), r.id)
		require.NoError(t, err)
		require.Equal(t, before, r.change(t, replacing("d", time.Minute)))
	})
}

// Expired secrets are removed from the database. Those that still sign stay, and a change of another field touches
// none.
func TestForgetSecrets(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		r := newRotated(t, store)
		stored := func() (n int) {
			require.NoError(t, store.DB.Read().QueryRowContext(t.Context(),
				`SELECT COUNT(*) FROM webhook_subscriptions WHERE retiring_secrets IS NOT NULL
				AND retiring_until_ms IS NOT NULL`).Scan(&n))
			return n
		}
		r.change(t, replacing("b", time.Hour))
		r.change(t, replacing("c", time.Minute))
		r.clock.Advance(time.Hour - time.Millisecond)
		require.NoError(t, r.ForgetSecrets(t.Context()))
		require.Equal(t, 1, stored())
		r.change(t, subscriptions.Change{Settings: subscriptions.Settings{Description: patch.To("other")}})
		require.Equal(t, "ca", r.signs(t))
		r.clock.Advance(time.Millisecond)
		require.NoError(t, r.ForgetSecrets(t.Context()))
		require.Zero(t, stored())
		require.Equal(t, "c", r.signs(t))
	})
}

// The grace has bounds, cannot be cleared, and is valid only with a new secret, or as zero.
func TestGraceViolations(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		r := newRotated(t, store)
		for _, c := range []struct {
			change subscriptions.Change
			want   []string
		}{
			{replacing("b", -time.Second), []string{"secret_grace_seconds minimum"}},
			{replacing("b", subscriptions.MaxSecretGrace+time.Second), []string{"secret_grace_seconds maximum"}},
			{subscriptions.Change{SecretGraceSeconds: patch.Some(int64(1))},
				[]string{"secret_grace_seconds coherent"}},
			{subscriptions.Change{SecretGraceSeconds: patch.Some(int64(-1)),
				Settings: subscriptions.Settings{SigningSecret: patch.To(secretbox.Secret("short"))}},
				[]string{"signing_secret min_length", "secret_grace_seconds minimum"}},
		} {
			_, err := r.Update(t.Context(), r.p, r.id, c.change)
			require.Equal(t, c.want, violationsOf(t, err))
		}
		require.Equal(t, "a", r.signs(t))
		r.change(t, replacing("b", subscriptions.MaxSecretGrace))
		require.Equal(t, "ba", r.signs(t))
	})
}
