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
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

func all() page.Request { return page.Request{Limit: page.MaxLimit, Ascending: true} }

// known is what the test knows of a job.
type known struct {
	order Order
	// events are those that there were when the job was made, of those that its filter names.
	events []string
	// started holds every delivery that the job was seen to start.
	started map[deliveries.Key]bool
	// notBefore is when it may start the next.
	notBefore time.Time
	// stopped is a state that the job was brought to from outside; empty while it may run.
	stopped Status
}

// machine drives two nodes, and what happens around them, through random steps.
type machine struct {
	*world
	rt    *rapid.T
	nodes []*Service
	jobs  map[string]*known
	// late are jobs as a node has read them, to act on when they may have changed.
	late []Replay
	// made says that deliveries were made beside those that came with the events.
	made bool
}

func (m *machine) any(label string, from []string) string {
	return rapid.SampledFrom(from).Draw(m.rt, label)
}

func (m *machine) uuids() []string {
	list, err := m.events.List(m.ctx, access.Whole(m.env), events.Filter{}, all())
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
	r, err := m.nodes[0].Create(m.ctx, m.anybody(), o)
	if o.To != "" && m.subs.byID[o.To].Deleted {
		require.True(m.rt, apperr.Is(err, apperr.CodeValidation), "%v", err)
		return
	}
	if apperr.Is(err, apperr.CodeReplaysLimit) {
		unfinished := 0
		for jobID := range m.jobs {
			if !m.read(jobID).Status.Ended() {
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

// step lets a node take a job on, as it is or as it was read some time ago, and may end the process before the commit.
func (m *machine) step(s *Service, r Replay, crash bool) {
	before, stored := m.rows(), m.read(r.ID)
	errCrash := errors.New("crash")
	if s.interrupt = nil; crash {
		s.interrupt = func() error { return errCrash }
	}
	_, err := s.step(m.ctx, &r)
	started := m.startedSince(before)
	if err != nil {
		require.True(m.rt, errors.Is(err, errCrash) || errors.Is(err, errLost) || deliveries.Changed(err), "%v", err)
		require.Empty(m.rt, started, "nothing is left of a step that was not committed")
		require.Equal(m.rt, stored, m.read(r.ID))
		return
	}
	k, now := m.jobs[r.ID], m.clock.Now()
	after := m.read(r.ID)
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

// due returns a job that the node may take, if there is one.
func (m *machine) due(s *Service) (Replay, bool) {
	list := m.allDue(s)
	if len(list) == 0 {
		return Replay{}, false
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(m.rt, "job")], true
}

func (m *machine) allDue(s *Service) []Replay {
	list, err := due(m.ctx, m.store.DB.Read(), s.claim, m.clock.Now(), maxJobs)
	require.NoError(m.rt, err)
	return slices.DeleteFunc(list, func(r Replay) bool { return m.jobs[r.ID] == nil })
}

func (m *machine) control(verb string, to func(*Service, string) (Replay, error)) {
	if len(m.jobs) == 0 {
		return
	}
	replayID := m.any("job", slices.Sorted(maps.Keys(m.jobs)))
	before := m.read(replayID)
	r, err := to(m.nodes[1], replayID)
	k := m.jobs[replayID]
	if before.Status.Ended() && (verb != "cancel" || before.Status != Cancelled) {
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

// check holds every job to what is always true.
func (m *machine) check() {
	for replayID, k := range m.jobs {
		r := m.read(replayID)
		require.Equal(m.rt, r.FinishedAt != nil, r.Status.Ended())
		require.LessOrEqual(m.rt, len(r.work.open), window)
		require.EqualValues(m.rt, len(k.started), r.Replayed)
		require.Equal(m.rt, r.Replayed, r.Succeeded+r.Failed+r.Other+int64(len(r.work.open)),
			"nothing that was started is forgotten")
		require.LessOrEqual(m.rt, r.Matched, int64(len(k.events)))
		if k.stopped != "" && !r.Status.Ended() {
			require.Equal(m.rt, k.stopped, r.Status)
		}
		if r.Status == Completed {
			m.checkCompleted(&r, k)
		}
	}
}

// checkCompleted requires that a job has come to everything that it is about.
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
	list, err := m.events.List(m.ctx, access.Whole(m.env), events.Filter{}, all())
	require.NoError(m.rt, err)
	for _, e := range list {
		if e.PayloadExpired {
			uuids = append(uuids, e.UUID)
		}
	}
	return uuids
}

// settle lets everything come to its end, and requires that it does.
func (m *machine) settle() {
	for _, k := range m.jobs {
		if k.stopped == Paused {
			k.stopped = ""
		}
	}
	for replayID := range m.jobs {
		if _, err := m.nodes[0].Resume(m.ctx, m.anybody(), replayID); err != nil {
			require.True(m.rt, apperr.Is(err, apperr.CodeReplayEnded), "%v", err)
		}
	}
	m.late = nil
	for range 200 {
		m.clock.Advance(leaseTime + time.Second)
		for _, d := range m.rows() {
			if d.Status == deliveries.Pending {
				m.end(d, deliveries.Succeeded)
			}
		}
		list := m.allDue(m.nodes[0])
		if len(list) == 0 {
			break
		}
		for _, r := range list {
			m.step(m.nodes[0], r, false)
		}
		m.check()
	}
	for replayID := range m.jobs {
		require.True(m.rt, m.read(replayID).Status.Ended())
	}
}

// Over every order of steps on two nodes, crashes before and after their commits, lost leases, pauses, resumptions and
// cancellations, outcomes, replays and removals beside them: a job starts each delivery once, in its set, at its rate
// and only while it may; counts what it does; and comes to everything that it is about.
func TestJobsFollowTheMachine(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		rapid.Check(t, func(rt *rapid.T) {
			_, err := store.DB.Write().ExecContext(t.Context(), "DELETE FROM webhook_replays")
			require.NoError(rt, err)
			w.t, w.subs.byID = rt, map[string]*subscriptions.Target{}
			w.newEnvironment()
			m := &machine{world: w, rt: rt, nodes: []*Service{w.node("one"), w.node("two")}, jobs: map[string]*known{}}
			for range 3 {
				w.subscription()
			}
			for range rapid.IntRange(0, 6).Draw(rt, "events") {
				m.receive()
			}
			node := func() *Service { return rapid.SampledFrom(m.nodes).Draw(rt, "node") }
			rt.Repeat(map[string]func(*rapid.T){
				"":        func(*rapid.T) { m.check() },
				"receive": func(*rapid.T) { m.receive() },
				"create":  func(*rapid.T) { m.create() },
				"step": func(rt *rapid.T) {
					s := node()
					if r, ok := m.due(s); ok {
						m.step(s, r, rapid.IntRange(0, 3).Draw(rt, "crash") == 0)
					}
				},
				"read": func(*rapid.T) {
					if r, ok := m.due(node()); ok {
						m.late = append(m.late, r)
					}
				},
				"act late": func(*rapid.T) {
					if len(m.late) > 0 {
						m.step(node(), m.late[0], false)
						m.late = m.late[1:]
					}
				},
				"restart": func(rt *rapid.T) {
					i := rapid.IntRange(0, 1).Draw(rt, "node")
					m.nodes[i] = w.node(m.nodes[i].cfg.Node)
					require.NoError(rt, m.nodes[i].Recover(m.ctx))
				},
				"stop": func(*rapid.T) { require.NoError(rt, node().Release(m.ctx)) },
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
			m.settle()
		})
	})
}
