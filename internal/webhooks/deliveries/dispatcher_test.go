package deliveries

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
)

// sends stands in for the senders of a dispatcher: each attempt lasts until the test ends it.
type sends struct {
	d     *dispatcher
	clock *clock.Manual
	// over ends every attempt, so that a failed test leaves nothing behind.
	over chan struct{}
	// host returns the host that a subscription's attempts go to.
	host func(subscription string) string

	mu      sync.Mutex
	running []*send
	// started holds the deliveries whose try has begun, in order.
	started []string
}

type send struct {
	job *job
	end chan struct{}
}

func newSends(limit, perSubscription, perHost int, host func(string) string) *sends {
	s := &sends{host: host, over: make(chan struct{}), clock: clock.NewManual(testTime())}
	s.d = newDispatcher(limits{limit, perSubscription, perHost}, s.clock, s.run)
	return s
}

// close ends what is sent and the goroutines that wait for more.
func (s *sends) close() {
	s.d.stop()
	close(s.over)
}

func (s *sends) run(j *job) {
	if !s.d.goesTo(j, s.host(j.delivery.SubscriptionID)) {
		return
	}
	x := &send{j, make(chan struct{})}
	s.mu.Lock()
	s.running = append(s.running, x)
	s.started = append(s.started, j.delivery.EventUUID)
	s.mu.Unlock()
	select {
	case <-x.end:
	case <-s.over:
	}
}

// add hands a delivery to the dispatcher.
func (s *sends) add(t require.TestingT, subscription, event string) {
	s.addAs(t, subscription, event, 1)
}

// addAs hands in a delivery of that generation; those after the first are replays.
func (s *sends) addAs(t require.TestingT, subscription, event string, generation int64) {
	require.True(t, s.offer(subscription, event, generation))
}

// offer hands in a delivery if there is room for it.
func (s *sends) offer(subscription, event string, generation int64) bool {
	if !s.d.reserve(environmentOf(subscription), subscription, false) {
		return false
	}
	s.d.enqueue(&job{delivery: leasedTo(subscription, event, generation)})
	return true
}

// leasedTo returns a leased delivery to the subscription.
func leasedTo(subscription, event string, generation int64) Delivery {
	return Delivery{Key: Key{event, subscription}, Environment: environmentOf(subscription), Generation: generation,
		ClaimID: "claim"}
}

// environmentOf returns the environment of a subscription, which is named after the last letter of its name.
func environmentOf(subscription string) id.Environment {
	return id.Environment("env-" + subscription[len(subscription)-1:])
}

// finish ends an attempt as the recorder does, and waits until everything that follows has happened.
func (s *sends) finish(x *send) {
	s.mu.Lock()
	s.running = slices.DeleteFunc(s.running, func(y *send) bool { return x == y })
	s.mu.Unlock()
	s.d.done(x.job.delivery)
	close(x.end)
	synctest.Wait()
}

// counts returns the attempts in progress, by subscription and by host too.
func (s *sends) counts() (all load, bySubscription, byHost map[string]load) {
	bySubscription, byHost = map[string]load{}, map[string]load{}
	for _, x := range s.running {
		all.add(x.job, 1)
		at := func(m map[string]load, key string) {
			l := m[key]
			l.add(x.job, 1)
			m[key] = l
		}
		at(bySubscription, x.job.delivery.SubscriptionID)
		at(byHost, s.host(x.job.delivery.SubscriptionID))
	}
	return all, bySubscription, byHost
}

// withoutDeadline hides the test's deadline, which is none of a bubble's time, from rapid.
type withoutDeadline struct{ *testing.T }

func sharedHost(subscription string) string { return "host-" + subscription[:1] }

// Deliveries arrive, are replayed and end in any order. The limits hold, replays have at most half of each, nothing
// that could be sent waits, and everything is sent once. Hosts are shared by subscriptions and not known before their
// first attempt.
func TestDispatcherLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(withoutDeadline{t}, func(rt *rapid.T) {
			limit, perSubscription, perHost := rapid.IntRange(1, 6).Draw(rt, "limit"), rapid.IntRange(1, 3).Draw(rt,
				"per subscription"), rapid.IntRange(1, 3).Draw(rt, "per host")
			s := newSends(limit, perSubscription, perHost, sharedHost)
			defer s.close()
			waiting, replays, paused, added := map[string]int{}, map[string]int{}, false, 0
			half := func(n int) int { return max(n/2, 1) }
			within := func(l load, limit int) {
				require.LessOrEqual(rt, l.all, limit)
				require.LessOrEqual(rt, l.replays, half(limit))
			}
			check := func() {
				all, bySubscription, byHost := s.counts()
				byEnvironment, byBoth := map[id.Environment]int{}, map[string]int{}
				for _, x := range s.running {
					byEnvironment[x.job.delivery.Environment]++
					byBoth[string(x.job.delivery.Environment)+s.host(x.job.delivery.SubscriptionID)]++
				}
				within(all, limit)
				for _, l := range bySubscription {
					within(l, perSubscription)
				}
				for _, l := range byHost {
					within(l, perHost)
				}
				if paused || all.all == limit {
					return
				}
				for sub := range waiting {
					at, there := bySubscription[sub], byHost[sharedHost(sub)]
					env := environmentOf(sub)
					share := headroom(limit, all.all, byEnvironment[env], shareOfAttempts)
					room := at.all < perSubscription && there.all < perHost && at.all < share &&
						headroom(perHost, there.all, byBoth[string(env)+sharedHost(sub)], shareOfFree) > 0
					require.False(rt, room && waiting[sub] > 0, "a delivery to %s waits although it could be sent", sub)
					half := all.replays < half(limit) && at.replays < half(perSubscription) && there.replays < half(perHost)
					require.False(rt, room && half && waiting[sub] == 0 &&
						replays[sub] > 0, "a replay to %s waits although it could be sent", sub)
				}
			}
			settle := func() {
				synctest.Wait()
				clear(waiting)
				clear(replays)
				for _, q := range s.d.queues {
					waiting[q.subscriptionID], replays[q.subscriptionID] = len(q.waiting), len(q.replays)
				}
				check()
			}
			for range rapid.IntRange(1, 30).Draw(rt, "steps") {
				switch rapid.IntRange(0, 5).Draw(rt, "step") {
				case 0, 1, 2:
					sub := rapid.SampledFrom([]string{"a1", "a2", "b1", "b2"}).Draw(rt, "subscription")
					if paused {
						require.False(rt, s.d.reserve(environmentOf(sub), sub, false))
						break
					}
					if s.offer(sub, fmt.Sprint(added), rapid.Int64Range(1, 2).Draw(rt, "generation")) {
						added++
					}
				case 3, 4:
					if len(s.running) > 0 {
						s.finish(s.running[rapid.IntRange(0, len(s.running)-1).Draw(rt, "ended")])
					}
				default:
					if paused = !paused; paused {
						s.d.pause()
					} else {
						s.d.resume()
					}
				}
				settle()
			}
			s.d.resume()
			paused = false
			for settle(); len(s.running) > 0; settle() {
				s.finish(s.running[0])
			}
			slices.Sort(s.started)
			require.Len(rt, s.started, added)
			require.Len(rt, slices.Compact(s.started), added)
			s.clock.Advance(3 * time.Second)
			s.d.forget(s.d.queue("env-1", "a1"))
			require.Empty(rt, s.d.queues)
			require.Empty(rt, s.d.held)
			require.Empty(rt, s.d.hosts)
			require.Empty(rt, s.d.environments)
			require.Zero(rt, s.d.places)
			require.Zero(rt, s.d.inFlight)
			require.Zero(rt, s.d.ring.Len())
		})
	})
}

// A subscription whose receiver hangs takes its own places and no others.
func TestHangingSubscriptionStopsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSends(4, 2, 4, func(sub string) string { return sub })
		defer s.close()
		for i := range 8 {
			s.add(t, "hangs", fmt.Sprint("h", i))
		}
		s.add(t, "works", "w0")
		s.add(t, "works", "w1")
		s.add(t, "works", "w2")
		synctest.Wait()
		for len(s.running) > 2 {
			i := slices.IndexFunc(s.running, func(x *send) bool { return x.job.delivery.SubscriptionID == "works" })
			s.finish(s.running[i])
		}
		require.ElementsMatch(t, []string{"h0", "h1", "w0", "w1", "w2"}, s.started)
		for len(s.running) > 0 {
			s.finish(s.running[0])
		}
	})
}

// Subscriptions take turns: a long queue does not go first because it came first.
func TestSubscriptionsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSends(1, 1, 1, func(sub string) string { return sub })
		defer s.close()
		for _, event := range []string{"a0", "a1", "a2", "b0", "c0", "b1"} {
			s.add(t, event[:1]+"1", event)
		}
		synctest.Wait()
		for len(s.running) > 0 {
			s.finish(s.running[0])
		}
		require.Equal(t, []string{"a0", "b0", "c0", "a1", "b1", "a2"}, s.started)
	})
}

// Environments take turns, no matter how many of their subscriptions have something to send.
func TestEnvironmentsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSends(1, 1, 1, func(sub string) string { return sub })
		defer s.close()
		for _, event := range []string{"a1", "b1", "c1", "d1", "x2", "y3", "z2"} {
			s.add(t, event, event)
		}
		synctest.Wait()
		for len(s.running) > 0 {
			s.finish(s.running[0])
		}
		require.Equal(t, []string{"a1", "b1", "x2", "y3", "c1", "z2", "d1"}, s.started)
	})
}

// Replays give way: a new delivery goes first, and finds a place next to any number of replays to a receiver that
// hangs.
func TestReplaysGiveWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSends(16, 4, 6, func(string) string { return "host" })
		defer s.close()
		for i := range 20 {
			s.addAs(t, "a1", fmt.Sprint("r", i), 2)
			s.addAs(t, "b1", fmt.Sprint("q", i), 3)
		}
		synctest.Wait()
		all, _, _ := s.counts()
		require.Equal(t, load{all: 3, replays: 3}, all, "half of the host's")
		for i := range 3 {
			s.add(t, "a1", fmt.Sprint("f", i))
		}
		synctest.Wait()
		require.Contains(t, s.started, "f0")
		require.Contains(t, s.started, "f1")
		replay := slices.IndexFunc(s.running, func(x *send) bool {
			return x.job.delivery.SubscriptionID == "a1" && x.job.replay()
		})
		s.finish(s.running[replay])
		require.Contains(t, s.started, "f2", "before the replays that came earlier")
		for len(s.running) > 0 {
			s.finish(s.running[0])
		}
		require.Len(t, s.started, 43)
	})
}

// A subscription that moves to another host counts there from its next attempt on, and there only.
func TestSubscriptionMovesToAnotherHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		host := map[string]string{"moves": "old", "stays": "new"}
		s := newSends(9, 9, 1, func(sub string) string { return host[sub] })
		defer s.close()
		s.add(t, "moves", "m0")
		synctest.Wait()
		s.finish(s.running[0])
		s.add(t, "stays", "s0")
		synctest.Wait()
		host["moves"] = "new"
		s.add(t, "moves", "m1")
		synctest.Wait()
		require.Equal(t, []string{"m0", "s0"}, s.started, "the new host is busy")
		s.finish(s.running[0])
		require.Equal(t, []string{"m0", "s0", "m1"}, s.started)
		s.finish(s.running[0])
		require.Empty(t, s.d.hosts)
	})
}

// Nothing starts while the dispatcher is paused, nothing is reserved, and everything goes on afterwards.
func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSends(9, 9, 9, sharedHost)
		defer s.close()
		require.True(t, s.d.reserve("env-1", "a1", false))
		s.d.pause()
		s.d.enqueue(&job{delivery: leasedTo("a1", "e", 1)})
		synctest.Wait()
		require.Empty(t, s.running)
		require.False(t, s.d.reserve("env-1", "a1", false))
		n, why := s.d.reserveDue("env-1", "a1", 1)
		require.Zero(t, n)
		require.Equal(t, roomClosed, why)
		s.d.resume()
		synctest.Wait()
		require.Len(t, s.running, 1)
		require.True(t, s.d.reserve("env-1", "a1", false))
		s.d.release("env-1", "a1", 1)
		s.finish(s.running[0])
	})
}

// A stop returns every waiting delivery, once, also one that arrives afterwards and one that a busy host sends back.
// Those in progress end by themselves.
func TestStopReturnsWhatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSends(9, 1, 9, sharedHost)
		defer s.close()
		for i := range 4 {
			s.add(t, "a1", fmt.Sprint(i))
		}
		require.True(t, s.d.reserve("env-1", "b1", false))
		synctest.Wait()
		events := func(list []Delivery) (out []string) {
			for _, d := range list {
				out = append(out, d.EventUUID)
			}
			return out
		}
		require.ElementsMatch(t, []string{"1", "2", "3"}, events(s.d.stop()))
		require.Empty(t, s.d.stop())
		s.d.enqueue(&job{delivery: leasedTo("b1", "late", 1)})
		require.Equal(t, []string{"late"}, events(s.d.stop()))
		require.False(t, s.d.reserve("env-1", "c1", false))
		short, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, s.d.wait(short), context.Canceled)
		s.finish(s.running[0])
		require.NoError(t, s.d.wait(t.Context()))
		require.Equal(t, []string{"0"}, s.started)
	})
}

// A delivery that a busy host sends back while the dispatcher stops is returned, too.
func TestStopReturnsWhatABusyHostSendsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		s := newSends(9, 9, 1, sharedHost)
		defer s.close()
		s.add(t, "a1", "sent")
		synctest.Wait()
		s.host = func(sub string) string {
			<-gate
			return sharedHost(sub)
		}
		s.add(t, "a2", "sent back")
		synctest.Wait()
		require.Empty(t, s.d.stop())
		close(gate)
		synctest.Wait()
		list := s.d.stop()
		require.Len(t, list, 1)
		require.Equal(t, "sent back", list[0].EventUUID)
		s.finish(s.running[0])
	})
}

// A delivery can be claimed again between the commit of its outcome and the moment its place is freed, as by a replay.
// The end of the first lease frees one place and leaves the second lease in memory.
func TestEndOfALeaseLeavesTheNext(t *testing.T) {
	t.Parallel()
	d := newDispatcher(limits{0, 1, 1}, clock.System(), func(*job) {}) // nothing starts
	first, second := leasedTo("s1", "e", 1), leasedTo("s1", "e", 1)
	first.ClaimID = "first"
	for _, lease := range []Delivery{first, second} {
		require.True(t, d.reserve("env-1", "s1", false))
		d.enqueue(&job{delivery: lease})
	}
	d.done(first)
	require.True(t, d.holds(first.Key))
	require.Equal(t, []Delivery{second}, d.all())
	require.Equal(t, 1, d.places)
	d.done(second)
	require.False(t, d.holds(first.Key))
	require.Zero(t, d.places)
}

// Workers that have nothing to send take the next jobs. Some of them wait for one, and all end with the dispatcher.
func TestIdleWorkersTakeTheNextJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const all = maxIdle + 5
		s := newSends(8*all, 8*all, 8*all, sharedHost)
		defer s.close()
		send := func(n int) {
			for i := range n {
				s.add(t, fmt.Sprint("a", i%3), fmt.Sprint(i))
			}
			synctest.Wait()
			require.Len(t, s.running, n)
		}
		finish := func() {
			for len(s.running) > 0 {
				s.finish(s.running[0])
				synctest.Wait()
			}
		}
		send(3)
		finish()
		require.Equal(t, 3, s.d.workers.idle)
		send(2)
		require.Equal(t, 1, s.d.workers.idle)
		finish()
		send(all)
		require.Zero(t, s.d.workers.idle)
		finish()
		require.Equal(t, maxIdle, s.d.workers.idle)
	})
}
