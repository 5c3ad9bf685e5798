package stats_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/bench/internal/stats"
)

// The definition itself is the oracle: count the samples at or below the result, and below every smaller sample.
func TestNearestRankMeetsItsDefinition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 50).Draw(t, "sample"))
		}), 1, 300).Draw(t, "samples")
		percent := rapid.IntRange(1, 100).Draw(t, "percent")
		slices.Sort(samples)

		got := stats.NearestRank(samples, percent)

		require.Contains(t, samples, got)
		require.GreaterOrEqual(t, 100*notAbove(samples, got), percent*len(samples))
		for _, smaller := range samples {
			if smaller < got {
				require.Less(t, 100*notAbove(samples, smaller), percent*len(samples))
			}
		}
	})
}

func notAbove(samples []time.Duration, limit time.Duration) int {
	n := 0
	for _, s := range samples {
		if s <= limit {
			n++
		}
	}
	return n
}

// One outlier among a hundred samples shows in the maximum and not in the 99th percentile; order of arrival is
// irrelevant.
func TestSummarise(t *testing.T) {
	t.Parallel()
	samples := []time.Duration{time.Hour}
	for i := range 99 {
		samples = append(samples, time.Duration(99-i)*time.Millisecond)
	}
	require.Equal(t, stats.Summary{
		Count: 100, P50: 50 * time.Millisecond, P99: 99 * time.Millisecond, Max: time.Hour,
	}, stats.Summarise(samples))
	require.Equal(t, stats.Summary{}, stats.Summarise(nil))
}
