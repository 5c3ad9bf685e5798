package webhookevents_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
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

// drawCounters returns counters that are plain for a status, or mostly zero, so that every rule decides now and then.
func drawCounters(rt *rapid.T) webhookevents.Counters {
	if rapid.Bool().Draw(rt, "plain") {
		return countersFor(rapid.SampledFrom(statuses()).Draw(rt, "status"))
	}
	n := func(label string) int64 { return rapid.SampledFrom([]int64{0, 0, 0, 1, 2}).Draw(rt, label) }
	return webhookevents.Counters{
		Sending: n("sending"), Pending: n("pending"), RetryWait: n("retry_wait"), Held: n("held"), HeldFailed: n("held_failed"), Dead: n("dead"),
		Succeeded: n("succeeded"), Cancelled: n("cancelled"), Tried: n("tried"),
	}
}

// to returns the change that makes counters of what they are.
func to(from, target webhookevents.Counters) webhookevents.Counters {
	return webhookevents.Counters{
		Sending: target.Sending - from.Sending, Pending: target.Pending - from.Pending, RetryWait: target.RetryWait - from.RetryWait,
		Held: target.Held - from.Held, HeldFailed: target.HeldFailed - from.HeldFailed, Dead: target.Dead - from.Dead,
		Succeeded: target.Succeeded - from.Succeeded, Cancelled: target.Cancelled - from.Cancelled, Tried: target.Tried - from.Tried,
	}
}

// The status that the database computes is StatusOf of the counters, however the changes come: many events at once, one
// event several times in one statement. The tries are added up, and the last failure, the time of the last change and the
// time of the first success are kept.
func TestAppliedStatusIsStatusOf(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newStore(store.DB)
		env := newEnvironment()
		ctx := t.Context()
		rapid.Check(t, func(rt *rapid.T) {
			want := make([]webhookevents.Event, rapid.IntRange(1, 3).Draw(rt, "events"))
			counters := make([]webhookevents.Counters, len(want))
			events := make([]webhookevents.NewEvent, len(want))
			for i := range events {
				events[i] = newEvent(env)
				want[i] = fresh(events[i].Event)
			}
			run(ctx, rt, store.DB, webhookevents.Insert(events)...)
			for step := range int64(rapid.IntRange(1, 5).Draw(rt, "steps")) {
				changes := make([]webhookevents.Change, rapid.IntRange(1, 4).Draw(rt, "changes"))
				touched := map[int]bool{}
				for c := range changes {
					i := rapid.IntRange(0, len(want)-1).Draw(rt, "event")
					target, when := drawCounters(rt), at(10*step+rapid.Int64Range(1, 9).Draw(rt, "at"))
					changes[c] = webhookevents.Change{EventUUID: events[i].UUID, Environment: env, Counters: to(counters[i], target), At: when,
						Attempts: rapid.Int64Range(0, 2).Draw(rt, "attempts")}
					counters[i] = target
					want[i].AttemptCount += changes[c].Attempts
					if !touched[i] || when.After(want[i].UpdatedAt) {
						want[i].UpdatedAt = when
					}
					if rapid.Bool().Draw(rt, "failed") {
						changes[c].LastError = rapid.SampledFrom([]string{`{"code":"a"}`, `{"code":"b"}`}).Draw(rt, "error")
						want[i].LastError = new(changes[c].LastError)
					}
					touched[i] = true
				}
				n, statement := webhookevents.Apply(changes, &webhookevents.Log{})
				require.Equal(rt, len(touched), n)
				run(ctx, rt, store.DB, statement)
				for i := range want {
					want[i].Status = webhookevents.StatusOf(counters[i])
					if want[i].Status == webhookevents.Forwarded && want[i].ForwardedAt == nil {
						want[i].ForwardedAt = new(want[i].UpdatedAt)
					}
					got, err := s.Get(ctx, access.Whole(env), events[i].UUID)
					require.NoError(rt, err)
					require.Equal(rt, want[i], got, "%+v", counters[i])
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
			Counters: webhookevents.Counters{Sending: 1}}}, &webhookevents.Log{})
		run(t.Context(), t, store.DB, statement)
		got, err := s.Get(t.Context(), access.Whole(e.Environment), e.UUID)
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
			got, err := s.Get(t.Context(), access.Whole(env), uuid)
			require.NoError(t, err)
			require.Equal(t, want, got.Status)
		}
		_, statement := webhookevents.Apply([]webhookevents.Change{{EventUUID: leased.UUID, Environment: env, At: at(1), Attempts: 1,
			Counters: webhookevents.Counters{Sending: -1, Succeeded: 1, Tried: 1}}}, &webhookevents.Log{})
		run(t.Context(), t, store.DB, statement)
		got, err := s.Get(t.Context(), access.Whole(env), leased.UUID)
		require.NoError(t, err)
		require.Equal(t, webhookevents.Forwarded, got.Status, "the counters of the insert are those that changes add to")
	})
}
