package connections_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
)

// The worker renews tokens before they expire. A token endpoint that hangs for more connections than it has places
// delays neither those of another endpoint nor those of another environment, and the worker stops while it hangs.
func TestWorkerIsFair(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		_, err := w.configs.Create(t.Context(), w.b, configs.NewConfig{Provider: "acme", Key: ptr("acme"),
			Change: configs.Change{ClientID: patch.To("another-client")}})
		require.NoError(t, err)
		p := newRotor(t)
		release := make(chan struct{})
		reached := make(chan struct{}, 200)
		hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			reached <- struct{}{}
			<-release
		}))
		await.Close(t, hanging)
		end := sync.OnceFunc(func() { close(release) })
		t.Cleanup(end) // a failed test ends, too
		at := w.clock.Now().Add(time.Hour)
		mode := "oauth2"
		store := func(who access.Principal, name, url string) {
			in := tokenConnection(mode, p, connections.Credentials{ExpiresAt: &at,
				Values: map[string]secretbox.Secret{"access_token": "access-0", "refresh_token": "refresh-0"}})
			in.ConnectionID, in.Untested = &name, true
			in.ConnectionConfig = patch.To(map[string]*string{"base_url": &url})
			w.create(t, who, in)
		}
		const waiting = 70
		for i := range waiting {
			store(w.a, fmt.Sprintf("hangs-%02d", i), hanging.URL)
		}
		store(w.a, "works", p.URL)
		store(w.b, "also-hangs", hanging.URL)
		exchanges, service := connections.TokensModule(w.svc).Services[0], connections.TokensModule(w.svc).Services[1]
		w.clock.Advance(59 * time.Minute)
		require.NoError(t, exchanges.Start(t.Context()))
		require.NoError(t, service.Start(t.Context()))
		looks := 10 // leases of a minute must not end
		await.Condition(t, "the renewal at the other endpoint", func() bool {
			if looks > 0 && w.clock.Timers() > 0 && p.exchanges() == 0 {
				w.clock.Advance(time.Second)
				looks--
			}
			return w.read(t, "works").Credentials.RefreshedAt != nil
		})
		await.Condition(t, "the places of the endpoint that hangs", func() bool { return len(reached) == 65 },
			func() string { return fmt.Sprint(len(reached), " exchanges hang") })
		require.NoError(t, service.Drain(t.Context()))
		end()
		require.NoError(t, service.Stop(t.Context()))
		require.NoError(t, exchanges.Stop(t.Context()))
		require.Equal(t, connections.Active, w.read(t, "hangs-00").Status, "an outage condemns no one")
		require.Zero(t, count(t, w, "SELECT count(*) FROM token_refreshes WHERE lease <> ''"))
	})
}

// An access token that has expired before it is given, as in an export of another product, is stored without a test and
// renewed by the worker. Without a refresh token it is of no use, and refused.
func TestExpiredTokenIsRenewed(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		at := w.clock.Now().Add(-time.Hour)
		in := tokenConnection("oauth2", p, connections.Credentials{ExpiresAt: &at,
			Values: map[string]secretbox.Secret{"access_token": "of-last-year", "refresh_token": "refresh-0"}})
		c := w.create(t, w.a, in)
		require.Equal(t, connections.Active, c.Status)
		require.Zero(t, p.exchanges())
		exchanges, service := connections.TokensModule(w.svc).Services[0], connections.TokensModule(w.svc).Services[1]
		require.NoError(t, exchanges.Start(t.Context()))
		require.NoError(t, service.Start(t.Context()))
		looks := 10 // some seconds at most
		await.Condition(t, "the renewal", func() bool {
			if looks > 0 && w.clock.Timers() > 0 && p.exchanges() == 0 {
				w.clock.Advance(time.Second)
				looks--
			}
			return w.read(t, "oauth2").Credentials.RefreshedAt != nil
		})
		require.Equal(t, connections.Active, w.read(t, "oauth2").Status)
		require.NoError(t, service.Stop(t.Context()))
		require.NoError(t, exchanges.Stop(t.Context()))

		delete(in.Credentials.Value.Values, "refresh_token")
		name := "without"
		in.ConnectionID = &name
		_, _, err := w.svc.Create(t.Context(), w.a, in)
		requireCode(t, apperr.CodeValidation, err)
	})
}

// The outcome of a renewal is stored before the jobs that wait, with the requests of its environment: another tenant's
// work in the class of jobs would keep it waiting until its lease has ended, and tokens that the provider has replaced
// would be lost.
func TestOutcomesGoBeforeJobs(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		if s.DB.Engine() != db.SQLite {
			t.Skip("only SQLite's writers take turns")
		}
		w := newWorld(t, s)
		var mu sync.Mutex
		var order []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, what)
		}
		w.hooks = append(w.hooks, func(_ context.Context, _ *sql.Tx, _ *connections.Connection,
			kind connections.ChangeKind) error {
			if kind == connections.LostCredentials {
				note("outcome")
			}
			return nil
		})
		w, _ = w.withTokens(t)
		p := newRotor(t)
		reached, release := make(chan struct{}), make(chan struct{})
		p.set(func() { p.before = func() { close(reached); <-release } })
		w.rotating(t, p)
		exchanges, service := connections.TokensModule(w.svc).Services[0], connections.TokensModule(w.svc).Services[1]
		w.clock.Advance(50 * time.Second)
		require.NoError(t, service.Start(t.Context()))
		await.Value(t, "the exchange", reached)
		// No further look at what is due needs the writer.
		require.NoError(t, service.Drain(t.Context()))

		var all sync.WaitGroup
		begun, end := make(chan struct{}), make(chan struct{})
		write := func(owner string, fn func()) {
			all.Go(func() {
				ctx := db.WithOwner(db.WithTurn(t.Context(), db.TurnJob), owner)
				if err := s.DB.Tx(ctx, func(*sql.Tx) error { fn(); return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		write("busy", func() { close(begun); <-end })
		await.Value(t, "the writer", begun)
		const jobs = 20
		for i := range jobs {
			write(fmt.Sprint("env-", i), func() { note("job") })
		}
		await.Condition(t, "the jobs", func() bool { return s.DB.Waiting() == jobs })
		p.set(func() { p.refresh = "" }) // the provider refuses the token, which is an event
		close(release)
		await.Condition(t, "the outcome", func() bool { return s.DB.Waiting() == jobs+1 })
		close(end)
		all.Wait()
		require.NoError(t, service.Stop(t.Context()))
		require.NoError(t, exchanges.Stop(t.Context()))
		require.Equal(t, "outcome", order[0], order)
		require.Len(t, order, jobs+1)
	})
}

// abandon makes the exchange of a refresh that a user wants on another node, which the provider serves and whose
// outcome is never stored: its tokens are dead then, and the lease is left. The returned function ends it.
func (w *world) abandon(t *testing.T, p *rotor, node *connections.Service) (end func()) {
	t.Helper()
	served, release, refreshed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	p.set(func() {
		p.down = false
		p.before = func() { // as if the response never came to the one who has to store it
			p.set(func() { p.before, p.refresh, p.access = nil, "refresh-lost", "access-lost" })
			close(served)
			<-release
		}
	})
	go func() {
		defer close(refreshed)
		_, _ = connections.NewRenewer(node).Refresh(t.Context(), w.a, "acme", "oauth2")
	}()
	await.Value(t, "the exchange of the process that ends", served)
	return func() {
		close(release)
		await.Value(t, "the end of the first exchange", refreshed)
	}
}

// look lets a worker look until the connection has the status, for at most so many seconds, and returns how many of
// them are left. It goes on to look at a connection of which nothing is done until exchanges have begun.
func (w *world) look(t *testing.T, p *rotor, seconds int, status connections.Status) (left int) {
	t.Helper()
	before := p.exchanges()
	await.Condition(t, "a look at the abandoned lease", func() bool {
		if seconds > 0 && w.clock.Timers() > 0 && p.exchanges() == before {
			w.clock.Advance(time.Second)
			seconds--
		}
		return w.read(t, "oauth2").Status == status
	})
	return seconds
}

// work starts the worker, until the returned function is called.
func (w *world) work(t *testing.T) (stop func()) {
	t.Helper()
	exchanges, service := connections.TokensModule(w.svc).Services[0], connections.TokensModule(w.svc).Services[1]
	require.NoError(t, exchanges.Start(t.Context()))
	require.NoError(t, service.Start(t.Context()))
	return func() {
		require.NoError(t, service.Stop(t.Context()))
		require.NoError(t, exchanges.Stop(t.Context()))
	}
}

// A process that ends between the provider's response and its commit leaves a lease that no one releases. The
// connection is not active with dead tokens until their usual renewal, which may be far away: when the lease has ended,
// a worker finds that the provider has replaced them. So it is if the endpoint had asked before to be left alone.
func TestAbandonedLeaseIsFollowed(t *testing.T) {
	t.Parallel()
	inAYear := ptr(time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC))
	for name, c := range map[string]struct {
		expires *time.Time
		wait    string
	}{"in a year": {inAYear, ""}, "not known": {nil, ""}, "left alone": {inAYear, "86400"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Each(t, func(t *testing.T, s testkit.Store) {
				w, gone := newTokenWorld(t, s)
				p := newRotor(t)
				w.create(t, w.a, tokenConnection("oauth2", p, connections.Credentials{ExpiresAt: c.expires,
					Values: map[string]secretbox.Secret{"access_token": "access-0", "refresh_token": "refresh-0"}}))
				if c.wait != "" {
					p.set(func() { p.down, p.retryAfter, p.status = true, c.wait, http.StatusTooManyRequests })
					_, err := connections.NewRenewer(w.svc).Refresh(t.Context(), w.a, "acme", "oauth2")
					requireCode(t, apperr.CodeConnectionNotReady, err)
					w.clock.Advance(31 * time.Second)
				}
				end := w.abandon(t, p, gone)
				defer w.work(t)()
				left := w.look(t, p, 90, connections.NeedsReauth)
				require.Equal(t, "refresh_interrupted", w.read(t, "oauth2").StatusReason)
				require.Less(t, left, 31, "not before the lease has ended")
				end()
			})
		})
	}
}

// A connection that is disabled while the process that renews its tokens ends is looked at as soon as it is enabled,
// and not when its tokens would be renewed as usual.
func TestAbandonedLeaseOfADisabledConnection(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, gone := newTokenWorld(t, s)
		p := newRotor(t)
		w.create(t, w.a, tokenConnection("oauth2", p, connections.Credentials{
			Values: map[string]secretbox.Secret{"access_token": "access-0", "refresh_token": "refresh-0"}}))
		end := w.abandon(t, p, gone)
		_, err := w.svc.SetStatus(t.Context(), w.a, "acme", "oauth2", connections.Disabled)
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
		w.look(t, p, 10, connections.NeedsReauth)
		require.Equal(t, "refresh_interrupted", w.read(t, "oauth2").StatusReason)
		end()
	})
}

// Where the endpoint that has to say whether the tokens are dead wants to be left alone for long, the connection does
// not show meanwhile that all is well.
func TestAbandonedLeaseAtABusyEndpoint(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, gone := newTokenWorld(t, s)
		p := newRotor(t)
		w.create(t, w.a, tokenConnection("oauth2", p, connections.Credentials{
			Values: map[string]secretbox.Secret{"access_token": "access-0", "refresh_token": "refresh-0"}}))
		end := w.abandon(t, p, gone)
		p.set(func() { p.down, p.retryAfter, p.status = true, "86400", http.StatusTooManyRequests })
		defer w.work(t)()
		w.look(t, p, 90, connections.Error)
		require.Equal(t, "token_endpoint_failing", w.read(t, "oauth2").StatusReason)
		end()
	})
}

// A lease that ends while the node still waits for the provider, or for the database to take the outcome, does not make
// the same node send the refresh token a second time, for which the provider would end the grant. The outcome is
// stored.
func TestOneExchangeAfterTheLease(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		var begun atomic.Int32
		release := make(chan struct{})
		end := sync.OnceFunc(func() { close(release) })
		t.Cleanup(end) // a failed test ends, too
		p.set(func() { p.before = func() { begun.Add(1); <-release } })
		c := w.rotating(t, p)
		exchanges, service := connections.TokensModule(w.svc).Services[0], connections.TokensModule(w.svc).Services[1]
		w.clock.Advance(50 * time.Second)
		require.NoError(t, service.Start(t.Context()))
		await.Condition(t, "the exchange", func() bool { return begun.Load() == 1 })
		for range 5 { // the worker looks again
			await.Condition(t, "the worker's timer", func() bool { return w.clock.Timers() > 0 })
			w.clock.Advance(time.Minute)
		}
		require.Positive(t, count(t, w, fmt.Sprint("SELECT count(*) FROM token_refreshes WHERE lease_until_ms < ",
			w.clock.Now().UnixMilli())), "the lease has ended")
		asked := make(chan error, 1)
		go func() {
			_, err := connections.AccessToken(t.Context(), w.svc, &c)
			asked <- err
		}()
		await.Condition(t, "the request and the worker wait", func() bool { return w.clock.Timers() > 1 })
		end()
		await.Condition(t, "the outcome", func() bool {
			w.clock.Advance(100 * time.Millisecond)
			return w.read(t, "oauth2").Credentials.RefreshedAt != nil && len(asked) == 1
		})
		require.NoError(t, <-asked)
		require.NoError(t, service.Drain(t.Context()))
		require.NoError(t, service.Stop(t.Context()))
		require.NoError(t, exchanges.Stop(t.Context()))
		require.EqualValues(t, 1, begun.Load())
		require.Equal(t, connections.Active, w.read(t, "oauth2").Status)
	})
}
