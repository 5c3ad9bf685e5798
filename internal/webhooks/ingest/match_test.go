package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/filters"
	"sallyport/internal/webhooks/subscriptions"
)

// requestKey marks the context of a request, so that what runs for it differs from what the commits run for all.
type requestKey struct{}

// index stands for the subscriptions of all environments: what an event matches, and in which generation.
type index struct {
	t  *testing.T
	mu sync.Mutex
	// matched are the subscriptions that the events of an environment match.
	matched map[id.Environment][]subscriptions.Matched
	// changed is called by each look at the generation of an environment, before it is compared.
	changed    map[id.Environment]func()
	generation map[id.Environment]subscriptions.Generation
	matches    map[id.Environment]int
	// hangs holds the environments whose subscriptions cannot be read for now.
	hangs map[id.Environment]chan struct{}
}

func (x *index) Match(ctx context.Context, env id.Environment, _ subscriptions.Origin,
	_ []string) ([]subscriptions.Matched, subscriptions.Generation, error) {
	if ctx.Value(requestKey{}) == nil {
		x.t.Error("the goroutine that commits for all environments looks for subscriptions")
	}
	x.mu.Lock()
	hangs := x.hangs[env]
	x.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.matches[env]++
	return append([]subscriptions.Matched(nil), x.matched[env]...), x.generation[env], nil
}

func (*index) WarnUnknownType(string, string) []subscriptions.Warning { return nil }

func (*index) TypeRules(context.Context, id.Environment, subscriptions.Origin) (eventtypes.Rules, error) {
	return eventtypes.Rules{}, nil
}

func (x *index) Current(env id.Environment, g subscriptions.Generation) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if change := x.changed[env]; change != nil {
		x.generation[env]++
		change()
	}
	return x.generation[env] == g
}

// world is a service that stores events in a database.
type world struct {
	*Service
	t     *testing.T
	store testkit.Store
	index *index
	a, b  id.Environment
	// body is the body of the events.
	body json.RawMessage
}

func newWorld(t *testing.T, store testkit.Store) *world {
	t.Helper()
	w := newIdleWorld(t, store)
	w.commits()
	return w
}

// commits starts the group commit, until the test ends.
func (w *world) commits() {
	w.t.Helper()
	require.NoError(w.t, w.startCommits())
	w.t.Cleanup(w.stopCommits)
}

// newIdleWorld returns a service that commits nothing yet.
func newIdleWorld(t *testing.T, store testkit.Store) *world {
	t.Helper()
	w := &world{t: t, store: store, index: &index{t: t, matched: map[id.Environment][]subscriptions.Matched{},
		changed: map[id.Environment]func(){}, generation: map[id.Environment]subscriptions.Generation{},
		matches: map[id.Environment]int{}, hangs: map[id.Environment]chan struct{}{}},
		a: id.Environment(id.New(id.PrefixEnvironment)), b: id.Environment(id.New(id.PrefixEnvironment)),
		body: json.RawMessage("1")}
	log, batches := slog.New(slog.DiscardHandler), obs.NewBatches()
	sent := deliveries.New(deliveries.Config{Clock: clock.System(), Logger: log, Batches: batches,
		Options: deliveries.Options{Lease: time.Minute, Node: "node"},
		Store: deliveries.NewStore(deliveries.StoreConfig{DB: store.DB,
			Events: events.New(events.Config{DB: store.DB, Deliveries: deliveries.Filter{}})})})
	w.Service = New(Config{DB: store.DB, Subscriptions: w.index, Deliveries: sent, Clock: clock.System(), Logger: log,
		Evaluations: filters.NewEvaluations(), Batches: batches, Options: Options{SpoolDir: t.TempDir()}})
	return w
}

// publish stores an event of the environment, as a request of its own.
func (w *world) publish(env id.Environment) <-chan string {
	stored := make(chan string, 1)
	go func() {
		ctx := context.WithValue(context.Background(), requestKey{}, true)
		p := access.Principal{Kind: access.KindUser, ID: id.New(id.PrefixUser), Environment: env,
			Rights: access.Developer.Rights()}
		receipt, err := w.Publish(ctx, p, Publication{EventType: "a", Data: w.body})
		if err != nil {
			w.t.Error(err)
		}
		stored <- receipt.EventUUID
	}()
	return stored
}

// receivers returns the subscriptions that an event has deliveries to.
func (w *world) receivers(event string) (list []string) {
	found, err := w.deliveries.Store().ByEvents(w.t.Context(), access.Whole(w.a), []string{event})
	require.NoError(w.t, err)
	for _, d := range found[event] {
		list = append(list, d.SubscriptionID)
	}
	return list
}

// An environment whose subscriptions change all the time, or cannot be read at all, delays no event of another: the
// goroutine that commits for all of them never looks for subscriptions, and gives back what it cannot store as it is.
func TestChangingSubscriptionsDelayNoOtherEnvironment(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		w.index.hangs[w.a] = make(chan struct{})
		hanging := w.publish(w.a)
		for range 3 {
			await.Value(t, "an event of B is stored while A's subscriptions cannot be read", w.publish(w.b))
		}
		close(w.index.hangs[w.a])
		await.Value(t, "A's event is stored", hanging)

		w.index.mu.Lock()
		w.index.hangs[w.a], w.index.changed[w.a] = nil, func() {}
		clear(w.index.matches)
		w.index.mu.Unlock()
		const each = 25
		var stored []<-chan string
		for range each {
			stored = append(stored, w.publish(w.a), w.publish(w.b))
		}
		for _, s := range stored {
			await.Value(t, "the event is stored", s)
		}
		require.Equal(t, each, w.index.matches[w.b], "what happens in A is no reason to match B's events again")
		require.Equal(t, each*maxMatches, w.index.matches[w.a], "an event is stored however often subscriptions change")
	})
}

// A subscription that changes before the commit of an event changes what the event matches: one that was created gets
// it, one that was deleted does not, and one that was paused has it held.
func TestAChangeBeforeTheCommitCounts(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		kept, deleted, created := id.New(id.PrefixSubscription), id.New(id.PrefixSubscription), id.New(id.PrefixSubscription)
		w.index.matched[w.a] = []subscriptions.Matched{{ID: kept, Enabled: true}, {ID: deleted, Enabled: true}}
		w.index.changed[w.a] = func() {
			w.index.matched[w.a] = []subscriptions.Matched{{ID: kept}, {ID: created, Enabled: true}}
			w.index.changed[w.a] = nil
		}
		event := await.Value(t, "the event is stored", w.publish(w.a))
		require.Equal(t, []string{kept, created}, w.receivers(event))
		require.Equal(t, 2, w.index.matches[w.a])
		found, err := w.deliveries.Store().ByEvents(t.Context(), access.Whole(w.a), []string{event})
		require.NoError(t, err)
		require.Equal(t, deliveries.Held, found[event][0].Status)
	})
}

// An event that is matched again has each filter evaluated once: a filter that was near its limit costs that once.
func TestFiltersAreEvaluatedOnce(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		yes, no, late := filters.New(`event.type == "a"`), filters.New(`event.type == "b"`), filters.New(`event.type != "c"`)
		first, second, third := id.New(id.PrefixSubscription), id.New(id.PrefixSubscription), id.New(id.PrefixSubscription)
		w.index.matched[w.a] = []subscriptions.Matched{{ID: first, Enabled: true, Filter: yes},
			{ID: second, Enabled: true, Filter: no}}
		w.index.changed[w.a] = func() {
			w.index.matched[w.a] = append(w.index.matched[w.a], subscriptions.Matched{ID: third, Enabled: true, Filter: late})
			w.index.changed[w.a] = nil
		}
		event := await.Value(t, "the event is stored", w.publish(w.a))
		require.Equal(t, []string{first, third}, w.receivers(event))
		require.Equal(t, 2, w.index.matches[w.a])
		require.Equal(t, []int{2, 1}, []int{w.evaluated("matched"), w.evaluated("not_matched")},
			"the first two filters were evaluated by the first match only")
	})
}

// The filters of an environment cost an event no more than their limit. The rest do not match, which is counted and
// logged once a minute, and neither the event nor a subscription with a cheap filter suffers.
func TestFiltersHaveALimitOfTheirEvent(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		var logged bytes.Buffer
		w.log = slog.New(slog.NewJSONHandler(&logged, nil))
		cheap := id.New(id.PrefixSubscription)
		list := []subscriptions.Matched{}
		for i := range 30 {
			list = append(list, subscriptions.Matched{ID: id.New(id.PrefixSubscription), Enabled: true, Filter: filters.New(
				fmt.Sprintf("event.body.exists(x, event.body.exists(y, x + y == %d))", -1-i))})
		}
		w.index.matched[w.a] = append(list, subscriptions.Matched{ID: cheap, Enabled: true,
			Filter: filters.New(`event.type == "a"`)})
		w.body = json.RawMessage("[" + strings.Repeat("1,", 100) + "1]")
		for range 2 {
			event := await.Value(t, "the event is stored", w.publish(w.a))
			require.Equal(t, []string{cheap}, w.receivers(event))
		}
		require.Equal(t, 2, w.evaluated("matched"))
		require.Positive(t, w.evaluated("not_matched"))
		require.Greater(t, w.evaluated("not_evaluated"), 30)
		require.Equal(t, 2*len(list), w.evaluated("not_matched")+w.evaluated("not_evaluated"))
		require.Equal(t, 1, strings.Count(logged.String(), "filters were not evaluated"), logged.String())
		require.NoError(t, w.logNotEvaluated(t.Context()))
		require.Equal(t, 2, strings.Count(logged.String(), `"events":1`), "the second event is not forgotten")
		require.NoError(t, w.logNotEvaluated(t.Context()))
		require.Equal(t, 2, strings.Count(logged.String(), "filters were not evaluated"), logged.String())
		require.Contains(t, logged.String(), string(w.a))
	})
}

// evaluated returns how many evaluations of filters had the outcome.
func (w *world) evaluated(outcome string) int {
	return int(testkit.Metric(w.t, w.evaluations.Module().Metrics, "sallyport_filter_evaluations_total", "outcome",
		outcome))
}
