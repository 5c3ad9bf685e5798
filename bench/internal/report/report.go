// Package report holds what a run found, compares it with the design's figures, and prints it.
package report

import (
	"time"

	"sallyport/bench/internal/procstat"
	"sallyport/bench/internal/sink"
	"sallyport/bench/internal/stats"
)

// Report is everything about one run. Its JSON form is the bench's machine-readable output: durations are milliseconds
// or seconds as their names say, sizes bytes.
type Report struct {
	Started     time.Time   `json:"started"`
	Command     string      `json:"command"`
	Environment Environment `json:"environment"`
	Settings    Settings    `json:"settings"`
	Yardstick   *Ingest     `json:"yardstick,omitempty"`
	// YardstickPeakBytes is the highest resident size of the yardstick's process.
	YardstickPeakBytes int64    `json:"yardstick_peak_resident_bytes,omitempty"`
	Engines            []Engine `json:"engines"`
	// Streams says that the run was about readers of the stream.
	Streams bool `json:"streams,omitempty"`
	// Problems are errors of the run outside an engine.
	Problems []string `json:"problems,omitempty"`
}

// Environment describes what the figures depend on besides the program.
type Environment struct {
	Machine procstat.Machine `json:"machine"`
	// GoVersion is the toolchain that built the bench, ServerGoVersion the one that built the server.
	GoVersion       string `json:"go_version"`
	ServerGoVersion string `json:"server_go_version"`
	// Revision is git's commit of the folder the bench ran in, with "+changes" when files differ from it.
	Revision     string `json:"git_revision"`
	BinarySHA256 string `json:"binary_sha256"`
	// DataFileSystem and Fsync describe the disk under the data folder: 4 KiB appended and forced out.
	DataFileSystem string    `json:"data_file_system"`
	Fsync          Quantiles `json:"fsync_4k"`
}

// Settings are the parameters of the phases.
type Settings struct {
	Provider        string  `json:"provider"`
	Connections     int     `json:"connections"`
	WarmupSeconds   float64 `json:"warmup_seconds"`
	DurationSeconds float64 `json:"duration_seconds"`
	PerSecond       int     `json:"open_loop_per_second"`
	MaxEvents       int     `json:"max_events_per_phase"`
	BodyBytes       int     `json:"body_bytes"`
	// ProfileSeconds is the length of the CPU profiles taken during the first two phases; they slow the server down.
	ProfileSeconds int      `json:"cpuprofile_seconds,omitempty"`
	ServerArgs     []string `json:"server_args,omitempty"`
}

// Quantiles are exact percentiles of recorded samples, in milliseconds.
type Quantiles struct {
	Samples int     `json:"samples"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
}

// NewQuantiles converts a summary.
func NewQuantiles(s stats.Summary) Quantiles {
	return Quantiles{Samples: s.Count, P50: millis(s.P50), P99: millis(s.P99), Max: millis(s.Max)}
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Use holds the cost of a phase.
type Use struct {
	// PeakResidentBytes is the highest VmRSS seen in the phase, sampled every 200 ms.
	PeakResidentBytes int64 `json:"peak_resident_bytes"`
	// CPUPerThousand is the server process's user and system time per 1,000 events; a PostgreSQL server's is not in it.
	CPUPerThousand float64 `json:"cpu_seconds_per_1000_events"`
	// BenchCPUPerThousand is the same of generator and sink, which share the cores with the server.
	BenchCPUPerThousand float64 `json:"bench_cpu_seconds_per_1000_events"`
}

// Requests counts the generator's requests that were not acknowledged, by how they ended.
type Requests struct {
	Refused      int    `json:"refused"`
	Failed       int    `json:"failed"`
	FirstProblem string `json:"first_problem,omitempty"`
	// Exhausted reports that the limit on events ended the phase before its time.
	Exhausted bool `json:"exhausted,omitempty"`
}

// Ingest is the closed loop without a subscription.
type Ingest struct {
	// Events were acknowledged within Seconds, the measured time.
	Events    int       `json:"events"`
	Seconds   float64   `json:"seconds"`
	PerSecond float64   `json:"per_second"`
	Ack       Quantiles `json:"ack"`
	Requests  Requests  `json:"requests"`
	Use       Use       `json:"use"`
}

// Arrival counts what happened to the acknowledged events of a phase, its warm-up included.
type Arrival struct {
	// Missing events were acknowledged and did not reach the sink before the drain timeout.
	Missing int `json:"missing"`
	// Duplicates counts the forwards of an event after the first.
	Duplicates int `json:"repeats"`
	// Unacknowledged events reached the sink although their request was refused or got no response.
	Unacknowledged int         `json:"unacknowledged"`
	Sink           sink.Counts `json:"sink"`
}

// Delivery is the closed loop with one matching subscription.
type Delivery struct {
	// Acknowledged and Delivered count events; delivered ones were acknowledged and seen at the sink.
	Acknowledged int `json:"acknowledged"`
	Delivered    int `json:"delivered"`
	// IngestPerSecond is acknowledged events over the time until the last acknowledgement.
	IngestPerSecond float64 `json:"ingest_per_second"`
	// DeliveriesPerSecond is forwards, duplicates included, over the time until the last arrival.
	DeliveriesPerSecond float64 `json:"deliveries_per_second"`
	// SustainedPerSecond is delivered events over the time until the last arrival.
	SustainedPerSecond float64 `json:"sustained_per_second"`
	// DrainSeconds is the time from the last acknowledgement to the last arrival.
	DrainSeconds float64   `json:"drain_seconds"`
	Ack          Quantiles `json:"ack"`
	ToSink       Quantiles `json:"receipt_to_sink"`
	Requests     Requests  `json:"requests"`
	Arrival      Arrival   `json:"arrival"`
	Use          Use       `json:"use"`
}

// Latency is the open loop.
type Latency struct {
	Acknowledged int `json:"acknowledged"`
	Delivered    int `json:"delivered"`
	// Lag is how late requests were written against their schedule; the receipt is counted from the writing.
	Lag      Quantiles `json:"schedule_lag"`
	Ack      Quantiles `json:"ack"`
	ToSink   Quantiles `json:"receipt_to_sink"`
	Requests Requests  `json:"requests"`
	Arrival  Arrival   `json:"arrival"`
	Use      Use       `json:"use"`
}

// Engine is everything about the gateway on one database engine. Phases that did not take place are nil.
type Engine struct {
	Name string `json:"name"`
	// Database holds the PostgreSQL server's settings that decide what a commit costs.
	Database map[string]string `json:"database,omitempty"`
	Ingest   *Ingest           `json:"ingest,omitempty"`
	Delivery *Delivery         `json:"delivery,omitempty"`
	Latency  *Latency          `json:"latency,omitempty"`
	// Streaming and Contended are the phases of the command for readers of the stream.
	Streaming *Streaming `json:"streaming,omitempty"`
	Contended *Contended `json:"contended,omitempty"`
	// PeakBytes is the kernel's high-water mark of the server's resident size over its whole life.
	PeakBytes int64 `json:"peak_resident_bytes"`
	// Problem is why the engine's run ended early.
	Problem string  `json:"problem,omitempty"`
	Checks  []Check `json:"checks"`
}
