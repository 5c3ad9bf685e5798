package connections_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/tokens"
)

// A refresh token that the provider has refused, or that another OAuth client got, is not sent again by itself. A user
// can have a refused one sent, and never that of another client, which may end the grant.
func TestDeadCredentialsAreNotSentAgain(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		w.rotating(t, p)
		renewer := connections.NewRenewer(w.svc)
		use := func() {
			t.Helper()
			w.clock.Advance(2 * time.Minute)
			c := w.read(t, "oauth2")
			_, err := connections.AccessToken(t.Context(), w.svc, &c)
			requireCode(t, apperr.CodeConnectionNotReady, err)
		}
		p.set(func() { p.refresh = "another" })
		use()
		require.Equal(t, tokens.ReasonGrantRefused, w.read(t, "oauth2").StatusReason)
		require.Equal(t, 1, p.exchanges())
		use()
		require.Equal(t, 1, p.exchanges(), "nothing is sent by itself")
		p.set(func() { p.refresh = "refresh-0" })
		_, err := renewer.Refresh(t.Context(), w.a, "acme", "oauth2")
		require.NoError(t, err)
		require.Equal(t, connections.Active, w.read(t, "oauth2").Status)
		require.Equal(t, 2, p.exchanges())

		_, err = w.configs.Update(t.Context(), w.a, "acme", configs.Change{ClientID: patch.To("another-client")})
		require.NoError(t, err)
		require.Equal(t, connections.ReasonClientChanged, w.read(t, "oauth2").StatusReason)
		w.clock.Advance(2 * time.Hour)
		use()
		_, err = renewer.Refresh(t.Context(), w.a, "acme", "oauth2")
		requireCode(t, apperr.CodeConnectionNotReady, err)
		service := connections.TokensModule(w.svc).Services[1]
		require.NoError(t, service.Start(t.Context()))
		now := clock.Millis(w.clock.Now())
		await.Condition(t, "the worker", func() bool {
			return count(t, w, "SELECT count(*) FROM token_refreshes WHERE lease = '' AND due_ms > $1", now) == 1
		})
		require.NoError(t, service.Drain(t.Context()))
		require.NoError(t, service.Stop(t.Context()))
		require.Equal(t, 2, p.exchanges())

		_, err = w.configs.Update(t.Context(), w.a, "acme", configs.Change{ClientID: patch.To("the-client")})
		require.NoError(t, err)
		w.followConfigs(t)
		require.Equal(t, connections.Active, w.read(t, "oauth2").Status)
		require.Equal(t, 1, count(t, w, "SELECT count(*) FROM token_refreshes WHERE due_ms <= $1",
			clock.Millis(w.clock.Now().Add(time.Minute))), "the postponement ends")
		c := w.read(t, "oauth2")
		_, err = connections.AccessToken(t.Context(), w.svc, &c)
		require.NoError(t, err)
		require.Equal(t, 3, p.exchanges())
	})
}

// A user cannot have a token endpoint asked more than once in 30 seconds, and learns how long to wait.
func TestRefreshesOnRequestAreLimited(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		w.rotating(t, p)
		renewer := connections.NewRenewer(w.svc)
		_, err := renewer.Refresh(t.Context(), w.a, "acme", "oauth2")
		require.NoError(t, err)
		w.clock.Advance(10 * time.Second)
		_, err = renewer.Refresh(t.Context(), w.a, "acme", "oauth2")
		requireCode(t, apperr.CodeConnectionNotReady, err)
		var refused *apperr.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, 20*time.Second, refused.RetryAfter)
		require.Equal(t, 1, p.exchanges())
		w.clock.Advance(20 * time.Second)
		_, err = renewer.Refresh(t.Context(), w.a, "acme", "oauth2")
		require.NoError(t, err)
		require.Equal(t, 2, p.exchanges())
	})
}

// A connection whose settings do not fit the definition any more has the status error from the end of its token.
func TestUnfitSettingsAreAnError(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		f := w.newFolder(t, tokenAPI)
		w.svc = f.svc
		p := newRotor(t)
		w.rotating(t, p)
		f.write(strings.Replace(tokenAPI, "  - mode: oauth2\n", "  - mode: oauth2\n    name: renamed\n", 1))
		f.follow()
		w.clock.Advance(2 * time.Minute)
		service := connections.TokensModule(w.svc).Services[1]
		require.NoError(t, service.Start(t.Context()))
		await.Condition(t, "the status", func() bool { return w.read(t, "oauth2").Status == connections.Error })
		require.NoError(t, service.Drain(t.Context()))
		require.NoError(t, service.Stop(t.Context()))
		require.Equal(t, tokens.ReasonMisconfigured, w.read(t, "oauth2").StatusReason)
		require.Zero(t, p.exchanges())
	})
}
