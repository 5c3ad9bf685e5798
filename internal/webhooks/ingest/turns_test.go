package ingest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/webhooks/events"
)

// submit hands over an event to the group commit, as a request does.
func (w *world) submit(env id.Environment) *item {
	w.t.Helper()
	it := &item{payload: events.Payload{Headers: "{}", Body: w.body, Encoding: events.JSON}, done: make(chan struct{})}
	it.event = events.NewEvent{Event: events.Event{Environment: env, Provider: events.OwnProvider,
		ProviderConfigKey: events.OwnProvider, Type: "a", Verification: "{}", ContentType: "application/json",
		BodySize: int64(len(w.body)), IdempotencySource: events.SourceEvent, ReceivedAt: w.clock.Now()}}
	w.batches.Submit(it)
	return it
}

// An environment whose events wait by the hundred delays an event of another by its turn in the next transaction, and
// not by all of them: ids ascend in the order of commits.
func TestEnvironmentsTakeTurnsInTransactions(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newIdleWorld(t, store)
		many := make([]*item, 3*maxBatch)
		for i := range many {
			many[i] = w.submit(w.a)
		}
		one := w.submit(w.b)
		w.commits()
		await.Value(t, "the event of the other environment", one.done)
		require.NoError(t, one.err)
		before := 0
		for _, it := range many {
			await.Value(t, "the events", it.done)
			require.NoError(t, it.err)
			if it.event.UUID < one.event.UUID {
				before++
			}
		}
		require.LessOrEqual(t, before, turnCost, "what costs the least costs more than 1")
	})
}
