package deliveries

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
)

// placed drives the places of a dispatcher whose jobs a test starts and ends by hand, and a model of them.
type placed struct {
	d     *dispatcher
	clock *clock.Manual
	// reserved, waiting, sending and ended hold what has a place, by subscription: reserved and not enqueued, in a queue,
	// being sent, and sent but not stored.
	reserved                map[string]int
	waiting, sending, ended map[string][]*job
	// sent counts how often each delivery was sent, returned how often it went back to the table.
	sent, returned map[string]int
	added          int
}

const (
	placedCapacity = 40
	placedPer      = 2
)

func newPlaced() *placed {
	p := &placed{clock: clock.NewManual(time.Unix(1000, 0)), reserved: map[string]int{}, waiting: map[string][]*job{},
		sending: map[string][]*job{}, ended: map[string][]*job{}, sent: map[string]int{}, returned: map[string]int{}}
	p.d = newDispatcher(limits{0, placedPer, placedPer}, p.clock, nil) // it starts nothing by itself
	p.d.capacity = placedCapacity
	return p
}

// places counts the places of a subscription.
func (p *placed) places(sub string) int {
	return p.reserved[sub] + len(p.waiting[sub]) + len(p.sending[sub]) + len(p.ended[sub])
}

// all counts the places of an environment, and of all of them.
func (p *placed) all(env id.Environment) (mine, all int) {
	for _, sub := range placedSubs() {
		n := p.places(sub)
		all += n
		if environmentOf(sub) == env {
			mine += n
		}
	}
	return mine, all
}

// placedSubs are the subscriptions of three environments.
func placedSubs() []string {
	return []string{"a1", "b1", "c1", "d1", "e1", "f1", "g1", "h1", "a2", "b2", "c2", "a3"}
}

// take reserves a place if there is room, and checks that the result is right.
func (p *placed) take(rt *rapid.T, sub string, behind bool) {
	env := environmentOf(sub)
	mine, all := p.all(env)
	had := p.places(sub)
	got := p.d.reserve(env, sub, behind)
	if !got {
		require.False(rt, mine == 0 && all < placedCapacity, "an environment without a place finds one")
		left := headroom(placedCapacity, all, mine, shareOfFree)
		require.False(rt, had == 0 && left > 0, "a subscription without a place finds one")
		return
	}
	p.reserved[sub]++
	require.Less(rt, mine, shareOfFree*(placedCapacity-all), "no environment takes more than its share")
	require.Less(rt, had, headroom(placedCapacity, all, mine, shareOfFree),
		"nor a subscription more than what that leaves")
}

// start begins the next attempt of a subscription, if its limit lets it.
func (p *placed) start(sub string) {
	if len(p.waiting[sub]) == 0 || len(p.sending[sub]) == placedPer {
		return
	}
	p.d.mu.Lock()
	j := p.d.start(p.d.queues[sub], false)
	p.d.mu.Unlock()
	p.waiting[sub] = p.waiting[sub][1:]
	p.sending[sub] = append(p.sending[sub], j)
	p.sent[j.delivery.EventUUID]++
}

// check compares the dispatcher with the model.
func (p *placed) check(rt *rapid.T) {
	total := 0
	for _, env := range []id.Environment{"env-1", "env-2", "env-3"} {
		mine, all := p.all(env)
		total = all
		if e := p.d.environments[env]; e != nil {
			require.Equal(rt, mine, e.places, "%s", env)
		} else {
			require.Zero(rt, mine, "%s", env)
		}
	}
	require.Equal(rt, total, p.d.places)
	require.LessOrEqual(rt, total, placedCapacity)
	for _, sub := range placedSubs() {
		if q := p.d.queues[sub]; q != nil {
			require.Equal(rt, p.places(sub), q.places, "%s", sub)
			require.Len(rt, q.waiting, len(p.waiting[sub]), "%s", sub)
		}
	}
}

// In any order of receipts, attempts, receivers that hang and deliveries that give way: no environment and no
// subscription takes more than its share; an environment that has nothing always finds a place, and so does a
// subscription that has nothing while its environment's share lasts; deliveries that give way do not take the place
// again; and nothing is lost or sent twice.
func TestPlaces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p := newPlaced()
		sub := func() string { return rapid.SampledFrom(placedSubs()).Draw(rt, "subscription") }
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) { p.check(rt) },
			"reserve": func(rt *rapid.T) {
				s := sub()
				for range rapid.IntRange(1, 12).Draw(rt, "deliveries") {
					p.take(rt, s, rapid.Bool().Draw(rt, "behind"))
				}
			},
			"claim": func(rt *rapid.T) {
				s := sub()
				had := len(p.waiting[s])
				n, why := p.d.reserveDue(environmentOf(s), s, rapid.IntRange(1, 12).Draw(rt, "limit"))
				p.reserved[s] += n
				mine, all := p.all(environmentOf(s))
				require.False(rt, n == 0 && mine == 0 && all < placedCapacity, "an environment without a place finds one")
				require.False(rt, n == 0 && p.places(s) == 0 && (why == roomFull || why == roomPartUsed),
					"a subscription without a place is not full")
				require.False(rt, n > 0 && had > windowFactor*placedPer, "a claim waits until what was claimed is sent")
			},
			"release": func(*rapid.T) {
				s := sub()
				p.d.release(environmentOf(s), s, p.reserved[s])
				p.reserved[s] = 0
			},
			"commit": func(*rapid.T) {
				s := sub()
				for ; p.reserved[s] > 0; p.reserved[s]-- {
					p.added++
					j := &job{delivery: leasedTo(s, fmt.Sprint(p.added), 1)}
					p.d.enqueue(j)
					p.waiting[s] = append(p.waiting[s], j)
				}
			},
			"start": func(*rapid.T) { p.start(sub()) },
			"finish": func(*rapid.T) {
				s := sub()
				for _, j := range p.sending[s] {
					require.Nil(rt, p.d.next(j))
					p.ended[s] = append(p.ended[s], j)
				}
				p.sending[s] = nil
			},
			"store": func(*rapid.T) {
				s := sub()
				for _, j := range p.ended[s] {
					p.d.done(j.delivery)
				}
				p.ended[s] = nil
			},
			"wait": func(rt *rapid.T) {
				p.clock.Advance(time.Duration(rapid.IntRange(1, 3000).Draw(rt, "milliseconds")) * time.Millisecond)
			},
			"give way": func(rt *rapid.T) {
				env := environmentOf(sub())
				gave := map[string]bool{}
				for _, j := range p.d.giveWay(env, rapid.IntRange(1, 10).Draw(rt, "limit")) {
					s := j.delivery.SubscriptionID
					last := len(p.waiting[s]) - 1
					require.Same(rt, p.waiting[s][last], j, "the last that came goes first")
					p.waiting[s] = p.waiting[s][:last]
					require.Positive(rt, p.places(s), "something stays")
					p.returned[j.delivery.EventUUID]++
					p.d.done(j.delivery)
					gave[s] = true
				}
				for s := range gave {
					if q := p.d.queues[s]; q.spare(placedPer, p.clock.Now()) == 0 {
						require.False(rt, p.d.reserve(environmentOf(s), s, false), "what gave way takes no place again")
						n, _ := p.d.reserveDue(environmentOf(s), s, 1)
						require.Zero(rt, n, "nor does a claim")
					}
				}
			},
		})
		for _, s := range placedSubs() {
			p.d.release(environmentOf(s), s, p.reserved[s])
			for len(p.waiting[s])+len(p.sending[s]) > 0 {
				p.start(s)
				for _, j := range p.sending[s] {
					require.Nil(rt, p.d.next(j))
					p.ended[s] = append(p.ended[s], j)
				}
				p.sending[s] = nil
			}
			for _, j := range p.ended[s] {
				p.d.done(j.delivery)
			}
		}
		for n := range p.added {
			event := fmt.Sprint(n + 1)
			require.Equal(rt, 1, p.sent[event]+p.returned[event], "delivery %s is sent once or returned", event)
		}
		p.clock.Advance(3 * time.Second)
		require.Zero(rt, p.d.places)
		p.d.forget(p.d.queue("env-1", "a1"))
		require.Empty(rt, p.d.held)
		require.Empty(rt, p.d.queues)
		require.Empty(rt, p.d.environments)
	})
}

// A receiver has as much in memory as it will soon get: a few deliveries at first, what it took in the last seconds
// while it keeps up, and no more than what is being sent once it hangs. Deliveries that wait for it then give way, and
// it gets its room back when it responds.
func TestWindowFollowsTheReceiver(t *testing.T) {
	t.Parallel()
	p := newPlaced()
	p.d.capacity = 10_000
	fill := func() (n int) {
		for p.d.reserve("env-1", "a1", false) {
			p.d.enqueue(&job{delivery: leasedTo("a1", fmt.Sprint(p.added), 1)})
			p.added++
			n++
		}
		return n
	}
	start := func() *job {
		p.d.mu.Lock()
		defer p.d.mu.Unlock()
		return p.d.start(p.d.queues["a1"], false)
	}
	require.Equal(t, windowFactor*placedPer, fill())
	for range windowFactor * placedPer {
		j := start()
		p.d.next(j)
		p.d.done(j.delivery)
	}
	require.Equal(t, 2*windowFactor*placedPer, fill(), "as many more as it has just taken")
	stuck := []*job{start(), start()}
	p.clock.Advance(3 * time.Second)
	require.Zero(t, fill(), "it hangs")
	back := p.d.giveWay("env-1", 1000)
	for _, j := range back {
		p.d.done(j.delivery)
	}
	require.Equal(t, placedPer+1, p.d.queues["a1"].places, "what is being sent and the next stay")
	require.Zero(t, fill(), "and nothing comes in its place")
	p.d.next(stuck[0])
	p.d.done(stuck[0].delivery)
	require.Positive(t, fill(), "it responds")
	p.d.next(stuck[1])
}

// Replays that wait take no place from a new event: it finds room behind any number of them.
func TestReplaysTakeNoRoomFromNewEvents(t *testing.T) {
	t.Parallel()
	p := newPlaced()
	p.d.capacity = 10_000
	n := 0
	for {
		got, why := p.d.reserveDue("env-1", "a1", 50)
		if got == 0 {
			require.Equal(t, roomFull, why)
			break
		}
		for range got {
			p.d.enqueue(&job{delivery: leasedTo("a1", fmt.Sprint("replay", n), 2)})
			n++
		}
		require.True(t, p.d.reserve("env-1", "a1", false), "%d replays", n)
		p.d.release("env-1", "a1", 1)
		require.LessOrEqual(t, n, 2*MaxReplays)
	}
	require.GreaterOrEqual(t, n, MaxReplays)
}

// A subscription that was idle, or is new, has all of its window at the first claim. It has a place for a new delivery
// even if it may have only one attempt in progress and others of it wait in the table.
func TestWindowOfAnIdleSubscription(t *testing.T) {
	t.Parallel()
	p := newPlaced()
	p.d.capacity = 10_000
	for range 2 {
		n, _ := p.d.reserveDue("env-1", "a1", 100)
		require.Equal(t, windowFactor*placedPer, n)
		p.d.release("env-1", "a1", n)
		p.clock.Advance(time.Hour)
	}
	p.d.perSubscription = 1
	for range 2 {
		require.True(t, p.d.reserve("env-1", "b1", true))
		p.d.release("env-1", "b1", 1)
		p.clock.Advance(time.Hour)
	}
}

// An empty queue is dropped when its pace is of no interest any more, also if it came to rest after one that has been
// busy again since.
func TestEmptyQueuesAreDropped(t *testing.T) {
	t.Parallel()
	p := newPlaced()
	send := func(sub string) {
		require.True(t, p.d.reserve("env-1", sub, false))
		p.added++
		p.d.enqueue(&job{delivery: leasedTo(sub, fmt.Sprint(p.added), 1)})
		p.d.mu.Lock()
		j := p.d.start(p.d.queues[sub], false)
		p.d.mu.Unlock()
		require.Nil(t, p.d.next(j))
		p.d.done(j.delivery)
	}
	send("a1")
	send("b1")
	for range 3 {
		p.clock.Advance(time.Second)
		send("a1")
	}
	require.Contains(t, p.d.queues, "a1")
	require.NotContains(t, p.d.queues, "b1")
}

// Jobs that will not be sent soon are looked for at intervals if there were none.
func TestSpareJobsAreLookedForAtIntervals(t *testing.T) {
	t.Parallel()
	p := newPlaced()
	for p.d.reserve("env-1", "a1", false) {
		p.added++
		p.d.enqueue(&job{delivery: leasedTo("a1", fmt.Sprint(p.added), 1)})
	}
	p.clock.Advance(stallAfter - time.Millisecond)
	require.Empty(t, p.d.giveWay("env-1", 100))
	p.clock.Advance(time.Millisecond)
	require.Empty(t, p.d.giveWay("env-1", 100), "it has just looked")
	p.clock.Advance(spareInterval - time.Millisecond)
	require.Len(t, p.d.giveWay("env-1", 100), p.added-1)
}

// While deliveries of a subscription wait in the table, new ones leave half of its window to them. One that hangs and
// has nothing but replays in memory still has a place for a new delivery.
func TestNewDeliveriesLeaveHalfOfTheWindow(t *testing.T) {
	t.Parallel()
	p := newPlaced()
	p.d.capacity = 10_000
	taken := 0
	for p.d.reserve("env-1", "a1", true) {
		taken++
	}
	require.Equal(t, windowFactor*placedPer/2, taken)
	for p.d.reserve("env-1", "a1", false) {
		taken++
	}
	require.Equal(t, windowFactor*placedPer, taken)

	n, _ := p.d.reserveDue("env-1", "b1", 1)
	require.Equal(t, 1, n)
	p.d.enqueue(&job{delivery: leasedTo("b1", "replay", 2)})
	p.clock.Advance(3 * time.Second)
	require.True(t, p.d.reserve("env-1", "b1", true))
	require.False(t, p.d.reserve("env-1", "b1", true))
}

// A subscription that has been busy for a while has as much in memory as its receiver took lately and can be in
// progress, and no more: what waits for a slow receiver waits in the table.
func TestWindowOfASlowReceiver(t *testing.T) {
	t.Parallel()
	p := newPlaced()
	p.d.capacity = 10_000
	fill := func() {
		for p.d.reserve("env-1", "a1", false) {
			p.d.enqueue(&job{delivery: leasedTo("a1", fmt.Sprint(p.added), 1)})
			p.added++
		}
	}
	fill()
	for range windowFactor*placedPer + 10 {
		p.d.mu.Lock()
		j := p.d.start(p.d.queues["a1"], false)
		p.d.mu.Unlock()
		p.clock.Advance(900 * time.Millisecond)
		p.d.next(j)
		p.d.done(j.delivery)
		if p.d.queues["a1"].places < placedPer {
			fill()
			require.LessOrEqual(t, p.d.queues["a1"].places, placedPer+2)
		}
	}
}

// A subscription whose environment's share is in use finds that out, however little it has itself: others of its
// environment then make room for it.
func TestShareInUseIsReported(t *testing.T) {
	t.Parallel()
	p := newPlaced()
	p.d.capacity = 2 * placedPer
	for _, sub := range []string{"a1", "b1", "c1", "d1"} {
		for p.d.reserve("env-1", sub, false) {
			p.added++
		}
	}
	n, why := p.d.reserveDue("env-1", "e1", 5)
	require.Zero(t, n)
	require.Equal(t, roomShareUsed, why)
}

// A subscription that hangs claims nothing while anything of it waits in memory, even if only replays do.
func TestHangingSubscriptionClaimsNothing(t *testing.T) {
	t.Parallel()
	p := newPlaced()
	p.d.capacity = 10_000
	n, _ := p.d.reserveDue("env-1", "a1", 1)
	require.Equal(t, 1, n)
	p.d.enqueue(&job{delivery: leasedTo("a1", "replay", 2)})
	p.clock.Advance(3 * time.Second)
	n, why := p.d.reserveDue("env-1", "a1", 5)
	require.Zero(t, n)
	require.Equal(t, roomFull, why)
}

// An environment whose share is in use and that has nothing to spare gets room from the environment that has most: what
// waits there for receivers that hang gives way.
func TestTheLargestEnvironmentGivesWay(t *testing.T) {
	t.Parallel()
	p := newPlaced()
	fill := func(env id.Environment, subs ...string) (n int) {
		for _, sub := range subs {
			for p.d.reserve(env, sub, false) {
				p.d.enqueue(&job{delivery: leasedTo(sub, fmt.Sprint(p.added), 1)})
				p.added++
				n++
			}
		}
		return n
	}
	large := fill("env-1", "a1", "b1", "c1", "d1", "e1", "f1", "g1", "h1")
	p.clock.Advance(3 * time.Second)
	small := fill("env-2", "a2", "b2", "c2")
	require.Greater(t, large, small)
	require.Positive(t, small)
	back := p.d.giveWay("env-2", 5)
	require.Len(t, back, 5)
	for _, j := range back {
		require.Equal(t, id.Environment("env-1"), environmentOf(j.delivery.SubscriptionID))
		p.d.done(j.delivery)
	}
	require.Positive(t, fill("env-2", "a2", "b2", "c2"))
	require.Empty(t, p.d.giveWay("env-1", 0))
}

// One environment alone uses all attempts but an eighth, which another finds free, and two that want everything leave a
// fifteenth for the next.
func TestSharesOfAttempts(t *testing.T) {
	t.Parallel()
	const limit = 256
	fill := func(used ...int) []int {
		for grew := true; grew; {
			grew = false
			for i := range used {
				all := 0
				for _, n := range used {
					all += n
				}
				if headroom(limit, all, used[i], shareOfAttempts) > 0 {
					used[i]++
					grew = true
				}
			}
		}
		return used
	}
	require.Equal(t, []int{224}, fill(0))
	require.Equal(t, []int{224, 28}, fill(224, 0), "the next does not wait")
	require.Equal(t, []int{120, 119}, fill(0, 0))
}
