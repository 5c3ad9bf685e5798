package bench_test

import (
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/ratelimit"
)

// BenchmarkRateLimit measures what counting a request costs, on all processors in parallel: go test -bench RateLimit
// ./bench
func BenchmarkRateLimit(b *testing.B) {
	limiter := func(b *testing.B) *ratelimit.Limiter {
		b.Helper()
		l, err := ratelimit.New(ratelimit.Options{Clock: clock.System(), Logger: slog.New(slog.DiscardHandler)})
		require.NoError(b, err)
		return l
	}
	run := func(name string, limit ratelimit.Limit, buckets []ratelimit.Bucket) {
		b.Run(name, func(b *testing.B) {
			l := limiter(b)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					l.Take(b.Context(), buckets[rand.IntN(len(buckets))], limit)
				}
			})
		})
	}
	keys := func(n int) []ratelimit.Bucket {
		out := make([]ratelimit.Bucket, n)
		for i := range out {
			out[i] = ratelimit.Bucket{Kind: ratelimit.APIKey, ID: "key_" + strconv.Itoa(i)}
		}
		return out
	}
	wide := ratelimit.Limit{PerSecond: ratelimit.MaxPerSecond, Burst: ratelimit.MaxBurst}
	run("one key", wide, keys(1))
	run("1000 keys", wide, keys(1000))
	run("a key that is refused", ratelimit.Limit{PerSecond: 1, Burst: 1}, keys(1))
	b.Run("strangers", func(b *testing.B) { // more addresses than a node remembers
		l := limiter(b)
		addresses := make([]netip.Addr, 1_000_000)
		for i := range addresses {
			addresses[i] = netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		}
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				l.Take(b.Context(), ratelimit.OfAddress(addresses[rand.IntN(len(addresses))]), ratelimit.Limit{PerSecond: 20,
					Burst: 100})
			}
		})
	})
}
