package connections_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/connections"
)

const nextSecret = "the secret that replaces it: 77b2"

// Secrets rotate without a gap. While two are stored, webhooks verify under either; a deleted one is refused
// from the next webhook on, and the trail names what came and went without its value.
func TestSecretsRotateWithoutAGap(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		c := w.create(t, w.a, github("acme"))
		lookup := func() *connections.Inbound {
			in, err := w.svc.Lookup(t.Context(), c.PathToken)
			require.NoError(t, err)
			return in
		}
		require.False(t, accepts(lookup(), nextSecret))
		added, err := w.svc.AddSecret(t.Context(), w.a, "github", "acme", connections.NewWebhookSecret{Value: nextSecret,
			Label: "autumn"})
		require.NoError(t, err)
		require.Equal(t, "77b2", added.Hint)
		require.True(t, accepts(lookup(), githubSecret))
		require.True(t, accepts(lookup(), nextSecret))

		list, err := w.svc.Secrets(t.Context(), access.Whole(w.a.Environment), "github", "acme")
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.Equal(t, added, list[1])
		require.Empty(t, list[0].Label)

		require.NoError(t, w.svc.RemoveSecret(t.Context(), w.a, "github", "acme", list[0].ID))
		require.False(t, accepts(lookup(), githubSecret))
		require.True(t, accepts(lookup(), nextSecret))
		require.NoError(t, w.svc.RemoveSecret(t.Context(), w.a, "github", "acme", added.ID))
		require.False(t, accepts(lookup(), nextSecret))
		requireCode(t, apperr.CodeNotFound, w.svc.RemoveSecret(t.Context(), w.a, "github", "acme", added.ID))

		for _, action := range []string{"add", "remove"} {
			var changes, details string
			require.NoError(t, s.DB.Read().QueryRowContext(t.Context(), `SELECT changes, details FROM audit_events
				WHERE action = $1 ORDER BY id DESC LIMIT 1`, "connection."+action+"_webhook_secret").Scan(&changes, &details))
			require.Contains(t, changes, added.ID)
			require.Contains(t, details, "autumn")
			require.NotContains(t, changes, nextSecret)
		}
	})
}

// A secret that cannot work is refused with its validation errors, and one connection cannot collect secrets
// without end.
func TestNewSecretIsChecked(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		w.create(t, w.a, github("acme"))
		w.create(t, w.a, connections.NewConnection{Provider: ptr("standard-webhooks"), ConnectionID: ptr("std")})
		add := func(provider, connectionID string, v connections.NewWebhookSecret) error {
			_, err := w.svc.AddSecret(t.Context(), w.a, provider, connectionID, v)
			return err
		}
		requireViolations(t, "empty", []string{"secret min_length"}, add("github", "acme", connections.NewWebhookSecret{}))
		requireViolations(t, "everything", []string{"label max_length", "secret max_length"}, add("github", "acme",
			connections.NewWebhookSecret{Value: secretbox.Secret(strings.Repeat("x", 4097)), Label: strings.Repeat("ü", 256)}))
		requireViolations(t, "copied with its line", []string{"secret pattern"},
			add("github", "acme", connections.NewWebhookSecret{Value: nextSecret + "\n"}))
		requireViolations(t, "there already", []string{"secret unique"},
			add("github", "acme", connections.NewWebhookSecret{Value: githubSecret}))
		requireViolations(t, "label", []string{"label pattern"}, add("github", "acme",
			connections.NewWebhookSecret{Value: nextSecret, Label: "a\x00b"}))
		requireViolations(t, "encoding", []string{"secret format"}, add("standard-webhooks", "std",
			connections.NewWebhookSecret{Value: "whsec_not base64"}))
		requireCode(t, apperr.CodeNotFound, add("github", "nobody", connections.NewWebhookSecret{Value: nextSecret}))
		for i := 1; i < connections.MaxSecrets; i++ {
			require.NoError(t, add("github", "acme",
				connections.NewWebhookSecret{Value: secretbox.Secret(fmt.Sprintf("%s %d", nextSecret, i))}))
		}
		requireViolations(t, "too many", []string{"body max_items"},
			add("github", "acme", connections.NewWebhookSecret{Value: nextSecret}))
		require.Equal(t, connections.MaxSecrets, count(t, w, "SELECT count(*) FROM connection_secrets"))
	})
}

// Secrets of another environment's connection can be neither seen, added nor deleted.
func TestForeignSecrets(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		w.create(t, w.a, github("acme"))
		mine, err := w.svc.Secrets(t.Context(), access.Whole(w.a.Environment), "github", "acme")
		require.NoError(t, err)
		_, err = w.svc.Secrets(t.Context(), access.Whole(w.b.Environment), "github", "acme")
		requireCode(t, apperr.CodeNotFound, err)
		_, err = w.svc.AddSecret(t.Context(), w.b, "github", "acme", connections.NewWebhookSecret{Value: nextSecret})
		requireCode(t, apperr.CodeNotFound, err)
		requireCode(t, apperr.CodeNotFound, w.svc.RemoveSecret(t.Context(), w.b, "github", "acme", mine[0].ID))
		// Nor through a connection of one's own that has the same name.
		w.create(t, w.b, github("acme"))
		requireCode(t, apperr.CodeNotFound, w.svc.RemoveSecret(t.Context(), w.b, "github", "acme", mine[0].ID))
		require.Equal(t, 2, count(t, w, "SELECT count(*) FROM connection_secrets"))
	})
}

// A secret shows when it last verified a webhook, to the minute, at any rate of webhooks, and never goes back in time.
func TestLastMatch(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		w.create(t, w.a, github("acme"))
		only := func() connections.WebhookSecret {
			list, err := w.svc.Secrets(t.Context(), access.Whole(w.a.Environment), "github", "acme")
			require.NoError(t, err)
			require.Len(t, list, 1)
			return list[0]
		}
		secretID, first := only().ID, w.clock.Now()
		require.Nil(t, only().LastMatchedAt)
		at := func(offset time.Duration) {
			w.svc.Matched(secretID, first.Add(offset))
			require.NoError(t, w.svc.StoreMatches(t.Context()))
		}
		at(0)
		require.Equal(t, first, *only().LastMatchedAt)
		at(59 * time.Second)
		require.Equal(t, first, *only().LastMatchedAt, "written more than once a minute")
		at(time.Minute)
		require.Equal(t, first.Add(time.Minute), *only().LastMatchedAt)

		other := w.newService(t)
		other.Matched(secretID, first)
		require.NoError(t, other.StoreMatches(t.Context()))
		require.Equal(t, first.Add(time.Minute), *only().LastMatchedAt)

		require.NoError(t, w.svc.RemoveSecret(t.Context(), w.a, "github", "acme", secretID))
		at(time.Hour) // a webhook that was verified before the secret was deleted
		w.svc.Matched("", first)
		require.NoError(t, w.svc.StoreMatches(t.Context()))
	})
}
