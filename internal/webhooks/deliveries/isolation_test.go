package deliveries

import (
	"context"
	"database/sql"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// The limits that a server has by default.
const (
	defaultConcurrency     = 256
	defaultPerSubscription = 10
	defaultPerHost         = 50
)

// server is a service with the limits and the clock of a real one, which sends to real receivers.
type server struct {
	*world
}

func newServer(t *testing.T, store testkit.Store) *server {
	t.Helper()
	w := &world{clock: clock.NewManual(time.Now()), subs: &targets{byID: map[string]*subscriptions.Target{}},
		env: id.Environment(id.New(id.PrefixEnvironment))}
	w.Service = newSender(t, store, w.subs, "node")
	return &server{w}
}

// newSender returns a service of a node that sends.
func newSender(t *testing.T, store testkit.Store, subs Subscriptions, node string) *Service {
	t.Helper()
	client := egress.New(egress.Policy{AllowLoopback: true, AllowHTTP: true}, egress.Options{})
	t.Cleanup(client.Close)
	s := newService(store.DB, subs, clock.System(), client, defaultConcurrency, defaultPerSubscription, defaultPerHost)
	s.claimer.claims = jobs.NewClaims(node)
	return s
}

// run starts the service. When the test ends it lets the receivers respond, and stops the service.
func (s *server) run(t *testing.T, hanging ...*sink) {
	t.Helper()
	require.NoError(t, s.start(t.Context()))
	t.Cleanup(func() {
		s.drain()
		for _, k := range hanging {
			k.open()
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), await.Limit)
		defer cancel()
		s.stop(ctx)
	})
}

// receive stores n events of the environment in group commits as ingest does, each with a delivery to every one of the
// subscriptions.
func (s *server) receive(t *testing.T, env id.Environment, n int, subscriptionIDs ...string) {
	t.Helper()
	s.receiveBody(t, env, n, []byte("{}"), subscriptionIDs...)
}

// receiveBody is receive of events with that body.
func (s *server) receiveBody(t *testing.T, env id.Environment, n int, body []byte, subscriptionIDs ...string) {
	t.Helper()
	matched := make([]subscriptions.Matched, len(subscriptionIDs))
	for i, sub := range subscriptionIDs {
		matched[i] = subscriptions.Matched{ID: sub, Enabled: true}
	}
	most := max(100/len(matched), 1)
	for n > 0 {
		size := min(n, most)
		n -= size
		now := time.Now()
		batch := s.NewBatch(now)
		list := make([]events.NewEvent, size)
		plans := make([]*Plan, size)
		for i := range list {
			p := &events.Payload{Headers: "{}", Body: body, Encoding: events.JSON}
			list[i] = events.NewEvent{Payload: p, Event: events.Event{UUID: id.NewUUID(), Environment: env, Verification: "{}",
				ReceivedAt: now, BodySize: int64(len(body))}}
			plans[i] = batch.Add(&list[i].Event, p, matched)
		}
		require.NoError(t, batch.Commit(t.Context(), func(tx *sql.Tx) error {
			for i := range list {
				list[i].Counters = plans[i].Counters()
			}
			_, err := s.db.ExecAll(t.Context(), tx, append(events.Insert(list), batch.Insert(plans)...)...)
			return err
		}))
	}
}

// in counts the deliveries of the environment in the state.
func (s *server) in(t *testing.T, env id.Environment, status Status) int {
	t.Helper()
	var n int
	require.NoError(t, s.db.Read().QueryRowContext(t.Context(),
		"SELECT COUNT(*) FROM deliveries WHERE environment_id = $1 "+
			"AND status = $2", string(env), string(status)).Scan(&n))
	return n
}

// sink is a receiver that counts its requests and responds while it is open.
type sink struct {
	*httptest.Server
	gate chan struct{}
	open func()
	// count counts the requests that were responded to, active those in progress.
	count, active atomic.Int64
}

// newSink returns a receiver that hangs until it is opened.
func newSink(t *testing.T) *sink {
	t.Helper()
	k := &sink{gate: make(chan struct{})}
	k.open = sync.OnceFunc(func() { close(k.gate) })
	k.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		k.active.Add(1)
		<-k.gate
		k.active.Add(-1)
		k.count.Add(1)
	}))
	await.Close(t, k.Server)
	t.Cleanup(k.open)
	return k
}

// Receivers that hang take only their own places, no matter how much waits for them: every delivery to a receiver that
// works is made while they hang. Nothing is lost, and nothing is sent twice, when they come back.
func TestHangingReceiversDelayNoOther(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		const hanging, each, healthy = 4, 1100, 300
		s := newServer(t, store)
		var stuck []*sink
		var stuckTo []string
		for range hanging {
			k := newSink(t)
			stuck, stuckTo = append(stuck, k), append(stuckTo, s.to(t, k.URL))
		}
		works := newSink(t)
		works.open()
		worksTo := s.to(t, works.URL)
		s.run(t, stuck...)
		s.receive(t, s.env, each, stuckTo...)
		s.receive(t, s.env, healthy, worksTo)
		await.Condition(t, "every delivery to the receiver that works", func() bool {
			return s.in(t, s.env, Succeeded) == healthy
		})
		for _, k := range stuck {
			require.Zero(t, k.count.Load())
			k.open()
		}
		await.Condition(t, "every other delivery", func() bool {
			return s.in(t, s.env, Succeeded) == healthy+hanging*each
		})
		require.EqualValues(t, healthy, works.count.Load())
		for _, k := range stuck {
			require.EqualValues(t, each, k.count.Load())
		}
	})
}

// fanOut makes n subscriptions of the environment to one receiver.
func (s *server) fanOut(t *testing.T, n int, k *sink) []string {
	t.Helper()
	list := make([]string, n)
	for i := range list {
		list[i] = s.to(t, k.URL)
	}
	return list
}

// An environment whose events go to thousands of subscriptions, all of which hang, takes its share of the places and of
// the attempts, and leaves the rest to the others.
func TestFanOutThatHangsDelaysNoOtherEnvironment(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		hangs, works := newSink(t), newSink(t)
		works.open()
		other := id.Environment(id.New(id.PrefixEnvironment))
		many := s.fanOut(t, 10_000, hangs)
		one := s.to(t, works.URL)
		s.run(t, hangs)
		s.receive(t, s.env, 6, many...)
		s.receive(t, other, 200, one)
		await.Condition(t, "every delivery of the other environment", func() bool {
			return s.in(t, other, Succeeded) == 200
		})
		require.Zero(t, hangs.count.Load())
	})
}

// An environment whose events go to many subscriptions takes turns with the others: what is received after it need not
// wait for it, although its receivers respond.
func TestFanOutTakesTurns(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		const subs, each, ours = 5000, 6, 60
		s := newServer(t, store)
		theirs, works := newSink(t), newSink(t)
		other := id.Environment(id.New(id.PrefixEnvironment))
		many := s.fanOut(t, subs, theirs)
		one := s.to(t, works.URL)
		s.run(t, theirs, works)
		s.receive(t, s.env, each, many...)
		s.receive(t, other, ours, one)
		theirs.open()
		works.open()
		await.Condition(t, "every delivery of the other environment", func() bool {
			return s.in(t, other, Succeeded) == ours
		})
		require.Less(t, theirs.count.Load(), int64(subs*each/3), "deliveries that came before these")
	})
}

// Nodes share a queue: what does not fit into the memory of the one that received it is sent by the other, and nothing
// is sent twice.
func TestNodesShareAQueue(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		if store.DB.Engine() == db.SQLite {
			t.Skip("one process has the database to itself")
		}
		const size = 300
		one := newServer(t, store)
		other := *one.world
		other.Service = newSender(t, store, one.subs, "other")
		two := server{&other}
		k := newSink(t)
		sub := one.to(t, k.URL)
		one.run(t, k)
		two.run(t, k)
		one.receive(t, one.env, size, sub)
		await.Condition(t, "attempts of both nodes", func() bool {
			return k.active.Load() == 2*defaultPerSubscription
		})
		k.open()
		await.Condition(t, "every delivery", func() bool { return one.in(t, one.env, Succeeded) == size })
		require.EqualValues(t, size, k.count.Load())
	})
}

// Workers read what they send, and find their work, while clients have all connections that serve clients.
func TestWorkersDoNotWaitForClients(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		e, d := w.event(Delivery{Status: Pending, Due: testTime()}, w.subscription())
		w.insert(t, []events.NewEvent{e}, []Delivery{d})
		defer testkit.Occupy(t, store.DB.Read())()
		found, err := w.events.Get(w.hard, access.Whole(w.env), e.UUID)
		require.NoError(t, err)
		_, err = w.events.ByUUIDs(w.hard, w.env, []string{e.UUID})
		require.NoError(t, err)
		_, err = w.events.Payloads(w.hard, w.env, []events.Event{found})
		require.NoError(t, err)
		open, err := w.store.withOpen(w.hard, "")
		require.NoError(t, err)
		require.Len(t, open, 1)
	})
}
