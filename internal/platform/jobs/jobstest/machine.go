package jobstest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/jobs"
)

// known is the model's state of a job.
type known struct {
	id      string
	due     time.Time
	holder  *hand // whose claim the row has; nil for none
	until   time.Time
	over    bool
	effects int
}

// hand is a job that runs on a node.
type hand struct {
	*Run
	n *node
}

// machine drives two nodes through random steps alongside a model of the table.
type machine struct {
	*world
	rt   *rapid.T
	jobs []*known
	// hands are the running jobs, on live nodes and on killed ones.
	hands []*hand
	live  []*node
}

const machinePlaces = 3

func (m *machine) newNode(i int) *node {
	return m.node(fmt.Sprint("node", i), func(c *jobs.Config) { c.Concurrency = machinePlaces })
}

func (m *machine) find(id string) *known {
	return m.jobs[slices.IndexFunc(m.jobs, func(k *known) bool { return k.id == id })]
}

// claimable returns the jobs that the model expects a claim to find.
func (m *machine) claimable() int {
	n, now := 0, m.clock.Now()
	for _, k := range m.jobs {
		if !k.over && !k.due.After(now) && (k.holder == nil || !k.until.After(now)) {
			n++
		}
	}
	return n
}

func (m *machine) insert() {
	after := time.Duration(rapid.IntRange(-1, 20).Draw(m.rt, "after")) * time.Second
	id := m.world.insert(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(m.rt, "key"), after)
	m.jobs = append(m.jobs, &known{id: id, due: m.clock.Now().Add(after)})
}

// claim lets a node claim: as many jobs as it has places and are free, and never one that another holds.
func (m *machine) claim(n *node) {
	busy := 0
	for _, r := range m.hands {
		if r.n == n {
			busy++
		}
	}
	now := m.clock.Now()
	// one key may have few, so it takes some rounds
	for claimed := 0; claimed < min(machinePlaces-busy, m.claimable()+claimed); {
		count, err := n.Claim(m.ctx)
		require.NoError(m.rt, err)
		require.Positive(m.rt, count, "there is something to claim, and a place")
		claimed += count
		for range count {
			r := &hand{n.next(), n}
			k := m.find(r.ID)
			require.False(m.rt, k.over, "a job that has ended is not claimed")
			require.False(m.rt, k.due.After(now), "a job is not claimed before it is due")
			require.True(m.rt, k.holder == nil || !k.until.After(now), "a job that is held is not claimed")
			k.holder, k.until = r, now.Add(lease)
			m.hands = append(m.hands, r)
		}
	}
	count, err := n.Claim(m.ctx)
	require.NoError(m.rt, err)
	require.Zero(m.rt, count)
}

// end finishes a running job in the way given.
func (m *machine) end(how string) {
	if len(m.hands) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.hands)-1).Draw(m.rt, "hand")
	r := m.hands[i]
	m.hands = slices.Delete(m.hands, i, i+1)
	k := m.find(r.ID)
	held := k.holder == r
	var e jobs.Event
	want := jobs.EventLost
	switch how {
	case "done":
		e = m.done(r.Run)
		if held {
			want, k.over, k.holder = jobs.EventDone, true, nil
			k.effects++
		}
	case "again":
		at := m.clock.Now().Add(time.Duration(rapid.IntRange(0, 60).Draw(m.rt, "again")) * time.Second)
		e = m.again(r.Run, at.Sub(m.clock.Now()))
		if held {
			want, k.due, k.holder = jobs.EventAgain, at, nil
			k.effects++
		}
	case "fail":
		e = m.fails(r.Run, errFailed)
		if held {
			want, k.due, k.holder = jobs.EventRetried, e.Due, nil
		}
	default:
		e = m.fails(r.Run, jobs.Before(errFailed))
		if held {
			want, k.due, k.holder = jobs.EventReleased, e.Due, nil
		}
	}
	require.Equal(m.rt, want, e.Kind, how)
	k.due = k.due.Truncate(time.Millisecond)
}

func (m *machine) save() {
	if len(m.hands) == 0 {
		return
	}
	r := rapid.SampledFrom(m.hands).Draw(m.rt, "hand")
	k := m.find(r.ID)
	err := r.Save(m.ctx, effect(r.ID))
	if k.holder != r {
		require.ErrorIs(m.rt, err, jobs.ErrLost)
		return
	}
	require.NoError(m.rt, err)
	k.until = m.clock.Now().Add(lease)
	k.effects++
}

func (m *machine) renew(n *node) {
	require.NoError(m.rt, n.Renew(m.ctx))
	for _, r := range m.hands {
		if r.n != n {
			continue
		}
		k := m.find(r.ID)
		if k.holder == r {
			k.until = m.clock.Now().Add(lease)
			continue
		}
		require.ErrorIs(m.rt, context.Cause(r.Ctx), jobs.ErrLost, "the context of a lost lease ends")
	}
}

// restart kills a node and starts it again: its jobs go on without their process, and their leases end immediately
// where the table names their holder.
func (m *machine) restart(i int) {
	m.live[i] = m.newNode(i)
	require.NoError(m.rt, m.live[i].Recover(m.ctx))
	if m.fixture.Table.Claim == "" {
		return
	}
	for _, k := range m.jobs {
		if k.holder != nil && k.holder.n.name == m.live[i].name {
			k.until = m.clock.Now()
		}
	}
}

func (m *machine) check() {
	for _, k := range m.jobs {
		require.Equal(m.rt, k.effects, m.count(k.id), "each outcome that was reported is stored, and no other")
	}
}

// Over every order of claims, outcomes, progress, heartbeats, restarts and lost leases on two nodes, a job has one
// holder at a time, and the effects that are stored are those that were reported.
func anyOrderOfSteps(w *world) {
	defer func() { w.t = w.top }()
	rapid.Check(w.top, func(rt *rapid.T) {
		w.end()
		w.t, w.nodes = rt, nil
		w.clear()
		m := &machine{world: w, rt: rt}
		m.live = []*node{m.newNode(0), m.newNode(1)}
		pick := func() *node { return rapid.SampledFrom(m.live).Draw(rt, "node") }
		rt.Repeat(map[string]func(*rapid.T){
			"":        func(*rapid.T) { m.check() },
			"insert":  func(*rapid.T) { m.insert() },
			"claim":   func(*rapid.T) { m.claim(pick()) },
			"done":    func(*rapid.T) { m.end("done") },
			"again":   func(*rapid.T) { m.end("again") },
			"fail":    func(*rapid.T) { m.end("fail") },
			"release": func(*rapid.T) { m.end("release") },
			"save":    func(*rapid.T) { m.save() },
			"renew":   func(*rapid.T) { m.renew(pick()) },
			"restart": func(*rapid.T) { m.restart(rapid.IntRange(0, 1).Draw(rt, "which")) },
			"wait": func(*rapid.T) {
				w.clock.Advance(time.Duration(rapid.IntRange(1, 70).Draw(rt, "seconds")) * time.Second)
			},
		})
	})
}
