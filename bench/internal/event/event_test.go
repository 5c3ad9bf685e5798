package event_test

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/bench/internal/event"
	"sallyport/internal/platform/clock"
)

// The sink must recognise every event in any envelope, and the size on the wire must be the stated one.
func TestBodyIsFoundAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		epoch, first, second := rapid.Uint32().Draw(t, "epoch"), rapid.Uint32().Draw(t, "first"), rapid.Uint32().Draw(t,
			"second")
		body := event.Body(epoch, first)
		event.SetSeq(body, second)
		require.Equal(t, event.Body(epoch, second), body)
		require.Len(t, body, event.BodySize)

		var content map[string]any
		require.NoError(t, json.Unmarshal(body, &content))
		envelope, err := json.MarshalIndent(map[string]any{"id": "x", "data": content}, "", "  ")
		require.NoError(t, err)
		gotEpoch, gotSeq, ok := event.Find(envelope)
		require.True(t, ok)
		require.Equal(t, []uint32{epoch, second}, []uint32{gotEpoch, gotSeq})
	})
}

// A body that is cut off or not ours must not be credited to an event.
func TestFindRefusesOtherBodies(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"", `{"id":"sallyport-bench-"}`, `sallyport-bench-0000000000000000x`, `sallyport-bench-00000000-0000000`,
		`sallyport-bench-0000000g-00000001`, `sallyport-bench-00000000-0000000g`,
	} {
		_, _, ok := event.Find([]byte(body))
		require.False(t, ok, body)
	}
}

// Events can be seen before, after or while they are acknowledged, and more than once; each must count as arrived
// exactly once.
func TestTrackerCountsEachArrivalOnce(t *testing.T) {
	t.Parallel()
	const events = 2000
	tracker := event.NewTracker(clock.System(), 7, events)
	for range events {
		_, ok := tracker.Next()
		require.True(t, ok)
	}
	_, ok := tracker.Next()
	require.False(t, ok, "the capacity bounds the run")
	require.False(t, tracker.Seen(events, 1), "a forward of an event that was never sent is a stray")

	var both sync.WaitGroup
	both.Go(func() {
		for seq := range uint32(events) {
			tracker.Sent(seq)
			tracker.Acked(seq)
		}
	})
	for range 2 {
		both.Go(func() {
			for seq := range uint32(events) {
				tracker.Seen(seq, time.Duration(seq+1))
			}
		})
	}
	both.Wait()

	acked, arrived := tracker.Progress()
	require.Equal(t, events, acked)
	require.Equal(t, events, arrived)
	records := slices.Collect(tracker.Records())
	require.Len(t, records, events)
	for seq, r := range records {
		require.True(t, r.WasAcked && r.WasSeen)
		require.Equal(t, 1, r.Duplicates)
		require.Equal(t, time.Duration(seq+1), r.Seen)
		require.GreaterOrEqual(t, r.Acked, r.Sent)
	}
}

// Times are offsets on the injected clock; an event that was only sent is neither acknowledged nor seen.
func TestTrackerTimes(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Unix(1_700_000_000, 0))
	tracker := event.NewTracker(clk, 0, 2)
	for range 2 {
		_, ok := tracker.Next()
		require.True(t, ok)
	}
	clk.Advance(time.Millisecond)
	tracker.Sent(0)
	tracker.Sent(1)
	clk.Advance(time.Millisecond)
	tracker.Acked(1)
	require.True(t, tracker.Seen(1, 3*time.Millisecond))
	require.Equal(t, []event.Record{
		{Sent: time.Millisecond},
		{Sent: time.Millisecond, Acked: 2 * time.Millisecond, WasAcked: true, Seen: 3 * time.Millisecond, WasSeen: true},
	}, slices.Collect(tracker.Records()))
}
