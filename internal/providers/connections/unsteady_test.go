package connections_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/role"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/probes"
	"sallyport/internal/providers/tokens"
)

// A token endpoint that says that its tokens live for a moment is not asked again before the cool-down has passed: it
// costs the gateway two transactions each time. A life of less than a second is believed by no one.
func TestTokensThatExpireImmediately(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		w.rotating(t, p)
		for life, scheduled := range map[float64]int{0.001: 0, 1: 1, 20: 1} {
			p.set(func() { p.more = map[string]any{"expires_in": life} })
			_, err := connections.NewRenewer(w.svc).Refresh(t.Context(), w.a, "acme", "oauth2")
			require.NoError(t, err)
			soonest := clock.Millis(w.clock.Now().Add(30 * time.Second))
			require.Equal(t, scheduled, count(t, w, "SELECT count(*) FROM token_refreshes WHERE due_ms >= $1", soonest), life)
			require.Zero(t, count(t, w, "SELECT count(*) FROM token_refreshes WHERE due_ms < $1", soonest), life)
			w.clock.Advance(time.Minute)
		}
	})
}

// An endpoint that asks to wait is left alone by requests as well, however many there are; they learn how long it
// takes. Without such a wish, requests do not ask more than once in some minutes while it fails again and again.
func TestRequestsLeaveAFailingEndpointAlone(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		c := w.rotating(t, p)
		w.clock.Advance(2 * time.Minute)
		use := func() time.Duration {
			_, err := connections.AccessToken(t.Context(), w.svc, &c)
			requireCode(t, apperr.CodeConnectionNotReady, err)
			var refused *apperr.Error
			require.ErrorAs(t, err, &refused)
			return refused.RetryAfter
		}
		p.set(func() { p.down, p.retryAfter = true, "600" })
		use()
		w.clock.Advance(9 * time.Minute)
		require.Equal(t, time.Minute, use())
		require.Equal(t, 1, p.exchanges())
		w.clock.Advance(time.Minute)
		p.set(func() { p.retryAfter = "" })
		for range 60 { // of ten seconds each
			use()
			w.clock.Advance(10 * time.Second)
		}
		require.InDelta(t, 8, p.exchanges(), 2)
		p.set(func() { p.down = false })
		w.clock.Advance(2 * time.Minute)
		_, err := connections.AccessToken(t.Context(), w.svc, &c)
		require.NoError(t, err, "it is found to work again")
	})
}

// A revocation for which the provider wants a valid access token gets one: an expired one is renewed before.
func TestRevocationWithAnExpiredToken(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		w.svc = w.newFolder(t, strings.Replace(tokenAPI, `    revoke_url: "${config.base_url}/revoke"
`, `    revoke: {url: "${config.base_url}/revoke", form: {token: "${cred.access_token}"}, ok: "200"}
`, 1)).svc
		p := newRotor(t)
		w.rotating(t, p)
		w.clock.Advance(2 * time.Minute)
		out, err := connections.NewRenewer(w.svc).Revoke(t.Context(), w.a, "acme", "oauth2")
		require.NoError(t, err)
		require.Equal(t, connections.Revocation{Upstream: true}, out)
		require.Equal(t, []string{"access-1"}, p.revoked)
	})
}

// A connection that is enabled again has its tokens renewed when that is due, and not after the hour for which a
// renewal is put off while it is disabled.
func TestEnablingEndsAPostponement(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		w.rotating(t, newRotor(t))
		_, err := w.svc.SetStatus(t.Context(), w.a, "acme", "oauth2", connections.Disabled)
		require.NoError(t, err)
		w.clock.Advance(2 * time.Minute)
		free := func(due string) int {
			return count(t, w, "SELECT count(*) FROM token_refreshes WHERE lease = '' AND due_ms "+due+" $1",
				clock.Millis(w.clock.Now().Add(time.Minute)))
		}
		service := connections.TokensModule(w.svc).Services[1]
		require.NoError(t, service.Start(t.Context()))
		await.Condition(t, "the postponement", func() bool { return free(">") == 1 })
		require.NoError(t, service.Stop(t.Context()))
		_, err = w.svc.SetStatus(t.Context(), w.a, "acme", "oauth2", connections.Active)
		require.NoError(t, err)
		require.Equal(t, 1, free("<="))
	})
}

// A token that was made elsewhere, and given without its end, is renewed before the end that the provider's tokens
// usually have.
func TestUsualLifeOfTokens(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		w.svc = w.newFolder(t, strings.Replace(tokenAPI, "    client_auth: none\n",
			"    client_auth: none\n    token: {default_ttl: 24h}\n", 1)).svc
		p := newRotor(t)
		in := tokenConnection("oauth2", p, connections.Credentials{
			Values: map[string]secretbox.Secret{"access_token": "access-0", "refresh_token": "refresh-0"}})
		w.create(t, w.a, in)
		require.Equal(t, 1, count(t, w, "SELECT count(*) FROM token_refreshes WHERE due_ms < $1",
			clock.Millis(w.clock.Now().Add(24*time.Hour))))
	})
}

// A refresh token that is refused after an error of a gateway in front of the token endpoint may have been replaced
// behind it, which the reason says. After a refusal to serve anyone, and where nothing was sent, it has not.
func TestReasonAfterAnError(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		for status, reason := range map[int]string{http.StatusBadGateway: tokens.ReasonRefreshInterrupted,
			http.StatusServiceUnavailable: tokens.ReasonGrantRefused} {
			p := newRotor(t)
			w.rotating(t, p)
			use := func() {
				w.clock.Advance(2 * time.Minute)
				c := w.read(t, "oauth2")
				_, err := connections.AccessToken(t.Context(), w.svc, &c)
				requireCode(t, apperr.CodeConnectionNotReady, err)
			}
			p.set(func() { p.down, p.status = true, status })
			use()
			p.set(func() { p.down, p.refresh = false, "another" })
			use()
			require.Equal(t, reason, w.read(t, "oauth2").StatusReason, status)
			require.NoError(t, w.svc.Delete(t.Context(), w.a, "acme", "oauth2"))
		}
	})
}

// A refresh token without an OAuth client is refused: it could not be used, which would show in an hour only.
func TestRefreshTokenNeedsAClient(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.svc = w.newFolder(t, tokenAPI).svc
		p := newRotor(t)
		given := map[string]secretbox.Secret{"access_token": "access-0", "refresh_token": "refresh-0"}
		_, _, err := w.svc.Create(t.Context(), w.a, tokenConnection("oauth2", p, connections.Credentials{Values: given}))
		requireCode(t, apperr.CodeProviderNotConfigured, err)
		delete(given, "refresh_token")
		w.create(t, w.a, tokenConnection("oauth2", p, connections.Credentials{Values: given}))
	})
}

// instanceAPI is a definition whose API is at a host that the token names.
var instanceAPI = strings.NewReplacer(
	`  base_url: {type: url, title: URL, example: "https://api.rotor.example"}`,
	`  base_url: {type: url, title: URL, example: "https://login.rotor.example"}
  instance_url: {type: url, title: Instance, example: "https://7.rotor.example", source: token_response}`,
	`base_url: "${config.base_url}"
allowed_hosts: ["${config.base_url}"]`,
	`base_url: "${config.instance_url}"
allowed_hosts: ["${config.base_url}", "${config.instance_url}"]`,
	"client_auth: none", `client_auth: none
    token_metadata: {instance_url: /instance_url}`,
	`token_url: "${config.base_url}/token"}`,
	`token_url: "${config.base_url}/token", token_metadata: {instance_url: /instance_url}}`,
).Replace(tokenAPI)

// Credentials whose API is at a host that the first token names can be stored without a test, or while the provider is
// away: the first token brings the host, to which they then belong. No later token moves them.
func TestFirstTokenNamesTheHost(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		w.svc = w.newFolder(t, instanceAPI).svc
		for name, untested := range map[string]bool{"away": false, "untested": true} {
			p := newRotor(t)
			instance, elsewhere := httptest.NewServer(p), newRotor(t)
			await.Close(t, instance)
			p.set(func() { p.down, p.more = true, map[string]any{"instance_url": instance.URL} })
			in := tokenConnection("oauth2_client_credentials", p, connections.Credentials{
				Values: map[string]secretbox.Secret{"client_id": "me", "client_secret": "good"}})
			in.ConnectionID, in.Untested = &name, untested
			c := w.create(t, w.a, in)
			require.Len(t, c.Credentials.Hosts, 1)
			_, err := w.svc.Update(t.Context(), w.a, "acme", name, connections.Change{
				ConnectionConfig: patch.To(map[string]*string{"base_url": &p.URL})})
			require.NoError(t, err, "the host is not needed before the token")

			p.set(func() { p.down = false })
			_, err = connections.AccessToken(t.Context(), w.svc, &c)
			require.NoError(t, err)
			tested, err := connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", name)
			require.NoError(t, err)
			require.Equal(t, connections.Active, tested.Connection.Status)
			require.Equal(t, probes.Healthy, tested.Connection.Health.Status)
			require.Len(t, w.read(t, name).Credentials.Hosts, 2)

			p.set(func() { p.more = map[string]any{"instance_url": elsewhere.URL} })
			w.clock.Advance(2 * time.Hour)
			c = w.read(t, name)
			_, err = connections.AccessToken(t.Context(), w.svc, &c)
			requireCode(t, apperr.CodeConnectionNotReady, err)
			_, err = connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", name)
			require.ErrorIs(t, err, tokens.ErrHosts)
			require.Equal(t, connections.ReasonHostChanged, w.read(t, name).StatusReason)
			require.Zero(t, elsewhere.exchanges())
		}
	})
}

// While a provider is away, its refusal of an access token that cannot be renewed says nothing about the credentials.
func TestOutageIsNoRefusal(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		w.rotating(t, p)
		p.set(func() { p.access, p.down = "another", true })
		for range 3 { // the second is within the cool-down of the first
			w.clock.Advance(10 * time.Second)
			tested, err := connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", "oauth2")
			require.NoError(t, err)
			require.Equal(t, connections.Active, tested.Connection.Status)
			require.Equal(t, probes.Degraded, tested.Connection.Health.Status)
		}
		p.set(func() { p.down = false })
		w.clock.Advance(time.Minute)
		tested, err := connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", "oauth2")
		require.NoError(t, err)
		require.Equal(t, probes.Healthy, tested.Connection.Health.Status)
	})
}

// A test that finds the grant dead shows that, although the status has changed during the test.
func TestDeadGrantIsTheOutcome(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		w.rotating(t, p)
		p.set(func() { p.access, p.refresh = "", "" })
		w.clock.Advance(10 * time.Second) // the test of its creation is not recent any more
		tested, err := connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", "oauth2")
		require.NoError(t, err)
		require.Equal(t, connections.NeedsReauth, tested.Connection.Status)
		require.Equal(t, tokens.ReasonGrantRefused, tested.Connection.StatusReason)
		require.Equal(t, probes.CodeCredentialsRefused, tested.Connection.Health.Code)
	})
}

// moveTo gives the connection credentials of another provider.
func (w *world) moveTo(t *testing.T, svc *connections.Service, p *rotor, life time.Duration) {
	t.Helper()
	at := w.clock.Now().Add(life)
	_, err := svc.Update(t.Context(), w.a, "acme", "oauth2", connections.Change{
		Credentials: patch.To(connections.Credentials{ExpiresAt: &at,
			Values: map[string]secretbox.Secret{"access_token": "access-0", "refresh_token": "refresh-0"}}),
		ConnectionConfig: patch.To(map[string]*string{"base_url": &p.URL})})
	require.NoError(t, err)
}

// A connection that was given credentials for another host is not taken for one whose host has changed, by a node that
// has its former credentials in memory, or that has read it just before.
func TestReadsOfDifferentTimes(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, other := newTokenWorld(t, s)
		p, q := newRotor(t), newRotor(t)
		c := w.rotating(t, p)
		_, err := connections.AccessToken(t.Context(), other, &c)
		require.NoError(t, err)
		w.moveTo(t, w.svc, q, time.Minute)
		_, err = connections.NewTester(other).Test(t.Context(), w.a, "acme", "oauth2")
		require.NoError(t, err)
		require.Equal(t, connections.Active, w.read(t, "oauth2").Status)

		w.clock.Advance(2 * time.Minute)
		last := newRotor(t)
		other.BeforeCredentials(func() { w.moveTo(t, w.svc, last, time.Hour) })
		service := connections.TokensModule(other).Services[1]
		require.NoError(t, service.Start(t.Context()))
		await.Condition(t, "the renewal of the last", func() bool { return last.exchanges() == 1 })
		require.NoError(t, service.Stop(t.Context()))
		require.Equal(t, connections.Active, w.read(t, "oauth2").Status)
	})
}

// Credentials that are given while a node finds that it has nothing to renew keep the time of their own renewal.
func TestScheduleOfNewCredentials(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, other := newTokenWorld(t, s)
		p := newRotor(t)
		w.rotating(t, p)
		_, err := w.svc.SetStatus(t.Context(), w.a, "acme", "oauth2", connections.Disabled)
		require.NoError(t, err)
		w.clock.Advance(2 * time.Minute)
		other.BeforeCredentials(func() { w.moveTo(t, w.svc, p, 30*time.Minute) })
		service := connections.TokensModule(other).Services[1]
		require.NoError(t, service.Start(t.Context()))
		await.Condition(t, "the renewal that is not made", func() bool {
			return count(t, w, "SELECT count(*) FROM token_refreshes WHERE lease = '' AND due_ms > $1",
				clock.Millis(w.clock.Now())) == 1
		})
		require.NoError(t, service.Stop(t.Context()))
		require.Equal(t, 1, count(t, w, "SELECT count(*) FROM token_refreshes WHERE due_ms < $1",
			clock.Millis(w.clock.Now().Add(30*time.Minute))))
	})
}

// A revocation waits for the refresh that is in progress on another node: it revokes the tokens that this one has got,
// and not those that it replaced. It never uses tokens that another node has replaced.
func TestRevocationWaitsForARefresh(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, other := newTokenWorld(t, s)
		p := newRotor(t)
		c := w.rotating(t, p)
		reached, release := make(chan struct{}, 1), make(chan struct{})
		p.set(func() {
			p.before = func() {
				reached <- struct{}{}
				<-release
			}
		})
		w.clock.Advance(2 * time.Minute)
		refreshed, revoked, failed := make(chan error, 1), make(chan connections.Revocation, 1), make(chan error, 1)
		go func() {
			_, err := connections.AccessToken(t.Context(), other, &c)
			refreshed <- err
		}()
		await.Value(t, "the exchange", reached)
		go func() {
			out, err := connections.NewRenewer(w.svc).Revoke(t.Context(), w.a, "acme", "oauth2")
			failed <- err
			revoked <- out
		}()
		await.Condition(t, "the revocation that waits", func() bool { return w.clock.Timers() > 0 || len(revoked) > 0 })
		close(release)
		await.Condition(t, "the revocation", func() bool {
			if w.clock.Timers() > 0 {
				w.clock.Advance(100 * time.Millisecond)
			}
			return len(revoked) == 1
		})
		require.Equal(t, connections.Revocation{Upstream: true}, <-revoked)
		require.NoError(t, <-failed)
		_ = await.Value(t, "the request that waited for the token", refreshed) // it comes before the removal, or after
		require.Equal(t, []string{"refresh-1"}, p.revoked)
		require.Equal(t, connections.Revoked, w.read(t, "oauth2").Status)

		p.set(func() { p.before, p.access, p.refresh = nil, "access-0", "refresh-0" })
		w.moveTo(t, w.svc, p, time.Hour)
		c = w.read(t, "oauth2")
		_, err := connections.AccessToken(t.Context(), other, &c)
		require.NoError(t, err)
		_, err = connections.NewRenewer(w.svc).Refresh(t.Context(), w.a, "acme", "oauth2")
		require.NoError(t, err)
		out, err := connections.NewRenewer(other).Delete(t.Context(), w.a, "acme", "oauth2")
		require.NoError(t, err)
		require.True(t, out.Upstream)
		require.Equal(t, []string{"refresh-1", "refresh-2"}, p.revoked)
	})
}

// Exchanges that requests wait for are awaited at the stop of a node that renews nothing by itself: the tokens of a
// response that is not stored are lost.
func TestStopWaitsForExchanges(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		c := w.rotating(t, p)
		reached, release := make(chan struct{}, 1), make(chan struct{})
		p.set(func() {
			p.before = func() {
				reached <- struct{}{}
				<-release
			}
		})
		w.clock.Advance(2 * time.Minute)
		gone, leave := context.WithCancel(t.Context())
		refreshed := make(chan error, 1)
		go func() {
			_, err := connections.AccessToken(gone, w.svc, &c)
			refreshed <- err
		}()
		await.Value(t, "the exchange", reached)
		leave()
		require.ErrorIs(t, await.Value(t, "the request", refreshed), context.Canceled)
		stopped := make(chan error, 1)
		for _, service := range connections.TokensModule(w.svc).Services {
			if role.API.Does(service.Part) {
				go func() { stopped <- service.Stop(t.Context()) }()
			}
		}
		close(release)
		require.NoError(t, await.Value(t, "the stop", stopped))
		require.NotNil(t, w.read(t, "oauth2").Credentials.RefreshedAt)
	})
}

// A token that is too long to be stored is a failed exchange, which ends: it does not occupy the lease.
func TestTokenTooLongToStore(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		w.rotating(t, p)
		p.set(func() { p.more = map[string]any{"access_token": strings.Repeat("x", 20<<10)} })
		ended := make(chan error, 1)
		go func() {
			_, err := connections.NewRenewer(w.svc).Refresh(t.Context(), w.a, "acme", "oauth2")
			ended <- err
		}()
		requireCode(t, apperr.CodeConnectionNotReady, await.Value(t, "the end of the exchange", ended))
		require.Zero(t, count(t, w, "SELECT count(*) FROM token_refreshes WHERE lease <> ''"))
	})
}
