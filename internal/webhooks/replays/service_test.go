package replays

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/deliveries"
)

// A job of another environment does not exist for any operation.
func TestForeignJob(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		s := w.node("one")
		w.event(map[string]deliveries.Status{w.subscription(): deliveries.Dead})
		r := w.create(s.Service, Order{Filter: Filter{All: true}})
		stranger := w.anybody()
		stranger.Environment = id.Environment(id.New(id.PrefixEnvironment))
		_, err := s.Get(t.Context(), access.Whole(stranger.Environment), r.ID)
		errs := []error{err}
		_, err = s.Pause(t.Context(), stranger, r.ID)
		errs = append(errs, err)
		_, err = s.Resume(t.Context(), stranger, r.ID)
		errs = append(errs, err)
		_, err = s.Cancel(t.Context(), stranger, r.ID)
		for _, err := range append(errs, err) {
			require.True(t, apperr.Is(err, apperr.CodeNotFound), "%v", err)
		}
		list, err := s.List(t.Context(), access.Whole(stranger.Environment), ListFilter{}, all())
		require.NoError(t, err)
		require.Empty(t, list)
		foreign := Order{Filter: Filter{All: true}, To: w.subscription(), RatePerSecond: 1}
		_, err = s.Create(t.Context(), stranger, foreign)
		require.True(t, apperr.Is(err, apperr.CodeValidation), "%v", err)
		p, err := s.Preview(t.Context(), stranger, Order{Filter: Filter{All: true}, Force: true})
		require.NoError(t, err)
		require.Zero(t, p.Matched)
		require.Equal(t, r, w.read(r.ID))
	})
}

// However many ask at the same time, an environment gets no more jobs than it may have.
func TestLimitUnderConcurrency(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		s := w.node("one")
		var all sync.WaitGroup
		var mu sync.Mutex
		made, refused := 0, 0
		for range 3 * MaxUnfinished {
			all.Go(func() {
				_, err := s.Create(w.ctx, w.anybody(), Order{Filter: Filter{All: true}, RatePerSecond: 1})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					made++
				case apperr.Is(err, apperr.CodeReplaysLimit):
					refused++
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.Equal(t, []int{MaxUnfinished, 2 * MaxUnfinished}, []int{made, refused})
	})
}

// A job has no more than a window of deliveries in progress: it waits for them, and continues as they end. A preview
// counts exactly the deliveries that the job starts.
func TestWindow(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		s := w.node("one")
		sub := w.subscription()
		const n = 2*window + 10
		for range n {
			w.event(map[string]deliveries.Status{sub: deliveries.Dead})
		}
		o := Order{Filter: Filter{All: true}, RatePerSecond: MaxRate}
		p, err := s.Preview(t.Context(), w.anybody(), o)
		require.NoError(t, err)
		require.EqualValues(t, n, p.Replayed)
		require.False(t, p.AtLeast)
		require.Len(t, p.Sample, previewSample)
		r := w.create(s.Service, o)
		for range 10 {
			s.work()
			w.clock.Advance(time.Second)
		}
		require.EqualValues(t, window, w.read(r.ID).Replayed)
		list := w.sorted()
		ended := slices.IndexFunc(list, func(d deliveries.Delivery) bool { return d.Status == deliveries.Pending })
		w.end(list[ended], deliveries.Dead)
		for range 5 {
			s.work()
			w.clock.Advance(time.Second)
		}
		got := w.read(r.ID)
		require.EqualValues(t, window+1, got.Replayed)
		require.EqualValues(t, 1, got.Failed)
		got = w.finish(s, r.ID)
		require.Equal(t, []int64{n, n, n - 1, 1}, []int64{got.Matched, got.Replayed, got.Succeeded, got.Failed})
	})
}

// The deliveries of a resting job are shown as they are, although no process stores them.
func TestRestingJobIsShownAsItStands(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		s := w.node("one")
		w.event(map[string]deliveries.Status{w.subscription(): deliveries.Dead, w.subscription(): deliveries.Dead})
		r := w.create(s.Service, Order{Filter: Filter{All: true}, RatePerSecond: 1})
		s.work()
		shown, err := s.Pause(t.Context(), w.anybody(), r.ID)
		require.NoError(t, err)
		require.Equal(t, 1, shown.InProgress())
		for _, d := range w.rows() {
			if d.Status == deliveries.Pending {
				w.end(d, deliveries.Succeeded)
			}
		}
		shown, err = s.Get(t.Context(), access.Whole(w.env), r.ID)
		require.NoError(t, err)
		require.Equal(t, []int64{0, 1}, []int64{int64(shown.InProgress()), shown.Succeeded})
		require.Len(t, w.read(r.ID).work.open, 1)
	})
}

// A node that stops hands its jobs on immediately; one that is killed keeps them until its lease ends, or until it is
// there again.
func TestHandingOn(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		one, two := w.node("one"), w.node("two")
		for range 6 {
			w.event(map[string]deliveries.Status{w.subscription(): deliveries.Dead})
		}
		r := w.create(one.Service, Order{Filter: Filter{All: true}, RatePerSecond: 1})
		replayed := func(n *node) int64 {
			n.work()
			w.clock.Advance(time.Second)
			return w.read(r.ID).Replayed
		}
		require.EqualValues(t, 1, replayed(one))
		require.EqualValues(t, 1, replayed(two), "the other has it")
		require.EqualValues(t, 2, replayed(one))
		one.yield()
		require.EqualValues(t, 3, replayed(two))
		two = w.node("two") // killed, and started again
		require.EqualValues(t, 3, replayed(two))
		require.NoError(t, two.queue.Recover(t.Context()))
		require.EqualValues(t, 4, replayed(two))
		w.clock.Advance(leaseTime)
		require.EqualValues(t, 5, replayed(one))
	})
}

// A job that meets an error retries for a while, and ends as failed if the error stays. Its started deliveries count.
func TestTrouble(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		s := w.node("one")
		w.event(map[string]deliveries.Status{w.subscription(): deliveries.Dead})
		w.event(map[string]deliveries.Status{w.subscription(): deliveries.Dead})
		r := w.create(s.Service, Order{Filter: Filter{All: true}, RatePerSecond: 1})
		s.work()
		require.EqualValues(t, 1, w.read(r.ID).Replayed)
		tries := 0
		s.interrupt = func() error {
			tries++
			return errors.New("trouble")
		}
		began := w.clock.Now()
		for range 1000 {
			if w.read(r.ID).Status.hasEnded() {
				break
			}
			s.work()
			w.clock.Advance(time.Second)
		}
		require.Equal(t, maxErrors, tries)
		require.Greater(t, w.clock.Now().Sub(began), time.Minute)
		got := w.read(r.ID)
		require.Equal(t, Failed, got.Status)
		require.Equal(t, FailedInternal, got.Failure)
		require.NotEmpty(t, got.Failure.Message())
		require.EqualValues(t, 1, got.Replayed)
	})
}

// Jobs go thirty days after their end, and no others do.
func TestExpire(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		s := w.node("one")
		w.event(map[string]deliveries.Status{w.subscription(): deliveries.Dead})
		ended, paused := w.create(s.Service, Order{Filter: Filter{All: true}}),
			w.create(s.Service, Order{Filter: Filter{All: true}})
		_, err := s.Cancel(t.Context(), w.anybody(), ended.ID)
		require.NoError(t, err)
		_, err = s.Pause(t.Context(), w.anybody(), paused.ID)
		require.NoError(t, err)
		require.NoError(t, s.expire(t.Context(), w.clock.Now().Add(Lifetime)))
		list, err := s.List(t.Context(), access.Whole(w.env), ListFilter{}, all())
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.NoError(t, s.expire(t.Context(), w.clock.Now().Add(Lifetime+time.Millisecond)))
		list, err = s.List(t.Context(), access.Whole(w.env), ListFilter{}, all())
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, paused.ID, list[0].ID)
	})
}

// Two nodes that work on the same jobs at the same time, with replays of single events and pauses in between, start
// each delivery once for each job.
func TestNodesAtTheSameTime(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		nodes := []*node{w.node("one"), w.node("two")}
		sub := w.subscription()
		const n = 120
		uuids := []string{}
		for range n {
			uuids = append(uuids, w.event(map[string]deliveries.Status{sub: deliveries.Succeeded}))
		}
		r := w.create(nodes[0].Service, Order{Filter: Filter{All: true}, Force: true, RatePerSecond: MaxRate})
		singles := 0
		for range 400 {
			if w.read(r.ID).Status.hasEnded() {
				break
			}
			var all sync.WaitGroup
			for _, n := range nodes {
				all.Go(n.work)
			}
			all.Go(func() {
				_, err := w.deliveries.Replay(t.Context(), w.anybody(), uuids[singles%n], deliveries.ReplayRequest{Force: true})
				if err == nil {
					singles++
				}
			})
			all.Wait()
			for _, d := range w.rows() {
				if d.Status == deliveries.Pending {
					w.end(d, deliveries.Succeeded)
				}
			}
			nodes[0].yield() // so that either may be next
			nodes[1].yield()
			w.clock.Advance(time.Second)
		}
		got := w.read(r.ID)
		require.Equal(t, Completed, got.Status)
		require.EqualValues(t, n, got.Replayed)
		raised := int64(0)
		for _, d := range w.rows() {
			raised += d.Generation - 1
		}
		require.EqualValues(t, n+singles, raised)
	})
}

// A preview counts up to each of its limits and says that there may be more; it never presents a part as the whole.
func TestPreviewLimits(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		s := w.node("one")
		one, other := w.subscription(), w.subscription()
		var newest string
		for range 6 {
			newest = w.event(map[string]deliveries.Status{one: deliveries.Dead, other: deliveries.Dead})
		}
		roomy := defaultPreviewLimits()
		for name, c := range map[string]struct {
			limit             func(*previewLimits)
			matched, replayed int64
			atLeast           bool
		}{
			"none":                 {func(*previewLimits) {}, 6, 12, false},
			"exactly as many":      {func(l *previewLimits) { l.deliveries = 12 }, 6, 12, false},
			"deliveries":           {func(l *previewLimits) { l.deliveries = 4 }, 2, 4, true},
			"deliveries, in parts": {func(l *previewLimits) { l.deliveries = 5 }, 2, 5, true},
			"looked at":            {func(l *previewLimits) { l.scanned = 0 }, 0, 0, true},
			"events":               {func(l *previewLimits) { l.events = 0 }, 0, 0, true},
			"time":                 {func(l *previewLimits) { l.time = 0 }, 0, 0, true},
		} {
			s.limits = roomy
			c.limit(&s.limits)
			p, err := s.Preview(t.Context(), w.anybody(), Order{Filter: Filter{All: true}})
			require.NoError(t, err, name)
			require.Equal(t, []any{c.matched, c.replayed, c.atLeast}, []any{p.Matched, p.Replayed, p.AtLeast}, name)
			if p.Replayed > 0 && !p.AtLeast {
				require.Equal(t, newest, p.Sample[0].Event.UUID)
			}
		}
	})
}

// An event that goes while a job is in the middle of it is done with.
func TestEventGoesMidway(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		s := w.node("one")
		first := w.event(map[string]deliveries.Status{w.subscription(): deliveries.Dead, w.subscription(): deliveries.Dead})
		w.event(map[string]deliveries.Status{w.subscription(): deliveries.Dead})
		r := w.create(s.Service, Order{Filter: Filter{All: true}, RatePerSecond: 1})
		s.work()
		require.Equal(t, first, w.read(r.ID).work.begun)
		w.exec("DELETE FROM deliveries WHERE event_uuid = $1", first)
		w.exec("DELETE FROM webhook_events WHERE event_uuid = $1", first)
		w.clock.Advance(time.Second)
		got := w.finish(s, r.ID)
		require.Equal(t, Completed, got.Status)
		require.Equal(t, []int64{2, 2, 1, 1}, []int64{got.Matched, got.Replayed, got.Succeeded, got.Other})
	})
}
