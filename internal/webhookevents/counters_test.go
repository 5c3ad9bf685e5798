package webhookevents_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhookevents"
)

// The rules of docs/arch/states.md, one row for each.
func TestStatusOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		counters webhookevents.Counters
		want     webhookevents.Status
	}{
		{webhookevents.Counters{}, webhookevents.Received},
		{webhookevents.Counters{Pending: 2}, webhookevents.Received},
		{webhookevents.Counters{Held: 1}, webhookevents.Received},
		{webhookevents.Counters{Cancelled: 1}, webhookevents.Received},
		{webhookevents.Counters{Sending: 1}, webhookevents.Forwarding},
		{webhookevents.Counters{Pending: 1, Dead: 1, Tried: 1}, webhookevents.Forwarding},
		{webhookevents.Counters{RetryWait: 1, Dead: 1, Tried: 2}, webhookevents.Failed},
		{webhookevents.Counters{HeldFailed: 1, Succeeded: 1, Tried: 2}, webhookevents.Failed},
		{webhookevents.Counters{Dead: 1, Succeeded: 1, Held: 1, Tried: 2}, webhookevents.DeadLetter},
		{webhookevents.Counters{Succeeded: 1, Cancelled: 1, Tried: 1}, webhookevents.Forwarded},
		{webhookevents.Counters{Cancelled: 1, Tried: 1}, webhookevents.Failed},
	} {
		require.Equal(t, c.want, webhookevents.StatusOf(c.counters), "%+v", c.counters)
	}
}

func drawCounters(rt *rapid.T, label string) webhookevents.Counters {
	n := rapid.Int64Range(0, 2)
	return webhookevents.Counters{
		Sending: n.Draw(rt, label+".sending"), Pending: n.Draw(rt, label+".pending"), RetryWait: n.Draw(rt, label+".retry_wait"),
		Held: n.Draw(rt, label+".held"), HeldFailed: n.Draw(rt, label+".held_failed"), Dead: n.Draw(rt, label+".dead"),
		Succeeded: n.Draw(rt, label+".succeeded"), Cancelled: n.Draw(rt, label+".cancelled"), Tried: n.Draw(rt, label+".tried"),
	}
}

// The status that the database computes is StatusOf of the counters, however the changes come: many events at once, one
// event several times in one statement.
func TestAppliedStatusIsStatusOf(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newStore(store.DB)
		env := newEnvironment()
		ctx := t.Context()
		rapid.Check(t, func(rt *rapid.T) {
			sums := make([]webhookevents.Change, rapid.IntRange(1, 3).Draw(rt, "events"))
			events := make([]webhookevents.NewEvent, len(sums))
			for i := range events {
				events[i] = newEvent(env)
			}
			run(ctx, rt, store.DB, webhookevents.Insert(events)...)
			forwarded := make([]int64, len(sums))
			for step := range int64(rapid.IntRange(1, 3).Draw(rt, "steps")) {
				changes := make([]webhookevents.Change, rapid.IntRange(1, 4).Draw(rt, "changes"))
				touched := map[int]bool{}
				for c := range changes {
					i := rapid.IntRange(0, len(sums)-1).Draw(rt, "event")
					changes[c] = webhookevents.Change{EventUUID: events[i].UUID, Environment: env, Counters: drawCounters(rt, "change"),
						Attempts: rapid.Int64Range(0, 2).Draw(rt, "attempts"), At: at(step + 1)}
					if rapid.Bool().Draw(rt, "failed") {
						changes[c].LastError = rapid.SampledFrom([]string{`{"code":"a"}`, `{"code":"b"}`}).Draw(rt, "error")
					}
					sums[i].Merge(changes[c])
					touched[i] = true
				}
				n, statement := webhookevents.Apply(changes)
				require.Equal(rt, len(touched), n)
				run(ctx, rt, store.DB, statement)
				for i := range sums {
					want := webhookevents.StatusOf(sums[i].Counters)
					if touched[i] && want == webhookevents.Forwarded && forwarded[i] == 0 {
						forwarded[i] = started + step + 1
					}
					got, err := s.Get(ctx, env, events[i].UUID)
					require.NoError(rt, err)
					require.Equal(rt, want, got.Status, "%+v", sums[i].Counters)
					require.Equal(rt, sums[i].Attempts, got.AttemptCount)
					require.Equal(rt, forwarded[i] != 0, got.ForwardedAt != nil)
					if got.ForwardedAt != nil {
						require.Equal(rt, forwarded[i], got.ForwardedAt.UnixMilli(), "the first time counts")
					}
					require.Equal(rt, sums[i].LastError != "", got.LastError != nil)
					if got.LastError != nil {
						require.Equal(rt, sums[i].LastError, *got.LastError, "the last failure counts")
					}
				}
			}
		})
	})
}

// A change counts for the event of its own environment only.
func TestApplyKeepsToTheEnvironment(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newStore(store.DB)
		e := newEvent(newEnvironment())
		run(t.Context(), t, store.DB, webhookevents.Insert([]webhookevents.NewEvent{e})...)
		_, statement := webhookevents.Apply([]webhookevents.Change{{EventUUID: e.UUID, Environment: newEnvironment(), At: at(1),
			Counters: webhookevents.Counters{Sending: 1}}})
		run(t.Context(), t, store.DB, statement)
		got, err := s.Get(t.Context(), e.Environment, e.UUID)
		require.NoError(t, err)
		require.Equal(t, webhookevents.Received, got.Status)
	})
}

// What is stored at once has the status of the counters that it is stored with.
func TestInsertedStatus(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newStore(store.DB)
		env := newEnvironment()
		leased, held := newEvent(env), newEvent(env)
		leased.Sending, held.Held = 1, 2
		run(t.Context(), t, store.DB, webhookevents.Insert([]webhookevents.NewEvent{leased, held})...)
		for uuid, want := range map[string]webhookevents.Status{leased.UUID: webhookevents.Forwarding, held.UUID: webhookevents.Received} {
			got, err := s.Get(t.Context(), env, uuid)
			require.NoError(t, err)
			require.Equal(t, want, got.Status)
		}
		_, statement := webhookevents.Apply([]webhookevents.Change{{EventUUID: leased.UUID, Environment: env, At: at(1), Attempts: 1,
			Counters: webhookevents.Counters{Sending: -1, Succeeded: 1, Tried: 1}}})
		run(t.Context(), t, store.DB, statement)
		got, err := s.Get(t.Context(), env, leased.UUID)
		require.NoError(t, err)
		require.Equal(t, webhookevents.Forwarded, got.Status, "the counters of the insert are those that changes add to")
	})
}
