package deliveries

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// jsonOf returns a JSON text of n bytes.
func jsonOf(n int) []byte { return []byte(`"` + strings.Repeat("x", n-2) + `"`) }

// Large bodies whose receivers hang take the memory of their environment only, whether a few events go to many
// receivers or many to a few: every delivery of another environment is made while they hang, small and large.
func TestLargeBodiesThatHangDelayNoOtherEnvironment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ events, size, receivers int }{
		"one event to four receivers":      {1, 9 << 20, 4},
		"three events to forty receivers":  {3, 1 << 20, 40},
		"twelve events to four receivers":  {12, 9 << 20, 4},
		"many events to sixteen receivers": {40, 1 << 20, 16},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Each(t, func(t *testing.T, store testkit.Store) {
				const large, small = 60, 40
				s := newServer(t, store)
				stuck := make([]*sink, c.receivers)
				stuckTo := make([]string, c.receivers)
				for i := range stuck {
					stuck[i] = newSink(t)
					stuckTo[i] = s.to(t, stuck[i].URL)
				}
				works := newSink(t)
				works.open()
				other := id.Environment(id.New(id.PrefixEnvironment))
				worksTo := s.to(t, works.URL)
				s.subs.byID[worksTo].Environment = other
				s.run(t, stuck...)
				for range c.events {
					s.receiveBody(t, s.env, 1, jsonOf(c.size), stuckTo...)
				}
				await.Condition(t, "attempts at receivers that hang", func() bool {
					return s.dispatcher.memory.now().large > 0
				})
				s.receiveBody(t, other, large, jsonOf(40<<10), worksTo)
				s.receive(t, other, small, worksTo)
				await.Condition(t, "every delivery of the other environment", func() bool {
					return s.in(t, other, Succeeded) == large+small
				})
				require.LessOrEqual(t, s.dispatcher.memory.now().large, maxBodyMemory*3/4+maxHandedBody)
				for _, k := range stuck {
					require.Zero(t, k.count.Load())
					k.open()
				}
				await.Condition(t, "every delivery", func() bool {
					return s.in(t, s.env, Succeeded) == c.events*c.receivers
				})
				// An attempt gives its memory back after its outcome is stored.
				await.Condition(t, "all memory to be free", func() bool { return s.dispatcher.memory.now().large == 0 })
			})
		})
	}
}

// usage is what is in use of the memory for large bodies.
type usage struct{ large, bodies, heavy, starving int }

func (m *bodyMemory) now() usage {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	return usage{m.used, len(m.large), m.heavy.Len(), m.starving}
}

// Deliveries of one event share its large body in memory, each of its forms is built once, and every receiver gets what
// its subscription asks for.
func TestDeliveriesOfAnEventShareItsBody(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		const size = 9 << 20
		s := newServer(t, store)
		hangs := newSink(t)
		var raw, wrapped atomic.Int64
		checks := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			switch {
			case err != nil:
			case string(body) == string(jsonOf(size)):
				raw.Add(1)
			case strings.HasSuffix(string(body), `,"data":`+string(jsonOf(size))+"}"):
				wrapped.Add(1)
			}
		}))
		await.Close(t, checks)
		to := s.fanOut(t, 6, hangs)
		for i := range 4 {
			sub := s.to(t, checks.URL)
			if s.subs.byID[sub].PayloadMode = subscriptions.Envelope; i == 3 {
				s.subs.byID[sub].PayloadMode = subscriptions.Raw
			}
			to = append(to, sub)
		}
		for _, sub := range to[:6] {
			s.subs.byID[sub].PayloadMode = subscriptions.Envelope
		}
		s.run(t, hangs)
		s.receiveBody(t, s.env, 1, jsonOf(size), to...)
		await.Condition(t, "the other deliveries", func() bool {
			return hangs.active.Load() == 6 && s.in(t, s.env, Succeeded) == 4
		})
		require.EqualValues(t, 1, raw.Load())
		require.EqualValues(t, 3, wrapped.Load())
		now := s.dispatcher.memory.now()
		require.Equal(t, 1, now.bodies)
		require.InDelta(t, 2*size, now.large, 4<<10, "one body, in two forms")
		hangs.open()
		await.Condition(t, "every delivery", func() bool { return s.in(t, s.env, Succeeded) == len(to) })
		require.Zero(t, s.dispatcher.memory.now())
	})
}

// addSize hands in a delivery of an event with a body of that size, if there is room for it.
func (s *sends) addSize(subscription, event string, size int) bool {
	if !s.d.reserve(environmentOf(subscription), subscription, false) {
		return false
	}
	s.d.enqueue(&job{delivery: leasedTo(subscription, event, 1),
		content: content{event: &events.Event{UUID: event, BodySize: int64(size)}}})
	return true
}

// isSent reports whether an attempt of the event is in progress.
func (s *sends) isSent(event string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.running {
		if x.job.delivery.EventUUID == event {
			return true
		}
	}
	return false
}

// The largest body of an environment is sent at the latest when those that others had in progress have ended, no matter
// how many more of them wait and come, and small bodies are sent meanwhile.
func TestLargestBodyIsNotStarved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSends(256, 10, 50, func(subscription string) string { return subscription })
		defer s.close()
		for i := range 60 {
			require.True(t, s.addSize("sub"+strconv.Itoa(i%10)+"a", "their"+strconv.Itoa(i), 1<<20))
		}
		synctest.Wait()
		theirs := len(s.running)
		require.Greater(t, theirs, 30)
		require.True(t, s.addSize("b", "largest", 25<<20))
		require.True(t, s.addSize("c", "small", 40<<10))
		synctest.Wait()
		require.False(t, s.isSent("largest"))
		require.True(t, s.isSent("small"))
		for i := 0; i < theirs && !s.isSent("largest"); i++ {
			s.finish(s.running[0])
			s.addSize("sub"+strconv.Itoa(i%10)+"a", "later"+strconv.Itoa(i), 1<<20)
		}
		require.True(t, s.isSent("largest"))
		require.Zero(t, s.d.memory.now().starving)
	})
}

// A subscription whose large bodies hang leaves memory to the others of its environment.
func TestSubscriptionLeavesMemoryToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSends(256, 40, 50, func(subscription string) string { return subscription })
		defer s.close()
		for i := range 40 {
			require.True(t, s.addSize("one-a", strconv.Itoa(i), 1<<20))
		}
		for i := range 5 {
			require.True(t, s.addSize("two-a", "other"+strconv.Itoa(i), 1<<20))
		}
		synctest.Wait()
		for i := range 5 {
			require.True(t, s.isSent("other"+strconv.Itoa(i)))
		}
	})
}

// A body that is in memory goes to every other receiver of its event, although a second of its size would not fit.
func TestSharedBodyCostsNothingMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSends(256, 10, 50, func(subscription string) string { return subscription })
		defer s.close()
		for i := range 20 {
			require.True(t, s.addSize("sub"+strconv.Itoa(i)+"a", "largest", 25<<20))
		}
		require.True(t, s.addSize("sub-a", "another", 25<<20))
		synctest.Wait()
		require.Len(t, s.running, 20)
		require.False(t, s.isSent("another"))
		for range 20 {
			s.finish(s.running[0])
		}
		require.True(t, s.isSent("another"))
	})
}

// For any order of arrivals and ends of deliveries with bodies of any size: the books agree with what is sent, the
// memory is not exceeded, nothing is lost, and something is sent as long as anything waits.
func TestMemoryForBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(withoutDeadline{t}, func(rt *rapid.T) {
			s := newSends(rapid.IntRange(4, 40).Draw(rt, "limit"), 4, 8, sharedHost)
			defer s.close()
			sizes := map[string]int{}
			size := rapid.OneOf(rapid.Just(0), rapid.IntRange(maxHandedBody, 1<<20), rapid.IntRange(1<<20, 25<<20))
			added, ended := 0, 0
			rt.Repeat(map[string]func(*rapid.T){
				"add": func(rt *rapid.T) {
					sub := rapid.SampledFrom([]string{"x1a", "y2a", "x3a", "x1b", "y2b", "z1c"}).Draw(rt, "subscription")
					event := string(environmentOf(sub)) + strconv.Itoa(rapid.IntRange(0, 30).Draw(rt, "event")) + "-"
					if _, known := sizes[event]; !known {
						sizes[event] = size.Draw(rt, "size")
					}
					if s.d.holds(Key{event, sub}) {
						return
					}
					if s.addSize(sub, event, sizes[event]) {
						added++
					}
					synctest.Wait()
				},
				"end": func(rt *rapid.T) {
					if n := len(s.running); n > 0 {
						s.finish(s.running[rapid.IntRange(0, n-1).Draw(rt, "which")])
						ended++
					}
				},
				"": func(rt *rapid.T) {
					used, events := 0, map[string]bool{}
					for _, x := range s.running {
						e := x.job.delivery.EventUUID
						if sizes[e] > maxHandedBody && !events[e] {
							used += sizes[e]
						}
						events[e] = true
					}
					now := s.d.memory.now()
					require.Equal(rt, used, now.large)
					require.LessOrEqual(rt, now.large, maxBodyMemory)
					if added > ended {
						require.NotEmpty(rt, s.running)
					}
				},
			})
			for len(s.running) > 0 {
				s.finish(s.running[0])
				ended++
			}
			require.Equal(rt, added, ended)
			require.Zero(rt, s.d.memory.now())
		})
	})
}
