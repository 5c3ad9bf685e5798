package connections_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/connections"
)

// moved leads a connection to another address, or back. Both addresses have their own host.
func (w *world) moved(t *testing.T, to string) connections.Connection {
	t.Helper()
	c, err := w.svc.Update(t.Context(), w.a, "acme", "oauth2", connections.Change{
		ConnectionConfig: patch.To(map[string]*string{"base_url": &to})})
	require.NoError(t, err)
	return c
}

// A connection whose grant is dead or whose token has expired does not become active because its address is changed and
// changed back.
func TestAddressesHealNothing(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		const elsewhere = "http://127.0.0.1:1"
		w.rotating(t, p)
		p.set(func() { p.refresh = "" })
		_, err := connections.NewRenewer(w.svc).Refresh(t.Context(), w.a, "acme", "oauth2")
		requireCode(t, apperr.CodeConnectionNotReady, err)
		require.Equal(t, "grant_refused", w.read(t, "oauth2").StatusReason)
		require.Equal(t, "grant_refused", w.moved(t, elsewhere).StatusReason)
		back := w.moved(t, p.URL)
		require.Equal(t, connections.NeedsReauth, back.Status)
		require.Equal(t, "grant_refused", back.StatusReason)
	})
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		at := w.clock.Now().Add(time.Minute)
		w.create(t, w.a, tokenConnection("oauth2", p, connections.Credentials{ExpiresAt: &at,
			Values: map[string]secretbox.Secret{"access_token": "access-0"}}))
		defer w.work(t)()
		w.looks(t, 90, connections.Expired)
		require.Equal(t, connections.NeedsReauth, w.moved(t, "http://127.0.0.1:1").Status)
		w.moved(t, p.URL)
		w.looks(t, 10, connections.Expired)
	})
}

// looks lets a worker look until the connection has the status, for at most so many seconds.
func (w *world) looks(t *testing.T, seconds int, status connections.Status) {
	t.Helper()
	await.Condition(t, "the status "+string(status), func() bool {
		if seconds > 0 && w.clock.Timers() > 0 {
			w.clock.Advance(time.Second)
			seconds--
		}
		return w.read(t, "oauth2").Status == status
	})
}

// The provider's word that a grant is dead counts also if it comes while the connection waits for something else: when
// that is over, the connection is not active with dead tokens that no one renews.
func TestDeathOutlastsAnAddress(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		w.create(t, w.a, tokenConnection("oauth2", p, connections.Credentials{
			Values: map[string]secretbox.Secret{"access_token": "access-0", "refresh_token": "refresh-0"}}))
		served, release, refused := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		p.set(func() {
			p.refresh = ""
			p.before = func() { close(served); <-release }
		})
		go func() {
			_, err := connections.NewRenewer(w.svc).Refresh(t.Context(), w.a, "acme", "oauth2")
			refused <- err
		}()
		await.Value(t, "the exchange", served)
		require.Equal(t, "host_changed", w.moved(t, "http://127.0.0.1:1").StatusReason)
		close(release)
		requireCode(t, apperr.CodeConnectionNotReady, await.Value(t, "the refusal", refused))
		back := w.moved(t, p.URL)
		require.Equal(t, connections.NeedsReauth, back.Status)
		require.Equal(t, "grant_refused", back.StatusReason)
	})
}

// Tokens that may be dead, because their endpoint has failed in the middle and wants to be left alone, do not look
// alive because the address is changed and changed back.
func TestDoubtOutlastsAnAddress(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		w.create(t, w.a, tokenConnection("oauth2", p, connections.Credentials{
			Values: map[string]secretbox.Secret{"access_token": "access-0", "refresh_token": "refresh-0"}}))
		p.set(func() { p.down, p.status, p.retryAfter = true, http.StatusBadGateway, "86400" })
		_, err := connections.NewRenewer(w.svc).Refresh(t.Context(), w.a, "acme", "oauth2")
		requireCode(t, apperr.CodeConnectionNotReady, err)
		require.Equal(t, connections.Error, w.read(t, "oauth2").Status)
		defer w.work(t)()
		w.moved(t, "http://127.0.0.1:1")
		w.moved(t, p.URL)
		w.looks(t, 10, connections.Error)
		require.Equal(t, 1, p.exchanges())
	})
}

// An endpoint that may have replaced tokens, and then fails for minutes, leaves no connection that looks well.
func TestDoubtThatLasts(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		w.create(t, w.a, tokenConnection("oauth2", p, connections.Credentials{
			Values: map[string]secretbox.Secret{"access_token": "access-0", "refresh_token": "refresh-0"}}))
		p.set(func() { p.down, p.status = true, http.StatusInternalServerError })
		_, err := connections.NewRenewer(w.svc).Refresh(t.Context(), w.a, "acme", "oauth2")
		requireCode(t, apperr.CodeConnectionNotReady, err)
		require.Equal(t, connections.Active, w.read(t, "oauth2").Status, "a provider can be wrong for a moment")
		defer w.work(t)()
		w.looks(t, 1200, connections.Error)
		require.Equal(t, "token_endpoint_failing", w.read(t, "oauth2").StatusReason)
		p.set(func() { p.down = false })
		w.looks(t, 1200, connections.Active)
	})
}

// A connection that is disabled and enabled while its endpoint wants to be left alone shows when its token has expired.
func TestExpiryWhileAnEndpointIsLeftAlone(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		w.rotating(t, p)
		p.set(func() { p.down, p.status, p.retryAfter = true, http.StatusTooManyRequests, "86400" })
		_, err := connections.NewRenewer(w.svc).Refresh(t.Context(), w.a, "acme", "oauth2")
		requireCode(t, apperr.CodeConnectionNotReady, err)
		for _, status := range []connections.Status{connections.Disabled, connections.Active} {
			_, err := w.svc.SetStatus(t.Context(), w.a, "acme", "oauth2", status)
			require.NoError(t, err)
		}
		defer w.work(t)()
		w.looks(t, 65, connections.Error)
		require.Equal(t, "token_endpoint_failing", w.read(t, "oauth2").StatusReason)
		require.Equal(t, 1, p.exchanges())
	})
}

// A connection whose tokens belong to another OAuth client does not become active by a change of its address.
func TestAnotherClientOutlastsAnAddress(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		w.rotating(t, p)
		_, err := s.DB.Write().ExecContext(t.Context(), `UPDATE connections SET status = 'needs_reauth',
			status_reason = 'client_changed', enabled_status = 'needs_reauth', enabled_reason = 'client_changed'
			WHERE environment_id = $1`, string(w.a.Environment))
		require.NoError(t, err)
		w.moved(t, "http://127.0.0.1:1")
		require.Equal(t, connections.ReasonClientChanged, w.moved(t, p.URL).StatusReason)
	})
}

// So it is if a test has found the credentials refused before, and another one finds them accepted afterwards.
func TestDeathOutlastsATest(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		w.rotating(t, p)
		test := func(denied bool) connections.Connection {
			p.set(func() { p.denied = denied })
			w.clock.Advance(40 * time.Second)
			_, err := connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", "oauth2")
			require.NoError(t, err)
			return w.read(t, "oauth2")
		}
		test(true)
		require.Equal(t, connections.ReasonCredentialsRefused, test(true).StatusReason)
		w.clock.Advance(40 * time.Second)
		p.set(func() { p.refresh = "" })
		_, err := connections.NewRenewer(w.svc).Refresh(t.Context(), w.a, "acme", "oauth2")
		requireCode(t, apperr.CodeConnectionNotReady, err)
		require.Equal(t, "grant_refused", w.read(t, "oauth2").StatusReason)
		c := test(false)
		require.Equal(t, connections.NeedsReauth, c.Status)
		require.Equal(t, "grant_refused", c.StatusReason)
	})
}

// A change of the address that is reversed does not put off the look at tokens whose exchange was interrupted.
func TestAbandonedLeaseOfAMovedConnection(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, gone := newTokenWorld(t, s)
		p := newRotor(t)
		w.create(t, w.a, tokenConnection("oauth2", p, connections.Credentials{
			Values: map[string]secretbox.Secret{"access_token": "access-0", "refresh_token": "refresh-0"}}))
		end := w.abandon(t, p, gone)
		w.moved(t, "http://127.0.0.1:1")
		w.clock.Advance(2 * time.Minute)
		defer w.work(t)()
		await.Condition(t, "the postponement", func() bool {
			if w.clock.Timers() > 0 {
				w.clock.Advance(time.Second)
			}
			return count(t, w, "SELECT count(*) FROM token_refreshes WHERE lease = ''") == 1
		})
		w.moved(t, p.URL)
		w.looks(t, 10, connections.NeedsReauth)
		require.Equal(t, "refresh_interrupted", w.read(t, "oauth2").StatusReason)
		end()
	})
}

// Credentials that are given again while a process that renews them ends may be those that it has used up: they are
// looked at when its lease ends.
func TestAbandonedLeaseOfTheSameCredentials(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, gone := newTokenWorld(t, s)
		p := newRotor(t)
		given := connections.Credentials{
			Values: map[string]secretbox.Secret{"access_token": "access-0", "refresh_token": "refresh-0"}}
		w.create(t, w.a, tokenConnection("oauth2", p, given))
		end := w.abandon(t, p, gone)
		p.set(func() { p.access = "access-0" }) // which ends later than the refresh token
		_, err := w.svc.Update(t.Context(), w.a, "acme", "oauth2", connections.Change{Credentials: patch.To(given)})
		require.NoError(t, err)
		defer w.work(t)()
		w.looks(t, 70, connections.NeedsReauth)
		require.Equal(t, "refresh_interrupted", w.read(t, "oauth2").StatusReason)
		end()
	})
}

// So they are if the connection was disabled when the lease ended.
func TestAbandonedLeaseOfTheSameDisabledCredentials(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, gone := newTokenWorld(t, s)
		p := newRotor(t)
		given := connections.Credentials{
			Values: map[string]secretbox.Secret{"access_token": "access-0", "refresh_token": "refresh-0"}}
		w.create(t, w.a, tokenConnection("oauth2", p, given))
		end := w.abandon(t, p, gone)
		p.set(func() { p.access = "access-0" })
		_, err := w.svc.Update(t.Context(), w.a, "acme", "oauth2", connections.Change{Credentials: patch.To(given)})
		require.NoError(t, err)
		_, err = w.svc.SetStatus(t.Context(), w.a, "acme", "oauth2", connections.Disabled)
		require.NoError(t, err)
		w.clock.Advance(2 * time.Minute)
		defer w.work(t)()
		await.Condition(t, "the postponement", func() bool {
			if w.clock.Timers() > 0 {
				w.clock.Advance(time.Second)
			}
			return count(t, w, "SELECT count(*) FROM token_refreshes WHERE lease = ''") == 1
		})
		_, err = w.svc.SetStatus(t.Context(), w.a, "acme", "oauth2", connections.Active)
		require.NoError(t, err)
		w.looks(t, 10, connections.NeedsReauth)
		end()
	})
}

// A node that has used a refresh token although another node has renewed the tokens meanwhile may have ended the
// grant. The tokens that the other has stored are looked at.
func TestDoubtAboutTokensOfOthers(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, gone := newTokenWorld(t, s)
		p := newRotor(t)
		w.create(t, w.a, tokenConnection("oauth2", p, connections.Credentials{
			Values: map[string]secretbox.Secret{"access_token": "access-0", "refresh_token": "refresh-0"}}))
		end := w.abandon(t, p, gone)
		p.set(func() { p.refresh = "refresh-0" }) // it renews them again
		defer w.work(t)()
		await.Condition(t, "the renewal by the other node", func() bool {
			if w.clock.Timers() > 0 {
				w.clock.Advance(time.Second)
			}
			return count(t, w, "SELECT COALESCE(max(revision), 0) FROM token_refreshes WHERE lease = ''") > 1
		})
		p.set(func() { p.refresh = "" }) // the first, which comes late, is the end of the grant
		end()
		w.looks(t, 10, connections.NeedsReauth)
		require.Equal(t, "refresh_interrupted", w.read(t, "oauth2").StatusReason)
	})
}

// Leases that have ended while the database was away are left to those who have new tokens in memory and look for it
// each second.
func TestLeasesAfterAnOutage(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, gone := newTokenWorld(t, s)
		p := newRotor(t)
		w.create(t, w.a, tokenConnection("oauth2", p, connections.Credentials{
			Values: map[string]secretbox.Secret{"access_token": "access-0", "refresh_token": "refresh-0"}}))
		end := w.abandon(t, p, gone)
		w.clock.Advance(2 * time.Minute)
		before := p.exchanges()
		defer w.work(t)() // as after an outage
		for range 4 {
			await.Condition(t, "the worker's timer", func() bool { return w.clock.Timers() > 0 })
			require.Equal(t, before, p.exchanges())
			w.clock.Advance(time.Second)
		}
		p.set(func() { p.refresh = "refresh-0" })
		end() // the one who has the lease stores its tokens
		await.Condition(t, "the tokens", func() bool { return w.read(t, "oauth2").Credentials.RefreshedAt != nil })
		require.Equal(t, connections.Active, w.read(t, "oauth2").Status)
	})
}
