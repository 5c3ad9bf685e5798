package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/limiter"
	"sallyport/internal/providers/outbound"
)

func start() time.Time { return time.UnixMilli(1_750_000_000_000) }

// budget is what tests limit: requests of one connection.
func budget(limit int, per time.Duration) outbound.BudgetRule {
	return outbound.BudgetRule{Limit: limit, Per: per, Scope: outbound.ScopeConnection}
}

// requireWithin requires that no window of the budget has more than 1.1 times its requests.
func requireWithin(t require.TestingT, b outbound.BudgetRule, sent []time.Time) {
	slices.SortFunc(sent, time.Time.Compare)
	most := int(1.1*float64(b.Limit)) + 1
	for i := most; i < len(sent); i++ {
		require.Greater(t, sent[i].Sub(sent[i-most]), b.Per-time.Millisecond, "request %d", i)
	}
}

// In any window of the budget's length there are at most 1.1 times its requests, for any load. If callers constantly
// ask for more, there are at least 0.9 times.
func TestBudgetHoldsInEachWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clk := clock.NewManual(start())
		budgets, err := ratelimit.New(ratelimit.Options{Clock: clk})
		require.NoError(t, err)
		l := limiter.New(limiter.Config{Clock: clk, Budgets: budgets})
		b := budget(rapid.IntRange(1, 60).Draw(t, "limit"), time.Duration(rapid.IntRange(1, 90).Draw(t, "per"))*time.Second)
		r := limiter.Rules{Budgets: []outbound.BudgetRule{b}}
		var sent []time.Time
		busy := rapid.Bool().Draw(t, "under demand")
		step := b.Per / time.Duration(16*b.Limit) // so that a place is used soon after it is free
		for range 10 * 16 * b.Limit {
			n := 2
			if !busy {
				n = rapid.IntRange(0, 3).Draw(t, "requests")
			}
			for range n {
				if l.Acquire(t.Context(), limiter.Caller{Connection: "a"}, r) == nil {
					sent = append(sent, clk.Now())
				}
			}
			clk.Advance(step)
		}
		requireWithin(t, b, sent)
		if busy {
			require.GreaterOrEqual(t, float64(len(sent)), 0.9*10*float64(b.Limit)-1)
		}
	})
}

// newNodes returns limiters of nodes on one database.
func newNodes(t *testing.T, n int, clk clock.Clock) (nodes []*limiter.Limiter) {
	t.Helper()
	url := testkit.NewPostgres(t)
	for i := range n {
		d, err := db.Open(t.Context(), url, "")
		require.NoError(t, err)
		budgets, err := ratelimit.New(ratelimit.Options{DB: d, Clock: clk, Logger: slog.New(slog.DiscardHandler),
			Node: fmt.Sprintf("node-%d", i)})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { budgets.Run(ctx) })
		t.Cleanup(func() {
			cancel()
			await.Return(t, "the end of the leases", running.Wait)
			require.NoError(t, d.Close())
		})
		nodes = append(nodes, limiter.New(limiter.Config{DB: d, Clock: clk, Budgets: budgets}))
	}
	return nodes
}

// Nodes on one database share a budget: none of it is multiplied by them, and none is lost.
func TestNodesShareABudget(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(start())
	nodes := newNodes(t, 3, clk)
	for _, b := range []outbound.BudgetRule{budget(5, time.Second), budget(1000, 10*time.Second)} {
		r := limiter.Rules{Budgets: []outbound.BudgetRule{b}}
		var mu sync.Mutex
		var sent []time.Time
		const steps = 120
		for i := range steps { // three windows, with a load that moves between the nodes
			var all sync.WaitGroup
			for n, l := range nodes {
				for range 1 + b.Limit/steps + b.Limit/20*(min(1, (i/10+n)%3)) {
					all.Go(func() {
						if l.Acquire(t.Context(), limiter.Caller{Connection: "a"}, r) == nil {
							mu.Lock()
							defer mu.Unlock()
							sent = append(sent, clk.Now())
						}
					})
				}
			}
			all.Wait()
			clk.Advance(3 * b.Per / steps)
		}
		requireWithin(t, b, sent)
		require.GreaterOrEqual(t, float64(len(sent)), 0.9*3*float64(b.Limit))
	}
}

// A request waits as long as the rules allow, and otherwise gets the time after which to try again.
func TestWaiting(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(start())
	budgets, err := ratelimit.New(ratelimit.Options{Clock: clk})
	require.NoError(t, err)
	l, c := limiter.New(limiter.Config{Clock: clk, Budgets: budgets}), limiter.Caller{Connection: "a"}
	r := limiter.RulesOf(outbound.Limits{MaxWait: time.Minute}, budget(1, time.Minute))
	require.NoError(t, l.Acquire(t.Context(), c, r))
	passed := make(chan error)
	go func() { passed <- l.Acquire(t.Context(), c, r) }()
	require.NoError(t, clk.AwaitTimers(t.Context(), 1, time.Minute))
	clk.Advance(time.Minute)
	require.NoError(t, await.Value(t, "the place", passed))
	r.MaxWait = 59 * time.Second
	err = l.Acquire(t.Context(), c, r)
	var refused *apperr.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, apperr.CodeRateLimited, refused.Code)
	require.Equal(t, time.Minute, refused.RetryAfter)
	require.NoError(t, l.Acquire(t.Context(), limiter.Caller{Connection: "b"}, r), "another connection has its own")
}

// A request that one budget refuses costs nothing of the others. Another node has used up the budget, which this node
// learns only when it asks.
func TestARefusalCostsNoOtherBudget(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(start())
	nodes := newNodes(t, 2, clk)
	own, shared := budget(40, time.Hour), outbound.BudgetRule{Limit: 1, Per: time.Hour, Scope: outbound.ScopeClient}
	acquire := func(node int, budgets ...outbound.BudgetRule) error {
		return nodes[node].Acquire(t.Context(), limiter.Caller{Connection: fmt.Sprint("of node ", node)},
			limiter.Rules{Budgets: budgets})
	}
	require.NoError(t, acquire(0, shared))
	require.True(t, apperr.Is(acquire(1, own, shared), apperr.CodeRateLimited))
	for range 3 {
		require.NoError(t, acquire(1, own), "a twentieth and one come together")
	}
	require.True(t, apperr.Is(acquire(1, own), apperr.CodeRateLimited))
}

// An environment that tests credentials again and again is refused, with a time after which it passes. Another
// environment, and another host of the same environment, are not concerned, and a refusal costs nothing.
func TestGivenCredentials(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(start())
	budgets, err := ratelimit.New(ratelimit.Options{Clock: clk})
	require.NoError(t, err)
	l := limiter.New(limiter.Config{Clock: clk, Budgets: budgets})
	test := func(env id.Environment, host string) error {
		return l.AcquireGiven(t.Context(), limiter.Given{Environment: env, ConfigKey: "acme", Hosts: []string{host}},
			outbound.Limits{})
	}
	passed := 0
	var refused *apperr.Error
	for !errors.As(test("env_a", "api.acme.com"), &refused) {
		passed++
	}
	require.Equal(t, 30, passed)
	for range 1000 {
		require.Error(t, test("env_a", "api.acme.com"))
	}
	require.NoError(t, test("env_b", "api.acme.com"))
	require.NoError(t, test("env_a", "api.other.com"))
	require.Equal(t, 2*time.Second, refused.RetryAfter)
	clk.Advance(refused.RetryAfter)
	require.NoError(t, test("env_a", "api.acme.com"))
	require.Error(t, test("env_a", "api.acme.com"))
	passed = 0
	for i := 0; test("env_a", fmt.Sprintf("%d.acme.com", i)) == nil; i++ {
		passed++
	}
	require.InDelta(t, 120-32, passed, 4, "many hosts are limited together")
	require.NoError(t, test("env_b", "api.acme.com"))

	enter := func(connection string) error {
		return l.AcquireGiven(t.Context(), limiter.Given{Environment: "env_a", ConfigKey: "acme",
			Hosts: []string{"api.acme.com"}, Entered: connection}, outbound.Limits{})
	}
	for range 5 {
		require.NoError(t, enter("greedy"), "counted apart from the environment's own requests")
	}
	for range 1000 {
		require.Error(t, enter("greedy"))
	}
	passed = 5
	for i := 0; enter(fmt.Sprint(i)) == nil; i++ {
		passed++
	}
	require.Equal(t, 30, passed, "one connection uses up little of what all share")
}
