package report_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/bench/internal/report"
	"sallyport/bench/internal/sink"
	"sallyport/bench/internal/stats"
)

// good is an engine that meets every target exactly at its edge.
func good() report.Engine {
	return report.Engine{
		Name:      "sqlite",
		Ingest:    &report.Ingest{PerSecond: 10_000},
		Delivery:  &report.Delivery{SustainedPerSecond: 6_000},
		Latency:   &report.Latency{ToSink: report.Quantiles{Samples: 2000, P50: 1.99, P99: 9.99}},
		PeakBytes: 255_999_999,
	}
}

// Each figure just beyond its target, each phase left out and each defect must fail the check, and nothing else may.
func TestComplete(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*report.Report)
		failed []string
	}{
		"good":        {change: func(*report.Report) {}},
		"slow ingest": {func(r *report.Report) { r.Engines[0].Ingest.PerSecond = 9_999.9 }, []string{"ingest"}},
		"slow delivery": {func(r *report.Report) {
			r.Engines[0].Delivery.SustainedPerSecond = 5_999
		}, []string{"received and delivered"}},
		"p50": {func(r *report.Report) { r.Engines[0].Latency.ToSink.P50 = 2 }, []string{"receipt to sink, p50"}},
		"p99": {func(r *report.Report) {
			r.Engines[0].Latency.ToSink.P99 = 10
		}, []string{"receipt to sink, p99"}},
		"memory": {func(r *report.Report) {
			r.Engines[0].PeakBytes = 256_000_000
		}, []string{"resident memory, peak"}},
		"lost under load": {func(r *report.Report) {
			r.Engines[0].Delivery.Arrival.Missing = 1
		}, []string{"acknowledged, never delivered"}},
		"lost at rest": {func(r *report.Report) {
			r.Engines[0].Latency.Arrival.Missing = 1
		}, []string{"acknowledged, never delivered"}},
		"bad forward": {
			func(r *report.Report) { r.Engines[0].Latency.Arrival.Sink = sink.Counts{BadForwards: 1} },
			[]string{"forwards that fail verification"},
		},
		"no ingest": {func(r *report.Report) { r.Engines[0].Ingest = nil }, []string{"ingest"}},
		"no latency": {func(r *report.Report) { r.Engines[0].Latency = nil }, []string{
			"receipt to sink, p50", "receipt to sink, p99", "acknowledged, never delivered", "forwards that fail verification",
		}},
		"nothing arrived": {
			func(r *report.Report) { r.Engines[0].Latency.ToSink = report.Quantiles{} },
			[]string{"receipt to sink, p50", "receipt to sink, p99"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := report.Report{Engines: []report.Engine{good()}}
			tc.change(&r)
			require.Equal(t, len(tc.failed) == 0, r.Complete())
			var failed []string
			for _, c := range r.Engines[0].Checks {
				if !c.OK {
					failed = append(failed, c.Name)
				}
			}
			require.Equal(t, tc.failed, failed)
		})
	}
	broken := report.Report{Engines: []report.Engine{good()}}
	broken.Engines[0].Problem = "ended early"
	require.False(t, broken.Complete())
	require.False(t, (&report.Report{}).Complete(), "a run without an engine has shown nothing")
	require.False(t, (&report.Report{Engines: []report.Engine{good()}, Problems: []string{"x"}}).Complete())
}

// The two forms show the same run: what a reader needs to judge the figures is in the text, and the JSON reads back as
// it was.
func TestForms(t *testing.T) {
	t.Parallel()
	e := good()
	e.Name = "postgres"
	e.Database = map[string]string{"fsync": "on", "server_version": "15.1"}
	e.Delivery.Requests.FirstProblem = "HTTP/1.1 503 busy"
	e.Latency = nil
	r := report.Report{
		Started: time.Unix(1_700_000_000, 0).UTC(),
		Command: "sallyport-bench --binary ./sallyport",
		Environment: report.Environment{Revision: "0123abc+changes", Fsync: report.NewQuantiles(stats.Summary{
			Count: 1, P50: 1500 * time.Microsecond, P99: 2 * time.Millisecond, Max: time.Second,
		})},
		Yardstick: &report.Ingest{PerSecond: 54_321},
		Engines:   []report.Engine{e},
	}
	require.False(t, r.Complete())

	var text bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	for _, part := range []string{
		"2023-11-14T22:13:20Z", "sallyport-bench --binary ./sallyport", "0123abc+changes",
		"p50 1.50, p99 2.00, max 1000.00 ms", "fsync=on server_version=15.1", "yardstick  54321",
		"postgres, delivery, first request: HTTP/1.1 503 busy",
	} {
		require.Contains(t, text.String(), part)
	}
	require.Regexp(t, `postgres +ingest +10000 +≥ 10000 +events/s +yes`, text.String())
	require.Regexp(t, `postgres +receipt to sink, p50 +not measured .*NO`, text.String())

	var encoded bytes.Buffer
	require.NoError(t, r.WriteJSON(&encoded))
	var back report.Report
	require.NoError(t, json.Unmarshal(encoded.Bytes(), &back))
	require.Equal(t, r, back)
}
