package obs_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/obs"
)

// lines returns the lines that were logged, and empties the log.
func lines(t *testing.T, log *bytes.Buffer) (list []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		list = append(list, fields)
	}
	log.Reset()
	return list
}

// An outage logs a line a second of each kind, however many requests it concerns, and the lines say how many were left
// out: none is missing from the sum. Other lines are all logged.
func TestOutageLogsALineASecond(t *testing.T) {
	t.Parallel()
	clk, log := clock.NewManual(time.UnixMilli(1_750_000_000_000)), &bytes.Buffer{}
	handler := obs.NewOutages(slog.NewJSONHandler(log, nil), clk)
	logger := slog.New(handler)
	fail := func(kind string, n int) {
		for i := range n {
			logger.With(slog.Int("n", i)).Error("request", obs.Outage(kind))
		}
	}
	sum := func(list []map[string]any, kind string) (total int) {
		for _, line := range list {
			if line["outage"] == kind {
				leftOut, ok := line["left_out"].(float64)
				require.True(t, ok)
				total += 1 + int(leftOut)
			}
		}
		return total
	}
	var all []map[string]any
	for range 10 {
		fail("a", 1000)
		fail("b", 1)
		require.NoError(t, handler.Flush(t.Context()))
		second := lines(t, log)
		require.Len(t, second, 2)
		all = append(all, second...)
		clk.Advance(time.Second)
	}
	require.NoError(t, handler.Flush(t.Context()))
	all = append(all, lines(t, log)...)
	require.Equal(t, 10_000, sum(all, "a"))
	require.Equal(t, 10, sum(all, "b"))
	clk.Advance(time.Second)
	require.NoError(t, handler.Flush(t.Context()))
	require.Empty(t, lines(t, log))

	for range 100 {
		logger.Error("another")
		logger.WithGroup("g").Warn("another")
	}
	require.Len(t, lines(t, log), 200)
}

// Lines of many goroutines are counted, each once.
func TestOutageOfManyRequests(t *testing.T) {
	t.Parallel()
	clk, log := clock.NewManual(time.UnixMilli(1_750_000_000_000)), &bytes.Buffer{}
	handler := obs.NewOutages(slog.NewJSONHandler(log, nil), clk)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 100 {
				slog.New(handler).Error("request", obs.Outage("a"))
			}
		})
	}
	all.Wait()
	require.Len(t, lines(t, log), 1)
	clk.Advance(time.Second)
	require.NoError(t, handler.Flush(t.Context()))
	last := lines(t, log)
	require.Len(t, last, 1)
	require.EqualValues(t, 50*100-2, last[0]["left_out"])
}
