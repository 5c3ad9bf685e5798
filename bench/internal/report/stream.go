package report

import (
	"bytes"
	"fmt"
)

// Streaming is the open loop with readers of the stream.
type Streaming struct {
	Readers      int `json:"readers"`
	Acknowledged int `json:"acknowledged"`
	// MessagesPerSecond is over all readers.
	MessagesPerSecond float64 `json:"messages_per_second"`
	Received          int64   `json:"received"`
	Attempts          int64   `json:"attempts"`
	Updates           int64   `json:"updates"`
	// Missing are received events that a reader did not get, over all readers; Least is the count of the reader with the
	// fewest.
	Missing int64 `json:"missing"`
	Least   int64 `json:"least"`
	// Duplicates counts events that a reader got again, and attempts that a followed one did.
	Duplicates int64 `json:"repeats"`
	Lagged     int64 `json:"lagged"`
	Gaps       int64 `json:"gaps"`
	Reconnects int64 `json:"reconnects"`
	// Delay is from an event's receipt to its message's arrival at a reader, at one reader in fifty.
	Delay Quantiles `json:"receipt_to_reader"`
	Lag   Quantiles `json:"schedule_lag"`
	Ack   Quantiles `json:"ack"`
	// CPU is the server's processor time per second.
	CPU          float64  `json:"server_cpu"`
	Requests     Requests `json:"requests"`
	Use          Use      `json:"use"`
	FirstProblem string   `json:"first_problem,omitempty"`
}

// Contended is the closed loop without readers of the stream, with them, and without them again.
type Contended struct {
	Readers int     `json:"readers"`
	Before  *Ingest `json:"before"`
	With    *Ingest `json:"with"`
	After   *Ingest `json:"after"`
	// Ratio is the rate with readers over the mean of those without.
	Ratio             float64 `json:"ratio"`
	MessagesPerSecond float64 `json:"messages_per_second"`
	Lagged            int64   `json:"lagged"`
	Gaps              int64   `json:"gaps"`
	Reconnects        int64   `json:"reconnects"`
	FirstProblem      string  `json:"first_problem,omitempty"`
}

// The design's figures about readers of the stream.
const (
	TargetRatio = 0.8   // of the rate of ingest remains with 100 readers
	TargetDelay = 250.0 // ms from receipt to reader, p99; messages may wait 50 ms for each other
)

func (e *Engine) streamChecks() []Check {
	missing, duplicates, lagged, delay, ratio, peak := Check{}, Check{}, Check{}, Check{}, Check{}, Check{}
	if s := e.Streaming; s != nil {
		missing, duplicates, lagged = none(int(s.Missing)), none(int(s.Duplicates)), none(int(s.Lagged))
		if s.Delay.Samples > 0 {
			delay = below(s.Delay.P99, TargetDelay)
		}
	}
	if e.Contended != nil {
		ratio = atLeast(e.Contended.Ratio, TargetRatio)
		ratio.Target = fmt.Sprintf("≥ %.1f", TargetRatio)
	}
	if e.PeakBytes > 0 {
		peak = below(float64(e.PeakBytes)/1e6, TargetResident/1e6)
	}
	return []Check{
		missing.named("events that a reader did not get", "events"),
		duplicates.named("events and attempts sent twice", "messages"),
		lagged.named("readers left behind", "readers"),
		delay.named("receipt to reader, p99", "ms"),
		ratio.named("ingest with readers over without", ""),
		peak.named("resident memory, peak", "MB"),
	}
}

func (r *Report) streams(out *bytes.Buffer) {
	table(out, fmt.Sprintf("Readers of the stream, open loop, %d/s, one subscription", r.Settings.PerSecond),
		"\treaders\tmessages/s\tmissing\tduplicates\tlagged\tto reader p50\tp99\tmax ms\tserver CPU\tpeak MB",
		func(t *bytes.Buffer) {
			for _, e := range r.Engines {
				if s := e.Streaming; s != nil {
					fmt.Fprintf(t, "%s\t%d\t%.0f\t%d\t%d\t%d\t%.1f\t%.1f\t%.1f\t%.2f\t%.0f\n", e.Name, s.Readers, s.MessagesPerSecond,
						s.Missing, s.Duplicates, s.Lagged, s.Delay.P50, s.Delay.P99, s.Delay.Max, s.CPU,
						float64(s.Use.PeakResidentBytes)/1e6)
				}
			}
		})
	table(out, "Ingest, closed loop, with readers of the stream and without",
		"\treaders\tbefore/s\twith/s\tafter/s\tratio\tmessages/s\tlagged\tgaps\tCPU s/1000 before\twith",
		func(t *bytes.Buffer) {
			for _, e := range r.Engines {
				if c := e.Contended; c != nil {
					fmt.Fprintf(t, "%s\t%d\t%.0f\t%.0f\t%.0f\t%.2f\t%.0f\t%d\t%d\t%.3f\t%.3f\n", e.Name, c.Readers, c.Before.PerSecond,
						c.With.PerSecond, c.After.PerSecond, c.Ratio, c.MessagesPerSecond, c.Lagged, c.Gaps, c.Before.Use.CPUPerThousand,
						c.With.Use.CPUPerThousand)
				}
			}
		})
}
