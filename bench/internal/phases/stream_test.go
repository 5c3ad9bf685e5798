package phases_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/bench/internal/phases"
	"sallyport/bench/internal/readers"
	"sallyport/bench/internal/target"
	"sallyport/bench/internal/toygateway"
	"sallyport/internal/platform/clock"
)

const reading = 3

func (b *bed) plan() readers.Plan {
	return readers.Plan{Addr: b.subject.Target.Addr, Path: "/api/v1" + target.StreamPath, Key: toygateway.APIKey,
		Count: reading}
}

// Every reader must get every acknowledged event: one that missed some, or got some twice, is reported.
func TestStreaming(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		defects             toygateway.Defects
		missing, duplicates int64
	}{
		"correct":    {},
		"forgetful":  {defects: toygateway.Defects{ForgetEvery: 10}, missing: reading * events / 10},
		"repetitive": {defects: toygateway.Defects{SendTwiceEvery: 10}, duplicates: reading * events / 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := prepare(t, tc.defects, true)
			settings := byCount()
			settings.Duration, settings.PerSecond = time.Hour, 10_000
			got, err := phases.NewRunner(clock.System(), settings, 1).Streaming(t.Context(), b.subject, b.sink, b.verifier,
				b.plan())
			require.NoError(t, err)
			require.Equal(t, events, got.Acknowledged)
			require.Equal(t, reading, got.Readers)
			require.Equal(t, tc.missing, got.Missing)
			require.Equal(t, tc.duplicates, got.Duplicates)
			require.Positive(t, got.MessagesPerSecond)
			require.Positive(t, got.Delay.Samples)
			require.Positive(t, got.Use.PeakResidentBytes)
		})
	}
}

// The rate with readers is compared with the rates before and after.
func TestContended(t *testing.T) {
	t.Parallel()
	b := prepare(t, toygateway.Defects{}, false)
	got, err := phases.NewRunner(clock.System(), byCount(), 1).Contended(t.Context(), b.subject, b.plan())
	require.NoError(t, err)
	require.InEpsilon(t, got.With.PerSecond/((got.Before.PerSecond+got.After.PerSecond)/2), got.Ratio, 1e-9)
	require.Equal(t, reading, got.Readers)
	require.Positive(t, got.MessagesPerSecond)
}
