package connections_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/module"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
)

// Another OAuth client makes all connections with tokens of the former one need their credentials again, each with an
// event, however many there are: the first ones with the change, the others from a worker. It leaves credentials that
// were given since, and those that do not belong to the client. A command line leaves all connections to the server,
// so that no event is missing. When the former client returns, its tokens can be used again.
func TestAnotherClient(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		seen := w.record()
		w, _ = w.withTokens(t)
		p := newRotor(t)
		given := patch.To(connections.Credentials{Values: map[string]secretbox.Secret{"access_token": "access-0",
			"refresh_token": "refresh-0"}})
		const many = 130
		for i := range many {
			in := tokenConnection("oauth2", p, given.Value)
			in.ConnectionID, in.Untested = ptr(fmt.Sprintf("c-%d", i)), true
			w.create(t, w.a, in)
		}
		own := tokenConnection("oauth2_client_credentials", p, connections.Credentials{
			Values: map[string]secretbox.Secret{"client_id": "me", "client_secret": "good"}})
		own.Untested = true
		w.create(t, w.a, own)
		change := func(clientID string) {
			_, err := w.configs.Update(t.Context(), w.a, "acme", configs.Change{ClientID: patch.To(clientID)})
			require.NoError(t, err)
		}
		work := func() { w.followConfigs(t) }
		condemned := func() int {
			return count(t, w, "SELECT count(*) FROM connections WHERE status = 'needs_reauth'")
		}

		change("another")
		require.Equal(t, 100, condemned(), "the change takes no longer however many there are")
		w.clock.Advance(time.Second)
		var id string
		require.NoError(t, s.DB.Read().QueryRowContext(t.Context(), `SELECT connection_id FROM connections
			WHERE status = 'active' AND auth_mode = 'oauth2' ORDER BY uuid LIMIT 1`).Scan(&id))
		_, err := w.svc.Update(t.Context(), w.a, "acme", id, connections.Change{Credentials: given})
		require.NoError(t, err)
		work()
		require.Equal(t, many-1, condemned())
		require.Len(t, seen(connections.LostCredentials), many-1)
		require.Equal(t, connections.Active, w.read(t, id).Status)
		require.Equal(t, connections.Active, w.read(t, "oauth2_client_credentials").Status)

		hooks := w.watch.OnChange
		w.watch.OnChange = nil // as on the command line
		w.clock.Advance(time.Second)
		change("a third")
		require.Equal(t, connections.Active, w.read(t, id).Status)
		w.watch.OnChange = hooks
		work()
		after := w.read(t, id)
		require.Equal(t, connections.NeedsReauth, after.Status)
		require.Equal(t, connections.ReasonClientChanged, after.StatusReason)
		require.Len(t, seen(connections.LostCredentials), many)

		w.clock.Advance(time.Second)
		change("the-client")
		work()
		require.Equal(t, 1, condemned())
		require.Equal(t, connections.ReasonClientChanged, w.read(t, id).StatusReason)
		require.Len(t, seen(connections.Recovered), many-1)
	})
}

// followConfigs lets the worker give all connections the status that a change of their configuration leads to.
func (w *world) followConfigs(t *testing.T) {
	t.Helper()
	job := w.watch.Extend(module.Module{}, w.svc).Jobs[0]
	_, err := job.Run(t.Context())
	require.NoError(t, err)
	require.Zero(t, count(t, w, "SELECT count(*) FROM connection_client_changes"))
}

// Tokens of a client that is not known belong to the first one that the provider configuration gets, and so do not
// change with it. Another one makes them unusable, until it is that again.
func TestFirstClient(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		change := func(clientID patch.Field[string], status connections.Status) {
			t.Helper()
			_, err := w.configs.Update(t.Context(), w.a, "acme", configs.Change{ClientID: clientID})
			require.NoError(t, err)
			w.followConfigs(t)
			if status != "" {
				require.Equal(t, status, w.read(t, "oauth2").Status)
			}
		}
		change(patch.Clear[string](), "")
		in := tokenConnection("oauth2", newRotor(t), connections.Credentials{
			Values: map[string]secretbox.Secret{"access_token": "access-0"}})
		in.Untested = true
		w.create(t, w.a, in)
		change(patch.To("first"), connections.Active)
		change(patch.To("second"), connections.NeedsReauth)
		change(patch.Clear[string](), connections.NeedsReauth)
		change(patch.To("first"), connections.Active)
	})
}

// Tokens that are stored next to a change of the OAuth client belong to the former one, and no worker that follows the
// change has seen them. They end in needs_reauth when they are renewed, nothing is sent, and the former client can use
// them when it returns.
func TestTokensOfAFormerClient(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		w.rotating(t, p)
		_, err := s.DB.Write().ExecContext(t.Context(), `UPDATE connection_credentials SET client_id = 'the-former'`)
		require.NoError(t, err)
		exchanges, service := connections.TokensModule(w.svc).Services[0], connections.TokensModule(w.svc).Services[1]
		w.clock.Advance(50 * time.Second)
		require.NoError(t, service.Start(t.Context()))
		await.Condition(t, "the status", func() bool { return w.read(t, "oauth2").Status == connections.NeedsReauth })
		require.NoError(t, service.Drain(t.Context()))
		require.NoError(t, service.Stop(t.Context()))
		require.NoError(t, exchanges.Stop(t.Context()))
		require.Equal(t, connections.ReasonClientChanged, w.read(t, "oauth2").StatusReason)
		require.Zero(t, p.exchanges())
		_, err = w.configs.Update(t.Context(), w.a, "acme", configs.Change{ClientID: patch.To("the-former")})
		require.NoError(t, err)
		w.followConfigs(t)
		require.Equal(t, connections.Active, w.read(t, "oauth2").Status)
	})
}
