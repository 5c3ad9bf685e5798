package ratelimit_test

import (
	"context"
	"log/slog"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/platform/testkit"
)

// service is several nodes on one PostgreSQL database, whose clock the test moves.
type service struct {
	t     *testing.T
	clk   *clock.Manual
	nodes []*node
}

type node struct {
	*ratelimit.Limiter
	db   *db.DB
	stop func()
}

func newService(t *testing.T, nodes int) *service {
	t.Helper()
	s := &service{t: t, clk: clock.NewManual(start())}
	url := testkit.NewPostgres(t)
	for i := range nodes {
		d, err := db.Open(t.Context(), url, "")
		require.NoError(t, err)
		l, err := ratelimit.New(ratelimit.Options{DB: d, Clock: s.clk, Logger: slog.New(slog.DiscardHandler), Node: "node-" +
			strconv.Itoa(i)})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Run(ctx)
		}()
		stop := sync.OnceFunc(func() {
			cancel()
			<-done
		})
		t.Cleanup(func() {
			stop()
			require.NoError(t, d.Close())
		})
		s.nodes = append(s.nodes, &node{l, d, stop})
	}
	return s
}

func (s *service) count(what string, args ...any) (n int) {
	s.t.Helper()
	require.NoError(s.t, s.nodes[0].db.Read().QueryRowContext(s.t.Context(), "SELECT COUNT(*) FROM "+what,
		args...).Scan(&n))
	return n
}

// eventually waits until the condition holds.
func (s *service) eventually(what string, condition func() bool) {
	s.t.Helper()
	deadline, again := clock.System().NewTimer(30*time.Second), time.NewTicker(10*time.Millisecond)
	defer deadline.Stop()
	defer again.Stop()
	for !condition() {
		select {
		case <-again.C:
		case <-deadline.C():
			require.FailNow(s.t, "waited in vain for: "+what)
		}
	}
}

// offer has each node be asked so many times at the same time, and returns how many requests passed.
func (s *service) offer(bucket ratelimit.Bucket, limit ratelimit.Limit, perNode ...int) int {
	var passed atomic.Int64
	var all sync.WaitGroup
	for i, n := range perNode {
		for range n {
			all.Go(func() {
				if s.nodes[i].Take(s.t.Context(), bucket, limit).Allowed {
					passed.Add(1)
				}
			})
		}
	}
	all.Wait()
	return int(passed.Load())
}

func standard() ratelimit.Limit { return ratelimit.Limit{PerSecond: 100, Burst: 500} }

func key(id string) ratelimit.Bucket { return ratelimit.Bucket{Kind: ratelimit.APIKey, ID: id} }

// The limit holds for the whole service within a tenth, however the requests are spread over its nodes: neither is it
// multiplied by them, nor is any of it lost.
func TestLimitHoldsForAllNodes(t *testing.T) {
	t.Parallel()
	const step, steps = 50 * time.Millisecond, 120
	for name, load := range map[string]func(i int) []int{
		"even":       func(int) []int { return []int{8, 8, 8, 8} },
		"skewed":     func(int) []int { return []int{27, 3, 1, 1} },
		"one node":   func(int) []int { return []int{0, 0, 32, 0} },
		"travelling": func(i int) []int { n := make([]int, 4); n[i/10%4] = 32; return n },
		"in bursts":  func(i int) []int { n := 120 * (1 - min(1, i%20)); return []int{n, n, n, n} },
	} {
		for _, limit := range []ratelimit.Limit{standard(), {PerSecond: 10, Burst: 5}} {
			t.Run(name+" "+strconv.FormatInt(limit.PerSecond, 10), func(t *testing.T) {
				t.Parallel()
				s := newService(t, 4)
				passed := 0
				for i := range steps {
					passed += s.offer(key("a"), limit, load(i)...)
					s.clk.Advance(step)
				}
				want := float64(limit.Burst) + float64(limit.PerSecond)*(step*steps).Seconds()
				if name == "in bursts" && limit.Burst < limit.PerSecond {
					// between two bursts a second passes, and the limit is full after half of it
					want = float64(limit.Burst) * steps / 20
				}
				require.InEpsilon(t, want, float64(passed), 0.1)
			})
		}
	}
}

// A client within its limit is never refused, on any node.
func TestNoRequestWithinTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	s := newService(t, 4)
	for i := range 300 {
		at := make([]int, 4)
		at[i*7%4] = 3 // 60 a second
		require.Equal(t, 3, s.offer(key("a"), standard(), at...))
		s.clk.Advance(50 * time.Millisecond)
	}
	require.Equal(t, 400, s.offer(key("another"), standard(), 0, 400, 0, 0), "a burst on one node")
}

// The lease of a node that dies becomes free again.
func TestSliceOfADeadNodeComesBack(t *testing.T) {
	t.Parallel()
	s := newService(t, 2)
	require.Equal(t, 40, s.offer(key("a"), standard(), 40, 0))
	require.NoError(t, s.nodes[0].db.Close()) // as if it were dead: it gives nothing back
	s.nodes[0].stop()
	s.clk.Advance(time.Second)
	require.Equal(t, 500, s.offer(key("a"), standard(), 0, 700))
}

// A node that stops gives back what it holds, so that the others need not wait for it.
func TestStoppedNodeGivesBack(t *testing.T) {
	t.Parallel()
	s := newService(t, 2)
	limit := ratelimit.Limit{PerSecond: 100, Burst: 4000}
	require.Equal(t, 100, s.offer(key("a"), limit, 100, 0))
	s.nodes[0].stop()
	require.Equal(t, 3900, s.offer(key("a"), limit, 0, 4000))
}

// Without the database a node uses its share of the limit, so that the whole service stays within it. No request waits
// for a database that does not respond.
func TestLimitWithoutDatabase(t *testing.T) {
	t.Parallel()
	s := newService(t, 4)
	all := func() bool {
		for _, n := range s.nodes {
			if n.Nodes() != 4 {
				return false
			}
		}
		return true
	}
	s.eventually("all nodes to be on the list", func() bool {
		return s.count("rate_limit_nodes WHERE seen_ms = $1", s.clk.Now().UnixMilli()) == 4
	})
	s.clk.Advance(time.Second)
	s.eventually("the nodes to know each other", all)
	for _, n := range s.nodes {
		require.NoError(t, n.db.Close())
	}
	passed := s.offer(key("a"), standard(), 300, 300, 300, 300)
	for range 50 {
		s.clk.Advance(100 * time.Millisecond)
		passed += s.offer(key("a"), standard(), 30, 30, 30, 30)
	}
	require.InEpsilon(t, 500+100*5, passed, 0.15) // and the requests on credit before that was known
}

// Two nodes that use many buckets at the same time do not block each other.
func TestManySimultaneousBuckets(t *testing.T) {
	t.Parallel()
	s := newService(t, 3)
	limit := ratelimit.Limit{PerSecond: 1, Burst: 20}
	passed := make([]int, 300)
	var all sync.WaitGroup
	for i := range passed {
		all.Go(func() { passed[i] = s.offer(key(strconv.Itoa(i)), limit, 10, 10, 10) })
	}
	all.Wait()
	for i, n := range passed {
		require.Equal(t, 20, n, i)
	}
	s.clk.Advance(time.Hour)
	require.NoError(t, s.nodes[0].Expire(t.Context(), s.clk.Now()))
	require.Zero(t, s.count("rate_limit_buckets"))
}

// Many addresses with one request each make no work for the database. A second request counts for all nodes.
func TestStrangersAreNotShared(t *testing.T) {
	t.Parallel()
	s := newService(t, 2)
	address, limit := func(i int) ratelimit.Bucket {
		return ratelimit.OfAddress(netip.MustParseAddr("192.0.2." + strconv.Itoa(i)))
	}, ratelimit.Limit{PerSecond: 20, Burst: 100}
	for i := range 200 {
		require.Equal(t, 1, s.offer(address(i), limit, 1, 0))
	}
	// which waits for a grant, and would after the others
	require.Equal(t, 1, s.offer(key("a"), ratelimit.Limit{PerSecond: 1, Burst: 5}, 1, 0))
	require.Zero(t, s.count("rate_limit_buckets WHERE id LIKE 'address:%'"))
	require.InEpsilon(t, 100, s.offer(address(7), limit, 150, 150), 0.1)
	require.Equal(t, 1, s.count("rate_limit_buckets WHERE id LIKE 'address:%'"))
}
