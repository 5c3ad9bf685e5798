package replays

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

func all() page.Request { return page.Request{Limit: page.MaxLimit, Ascending: true} }

// known is the model of a replay.
type known struct {
	order Order
	// events are the events that its filter names, of those that existed at its creation.
	events []string
	// started holds every delivery that the replay was seen to start.
	started map[deliveries.Key]bool
	// notBefore is when it may start the next.
	notBefore time.Time
	// stopped is the state that a user has brought the replay to; empty while it may run.
	stopped Status
}

// machine drives two nodes, and what happens around them, through random steps.
type machine struct {
	*world
	rt   *rapid.T
	live []*node
	// dead are the replays of processes that were killed, which act late.
	dead []*hand
	jobs map[string]*known
	// made is set when deliveries were created in addition to those that came with the events.
	made bool
}

func (m *machine) any(label string, from []string) string {
	return rapid.SampledFrom(from).Draw(m.rt, label)
}

func (m *machine) uuids() []string {
	list, _, err := m.events.List(m.ctx, access.Whole(m.env), events.Filter{}, all())
	require.NoError(m.rt, err)
	out := []string{}
	for _, e := range list {
		out = append(out, e.UUID)
	}
	return out
}

func (m *machine) subscriptions() []string { return slices.Sorted(maps.Keys(m.subs.byID)) }

func (m *machine) receive() {
	states := map[string]deliveries.Status{}
	for _, sub := range m.subscriptions() {
		if rapid.Bool().Draw(m.rt, "taken") {
			states[sub] = rapid.SampledFrom([]deliveries.Status{deliveries.Dead, deliveries.Dead, deliveries.RetryWait,
				deliveries.Succeeded, deliveries.Sending}).Draw(m.rt, "state")
		}
	}
	m.event(states)
}

func (m *machine) create() {
	o := Order{Force: rapid.Bool().Draw(m.rt, "force"), RatePerSecond: rapid.SampledFrom([]int{1, 7, 20, MaxRate}).Draw(
		m.rt, "rate")}
	set := m.uuids()
	if rapid.Bool().Draw(m.rt, "some") && len(set) > 0 {
		set = rapid.SliceOfNDistinct(rapid.SampledFrom(set), 1, len(set), rapid.ID).Draw(m.rt, "events")
		o.Filter.UUIDs = set
	} else {
		o.Filter.All = true
	}
	if rapid.Bool().Draw(m.rt, "to one subscription") {
		o.To = m.any("to", m.subscriptions())
	}
	r, err := m.live[0].Create(m.ctx, m.anybody(), o)
	if o.To != "" && m.subs.byID[o.To].Deleted {
		require.True(m.rt, apperr.Is(err, apperr.CodeValidation), "%v", err)
		return
	}
	if apperr.Is(err, apperr.CodeReplaysLimit) {
		unfinished := 0
		for jobID := range m.jobs {
			if !m.read(jobID).Status.hasEnded() {
				unfinished++
			}
		}
		require.Equal(m.rt, MaxUnfinished, unfinished)
		return
	}
	require.NoError(m.rt, err)
	m.made = m.made || o.To != ""
	m.jobs[r.ID] = &known{order: o, events: set, started: map[deliveries.Key]bool{}}
}

// step takes a step of a replay that a process has claimed, perhaps long ago. The process may end before the commit.
func (m *machine) step(h *hand, crash bool) {
	before, stored := m.rows(), m.read(h.job.ID)
	errCrash := errors.New("crash")
	if h.interrupt = nil; crash {
		h.interrupt = func() error { return errCrash }
	}
	end, _, err := h.takeTurn(m.ctx)
	h.until = h.replay.work.due // without the pause between steps, which would hide a rate that is too high
	kind := jobs.EventKind("")
	switch {
	case err != nil:
		kind = h.run.End(m.rt, jobs.Outcome{}, err).Kind
	case end != nil:
		kind = h.run.End(m.rt, *end, nil).Kind
	}
	if h.interrupt = nil; kind != "" {
		m.drop(h)
	}
	started := m.startedSince(before)
	after := m.read(h.job.ID)
	if kind == jobs.EventFailed {
		require.GreaterOrEqual(m.rt, h.job.Attempt, int64(maxErrors))
		require.Empty(m.rt, started)
		require.Equal(m.rt, Failed, after.Status)
		m.jobs[h.job.ID].stopped = Failed
		return
	}
	if err != nil || kind == jobs.EventLost {
		require.True(m.rt, kind == jobs.EventLost || errors.Is(err, errCrash), "%v", err)
		require.Empty(m.rt, started, "nothing is left of a step that was not committed")
		after.work.due = stored.work.due // of the retry
		require.Equal(m.rt, stored, after)
		return
	}
	k, now := m.jobs[h.job.ID], m.clock.Now()
	require.Len(m.rt, started, int(after.Replayed-stored.Replayed),
		"the job counts what it starts in the same transaction")
	if len(started) == 0 {
		return
	}
	require.Empty(m.rt, k.stopped, "a job that was paused or has ended starts nothing")
	require.False(m.rt, now.Before(k.notBefore), "the rate")
	k.notBefore = now.Add(time.Duration(len(started)) * time.Second / time.Duration(k.order.RatePerSecond))
	for _, key := range started {
		require.False(m.rt, k.started[key], "a job starts a delivery once")
		require.Contains(m.rt, k.events, key.EventUUID, "what came later, or was not asked for, is left alone")
		require.True(m.rt, k.order.To == "" || k.order.To == key.SubscriptionID)
		was, there := before[key]
		failed := was.Status == deliveries.Dead || was.Status == deliveries.RetryWait
		require.True(m.rt, k.order.Force || failed || !there)
		require.NotEqual(m.rt, deliveries.Sending, was.Status)
		require.False(m.rt, m.subs.byID[key.SubscriptionID].Deleted)
		k.started[key] = true
	}
}

// startedSince returns the deliveries that are in a later generation than before.
func (m *machine) startedSince(before map[deliveries.Key]deliveries.Delivery) (started []deliveries.Key) {
	for key, d := range m.rows() {
		if d.Generation > before[key].Generation {
			started = append(started, key)
		}
	}
	return started
}

// drop forgets a replay that a process no longer works on.
func (m *machine) drop(h *hand) {
	for _, n := range m.live {
		n.drop(h)
	}
	m.dead = slices.DeleteFunc(m.dead, func(o *hand) bool { return o == h })
}

// hand returns a replay that a live or killed process works on, or nil if there is none.
func (m *machine) hand() *hand {
	list := slices.Clone(m.dead)
	for _, n := range m.live {
		list = append(list, n.hands...)
	}
	list = slices.DeleteFunc(list, func(h *hand) bool { return h.until.After(m.clock.Now()) })
	if len(list) == 0 {
		return nil
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(m.rt, "hand")]
}

// kill ends a process and starts it again. Its replays act late, if at all.
func (m *machine) kill(i int) {
	m.dead = append(m.dead, m.live[i].hands...)
	m.live[i] = m.node(m.live[i].cfg.Node)
	require.NoError(m.rt, m.live[i].queue.Recover(m.ctx))
}

func (m *machine) control(verb string, to func(*Service, string) (Replay, error)) {
	if len(m.jobs) == 0 {
		return
	}
	replayID := m.any("job", slices.Sorted(maps.Keys(m.jobs)))
	before := m.read(replayID)
	r, err := to(m.live[1].Service, replayID)
	k := m.jobs[replayID]
	if before.Status.hasEnded() && (verb != "cancel" || before.Status != Cancelled) {
		require.True(m.rt, apperr.Is(err, apperr.CodeReplayEnded), "%v", err)
		return
	}
	require.NoError(m.rt, err)
	switch verb {
	case "pause":
		require.Equal(m.rt, Paused, r.Status)
		k.stopped = Paused
	case "resume":
		require.Contains(m.rt, []Status{Queued, Running}, r.Status)
		k.stopped = ""
	default:
		require.Equal(m.rt, Cancelled, r.Status)
		k.stopped = Cancelled
	}
}

// check requires of every replay what is always true.
func (m *machine) check() {
	stored, err := list(m.ctx, m.store.DB.Read(), access.Whole(m.env), ListFilter{}, all())
	require.NoError(m.rt, err)
	require.Len(m.rt, stored, len(m.jobs))
	for _, r := range stored {
		k := m.jobs[r.ID]
		require.Equal(m.rt, r.FinishedAt != nil, r.Status.hasEnded())
		require.LessOrEqual(m.rt, len(r.work.open), window)
		require.EqualValues(m.rt, len(k.started), r.Replayed)
		require.Equal(m.rt, r.Replayed, r.Succeeded+r.Failed+r.Other+int64(len(r.work.open)),
			"nothing that was started is forgotten")
		require.LessOrEqual(m.rt, r.Matched, int64(len(k.events)))
		if k.stopped != "" && !r.Status.hasEnded() {
			require.Equal(m.rt, k.stopped, r.Status)
		}
		if r.Status == Completed {
			m.checkCompleted(&r, k)
		}
	}
}

// checkCompleted requires that a replay has treated all its events.
func (m *machine) checkCompleted(r *Replay, k *known) {
	require.Empty(m.rt, r.work.open)
	if !k.order.Force && k.order.To == "" {
		return // which events have failed when the job comes to them is not known here
	}
	require.EqualValues(m.rt, len(k.events), r.Matched)
	treated := r.Replayed
	for _, n := range r.Skipped {
		treated += n
	}
	if k.order.To != "" {
		require.EqualValues(m.rt, len(k.events), treated)
		return
	}
	if m.made || len(m.expunged()) > 0 {
		return
	}
	want, rows := 0, m.rows()
	for _, uuid := range k.events {
		n := 0
		for key := range rows {
			if key.EventUUID == uuid {
				n++
			}
		}
		want += max(n, 1)
	}
	require.EqualValues(m.rt, want, treated, "each delivery is started or skipped, and counted once")
}

func (m *machine) expunged() (uuids []string) {
	list, _, err := m.events.List(m.ctx, access.Whole(m.env), events.Filter{}, all())
	require.NoError(m.rt, err)
	for _, e := range list {
		if e.PayloadExpired {
			uuids = append(uuids, e.UUID)
		}
	}
	return uuids
}

// deliver sends what is pending, and what was held and is released because its subscription is enabled.
func (m *machine) deliver() {
	for _, d := range m.sorted() {
		sub := m.subs.byID[d.SubscriptionID]
		if d.Status == deliveries.Pending || d.Status == deliveries.Held && sub.Enabled && !sub.Deleted {
			m.end(d, deliveries.Succeeded)
		}
	}
}

// complete lets every replay end, and requires that it does.
func (m *machine) complete() {
	for _, k := range m.jobs {
		if k.stopped == Paused {
			k.stopped = ""
		}
	}
	for replayID := range m.jobs {
		if _, err := m.live[0].Resume(m.ctx, m.anybody(), replayID); err != nil {
			require.True(m.rt, apperr.Is(err, apperr.CodeReplayEnded), "%v", err)
		}
	}
	m.kill(1)
	ended := func() bool {
		for replayID := range m.jobs {
			if !m.read(replayID).Status.hasEnded() {
				return false
			}
		}
		return true
	}
	for n := 0; n < 200 && !ended(); n++ {
		m.clock.Advance(leaseTime + time.Second)
		m.deliver()
		m.live[0].claim()
		for _, h := range slices.Clone(m.live[0].hands) {
			m.step(h, false)
		}
		m.check()
	}
	require.True(m.rt, ended())
}

// Over every order of claims and steps on two nodes, crashes before and after their commits, lost leases, pauses,
// resumptions and cancellations, outcomes, replays and removals: a replay starts each delivery once, in its set, at its
// rate and only while it may; counts what it does; and comes to everything that it is about.
func TestJobsFollowTheMachine(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		rapid.Check(t, func(rt *rapid.T) {
			w.endNodes()
			_, err := store.DB.Write().ExecContext(t.Context(), "DELETE FROM webhook_replays")
			require.NoError(rt, err)
			w.t, w.subs.byID = rt, map[string]*subscriptions.Target{}
			w.newEnvironment()
			m := &machine{world: w, rt: rt, live: []*node{w.node("one"), w.node("two")}, jobs: map[string]*known{}}
			for range 3 {
				w.subscription()
			}
			for range rapid.IntRange(0, 6).Draw(rt, "events") {
				m.receive()
			}
			pick := func() *node { return rapid.SampledFrom(m.live).Draw(rt, "node") }
			rt.Repeat(map[string]func(*rapid.T){
				"":        func(*rapid.T) { m.check() },
				"receive": func(*rapid.T) { m.receive() },
				"create":  func(*rapid.T) { m.create() },
				"claim":   func(*rapid.T) { pick().claim() },
				"step": func(rt *rapid.T) {
					for range rapid.IntRange(1, 2).Draw(rt, "steps") {
						h := m.hand()
						if h == nil {
							pick().claim()
							h = m.hand()
						}
						if h != nil {
							m.step(h, rapid.IntRange(0, 3).Draw(rt, "crash") == 0)
						}
					}
				},
				"renew": func(*rapid.T) { require.NoError(rt, pick().queue.Renew(m.ctx)) },
				"kill":  func(*rapid.T) { m.kill(rapid.IntRange(0, 1).Draw(rt, "which")) },
				"stop":  func(*rapid.T) { pick().yield() },
				"wait": func(rt *rapid.T) {
					w.clock.Advance(time.Duration(rapid.IntRange(1, 12).Draw(rt, "seconds")) * time.Second)
				},
				"end": func(rt *rapid.T) {
					for _, d := range w.sorted() {
						if (d.Status == deliveries.Pending || d.Status == deliveries.Sending) && rapid.Bool().Draw(rt, "ended") {
							w.end(d, rapid.SampledFrom([]deliveries.Status{deliveries.Succeeded, deliveries.Dead, deliveries.RetryWait,
								deliveries.Held}).Draw(rt, "state"))
						}
					}
				},
				"pause": func(*rapid.T) {
					m.control("pause", func(s *Service, r string) (Replay, error) { return s.Pause(m.ctx, m.anybody(), r) })
				},
				"resume": func(*rapid.T) {
					m.control("resume", func(s *Service, r string) (Replay, error) { return s.Resume(m.ctx, m.anybody(), r) })
				},
				"cancel": func(*rapid.T) {
					m.control("cancel", func(s *Service, r string) (Replay, error) { return s.Cancel(m.ctx, m.anybody(), r) })
				},
				"replay": func(*rapid.T) {
					if uuids := m.uuids(); len(uuids) > 0 {
						// Whether there is anything to replay does not matter here.
						_, _ = w.deliveries.Replay(m.ctx, m.anybody(), m.any("event", uuids), deliveries.ReplayRequest{Force: true})
					}
				},
				"expunge": func(*rapid.T) {
					if uuids := m.uuids(); len(uuids) > 0 {
						require.NoError(rt, w.deliveries.Expunge(m.ctx, m.anybody(), m.any("event", uuids)))
					}
				},
				"disable": func(*rapid.T) {
					sub := *m.subs.byID[m.any("subscription", m.subscriptions())]
					sub.Enabled = !sub.Enabled
					m.subs.byID[sub.ID] = &sub
				},
				"delete": func(rt *rapid.T) {
					if rapid.IntRange(0, 4).Draw(rt, "seldom") == 0 {
						sub := *m.subs.byID[m.any("subscription", m.subscriptions())]
						sub.Deleted = true
						m.subs.byID[sub.ID] = &sub
					}
				},
			})
			m.complete()
		})
	})
}
