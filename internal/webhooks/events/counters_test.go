package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
)

// The rules of docs/arch/states.md, one row for each.
func TestStatusOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		counters events.Counters
		want     events.Status
	}{
		{events.Counters{}, events.Received},
		{events.Counters{Pending: 2}, events.Received},
		{events.Counters{Held: 1}, events.Received},
		{events.Counters{Cancelled: 1}, events.Received},
		{events.Counters{Sending: 1}, events.Forwarding},
		{events.Counters{Pending: 1, Dead: 1, Attempted: 1}, events.Forwarding},
		{events.Counters{RetryWait: 1, Dead: 1, Attempted: 2}, events.Failed},
		{events.Counters{HeldFailed: 1, Succeeded: 1, Attempted: 2}, events.Failed},
		{events.Counters{Dead: 1, Succeeded: 1, Held: 1, Attempted: 2}, events.DeadLetter},
		{events.Counters{Succeeded: 1, Cancelled: 1, Attempted: 1}, events.Forwarded},
		{events.Counters{Cancelled: 1, Attempted: 1}, events.Failed},
	} {
		require.Equal(t, c.want, events.StatusOf(c.counters), "%+v", c.counters)
	}
}

// drawCounters returns counters that are plain for a status, or mostly zero, so that every rule decides now and then.
func drawCounters(rt *rapid.T) events.Counters {
	if rapid.Bool().Draw(rt, "plain") {
		return countersFor(rapid.SampledFrom(statuses()).Draw(rt, "status"))
	}
	n := func(label string) int64 { return rapid.SampledFrom([]int64{0, 0, 0, 1, 2}).Draw(rt, label) }
	return events.Counters{
		Sending: n("sending"), Pending: n("pending"), RetryWait: n("retry_wait"), Held: n("held"),
		HeldFailed: n("held_failed"), Dead: n("dead"), Succeeded: n("succeeded"), Cancelled: n("cancelled"),
		Attempted: n("tried"),
	}
}

// to returns the change that makes counters of what they are.
func to(from, target events.Counters) events.Counters {
	return events.Counters{
		Sending: target.Sending - from.Sending, Pending: target.Pending - from.Pending,
		RetryWait: target.RetryWait - from.RetryWait, Held: target.Held - from.Held,
		HeldFailed: target.HeldFailed - from.HeldFailed, Dead: target.Dead - from.Dead,
		Succeeded: target.Succeeded - from.Succeeded, Cancelled: target.Cancelled - from.Cancelled,
		Attempted: target.Attempted - from.Attempted,
	}
}

// The status that the database computes is StatusOf of the counters, however the changes come: many events together,
// one event several times in one statement. The attempts are added up, and the last failure, the time of the last
// change and the time of the first success are kept.
func TestAppliedStatusIsStatusOf(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newStore(store.DB)
		env := newEnvironment()
		ctx := t.Context()
		rapid.Check(t, func(rt *rapid.T) {
			want := make([]events.Event, rapid.IntRange(1, 3).Draw(rt, "events"))
			counters := make([]events.Counters, len(want))
			list := make([]events.NewEvent, len(want))
			for i := range list {
				list[i] = newEvent(env)
				want[i] = fresh(list[i].Event)
			}
			run(ctx, rt, store.DB, events.Insert(list)...)
			for step := range int64(rapid.IntRange(1, 5).Draw(rt, "steps")) {
				changes := make([]events.Change, rapid.IntRange(1, 4).Draw(rt, "changes"))
				touched := map[int]bool{}
				for c := range changes {
					i := rapid.IntRange(0, len(want)-1).Draw(rt, "event")
					target, when := drawCounters(rt), at(10*step+rapid.Int64Range(1, 9).Draw(rt, "at"))
					changes[c] = events.Change{EventUUID: list[i].UUID, Environment: env, Counters: to(counters[i], target), At: when,
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
				n, statement := events.Apply(changes, &events.Log{})
				require.Equal(rt, len(touched), n)
				run(ctx, rt, store.DB, statement)
				for i := range want {
					c := counters[i]
					want[i].Status = events.StatusOf(c)
					want[i].DeliveryCount = c.Sending + c.Pending + c.RetryWait + c.Held + c.HeldFailed + c.Dead + c.Succeeded +
						c.Cancelled
					want[i].HeldCount = c.Held + c.HeldFailed
					if want[i].Status == events.Forwarded && want[i].ForwardedAt == nil {
						want[i].ForwardedAt = new(want[i].UpdatedAt)
					}
					got, err := s.Get(ctx, access.Whole(env), list[i].UUID)
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
		run(t.Context(), t, store.DB, events.Insert([]events.NewEvent{e})...)
		_, statement := events.Apply([]events.Change{{EventUUID: e.UUID, Environment: newEnvironment(), At: at(1),
			Counters: events.Counters{Sending: 1}}}, &events.Log{})
		run(t.Context(), t, store.DB, statement)
		got, err := s.Get(t.Context(), access.Whole(e.Environment), e.UUID)
		require.NoError(t, err)
		require.Equal(t, events.Received, got.Status)
	})
}

// An event stored with its deliveries has the status of its counters.
func TestInsertedStatus(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newStore(store.DB)
		env := newEnvironment()
		leased, held := newEvent(env), newEvent(env)
		leased.Sending, held.Held = 1, 2
		run(t.Context(), t, store.DB, events.Insert([]events.NewEvent{leased, held})...)
		for uuid, want := range map[string]events.Status{leased.UUID: events.Forwarding, held.UUID: events.Received} {
			got, err := s.Get(t.Context(), access.Whole(env), uuid)
			require.NoError(t, err)
			require.Equal(t, want, got.Status)
		}
		_, statement := events.Apply([]events.Change{{EventUUID: leased.UUID, Environment: env, At: at(1), Attempts: 1,
			Counters: events.Counters{Sending: -1, Succeeded: 1, Attempted: 1}}}, &events.Log{})
		run(t.Context(), t, store.DB, statement)
		got, err := s.Get(t.Context(), access.Whole(env), leased.UUID)
		require.NoError(t, err)
		require.Equal(t, events.Forwarded, got.Status, "the counters of the insert are those that changes add to")
	})
}
