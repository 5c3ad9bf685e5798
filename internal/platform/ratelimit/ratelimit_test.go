package ratelimit_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/ratelimit"
)

func start() time.Time { return time.UnixMilli(1_750_000_000_000) }

func alone(t require.TestingT, clk clock.Clock) *ratelimit.Limiter {
	l, err := ratelimit.New(ratelimit.Options{Clock: clk})
	require.NoError(t, err)
	return l
}

// naive is a bucket of tokens, filled as time passes, in nanoseconds of filling so that nothing is rounded.
type naive struct {
	limit ratelimit.Limit
	level int64
	at    time.Time
}

func (n *naive) fill(now time.Time) (step int64) {
	step = int64(time.Second) / n.limit.PerSecond
	n.level = min(n.limit.Burst*step, n.level+now.Sub(n.at).Nanoseconds())
	n.at = now
	return step
}

func (n *naive) take(now time.Time) bool {
	step := n.fill(now)
	if n.level < step {
		return false
	}
	n.level -= step
	return true
}

// GCRA permits what a token bucket does, for any arrival times, and reports correctly how much is left and when to
// retry.
func TestGCRAIsABucketOfTokens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clk := clock.NewManual(start())
		limit := ratelimit.Limit{PerSecond: rapid.Int64Range(1, 2000).Draw(t, "per second"),
			Burst: rapid.Int64Range(1, 50).Draw(t, "burst")}
		l, model := alone(t, clk), &naive{limit: limit, level: 1 << 62, at: start()}
		bucket := ratelimit.Bucket{Kind: ratelimit.APIKey, ID: "a"}
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			if rapid.Bool().Draw(t, "pause") {
				clk.Advance(time.Duration(rapid.Int64Range(0, int64(2*time.Second)/limit.PerSecond*4).Draw(t, "for")))
			}
			now := clk.Now()
			d := l.Take(t.Context(), bucket, limit)
			require.Equal(t, model.take(now), d.Allowed)
			step := model.fill(now)
			require.Equal(t, limit.Burst, d.Limit)
			require.Equal(t, limit.Burst*step-model.level, d.Reset.Nanoseconds())
			if d.Allowed {
				require.Equal(t, model.level/step, d.Remaining)
				require.Zero(t, d.RetryAfter)
				continue
			}
			require.Zero(t, d.Remaining)
			require.Equal(t, step-model.level, d.RetryAfter.Nanoseconds())
			if rapid.Bool().Draw(t, "come back") { // as announced, and not before
				clk.Advance(d.RetryAfter - 1)
				require.False(t, l.Take(t.Context(), bucket, limit).Allowed)
				clk.Advance(1)
				model.fill(clk.Now())
				require.True(t, model.take(clk.Now()))
				require.True(t, l.Take(t.Context(), bucket, limit).Allowed)
			}
		}
	})
}

// A client that can choose addresses from an IPv6 network counts as one, and so does one address in different forms.
func TestAddressesOfOneHostAreOneBucket(t *testing.T) {
	t.Parallel()
	of := func(ip string) ratelimit.Bucket { return ratelimit.OfAddress(netip.MustParseAddr(ip)) }
	one := of("2001:db8:1:2::1")
	for _, same := range []string{"2001:db8:1:2::ffff", "2001:db8:1:2:aaaa:bbbb:cccc:dddd", "2001:0DB8:1:2::1",
		"2001:db8:1:2::1%eth0"} {
		require.Equal(t, one, of(same))
	}
	require.NotEqual(t, one, of("2001:db8:1:3::1"))
	require.Equal(t, of("192.0.2.1"), of("::ffff:192.0.2.1"))
	require.NotEqual(t, of("192.0.2.1"), of("192.0.2.2"))
	require.Equal(t, ratelimit.Bucket{Kind: ratelimit.Address}, ratelimit.OfAddress(netip.Addr{}))
}

// Millions of addresses take no more memory than the bound, and displace no key.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	l := alone(t, clock.NewManual(start()))
	limit := ratelimit.Limit{PerSecond: 1, Burst: 1}
	key := ratelimit.Bucket{Kind: ratelimit.APIKey, ID: "a"}
	require.True(t, l.Take(t.Context(), key, limit).Allowed)
	_, most := l.Buckets(ratelimit.Address)
	for i := range most + most/2 {
		l.Take(t.Context(), ratelimit.OfAddress(netip.MustParseAddr(fmt.Sprintf("2001:db8:%x:%x::1", i>>16, i&0xffff))),
			limit)
	}
	n, most := l.Buckets(ratelimit.Address)
	require.LessOrEqual(t, n, most)
	require.False(t, l.Take(t.Context(), key, limit).Allowed)
}

// Headers are whole numbers, seconds rounded up.
func TestHeaders(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	ratelimit.Decision{Limit: 500, Remaining: 499, Reset: 10 * time.Millisecond}.SetHeaders(h)
	require.Equal(t, http.Header{"X-Ratelimit-Limit": {"500"}, "X-Ratelimit-Remaining": {"499"},
		"X-Ratelimit-Reset": {"1"}}, h)
}
