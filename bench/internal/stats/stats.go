// Package stats summarises recorded samples exactly: every sample is kept, nothing is binned or estimated.
package stats

import (
	"slices"
	"time"
)

// Summary describes a set of durations.
type Summary struct {
	// Count is the number of samples; with none, the other fields are zero.
	Count int
	P50   time.Duration
	P99   time.Duration
	Max   time.Duration
}

// Summarise sorts samples in place and describes them.
func Summarise(samples []time.Duration) Summary {
	if len(samples) == 0 {
		return Summary{}
	}
	slices.Sort(samples)
	return Summary{
		Count: len(samples),
		P50:   NearestRank(samples, 50),
		P99:   NearestRank(samples, 99),
		Max:   samples[len(samples)-1],
	}
}

// NearestRank returns the smallest sample that at least percent per cent of all samples do not exceed (the nearest-rank
// definition of a percentile; no value that was not measured is ever returned). sorted is ascending and not empty, and
// percent is from 1 to 100; other arguments panic.
func NearestRank(sorted []time.Duration, percent int) time.Duration {
	if percent < 1 || percent > 100 {
		panic("stats: percent out of range")
	}
	rank := (len(sorted)*percent + 99) / 100
	return sorted[rank-1]
}
