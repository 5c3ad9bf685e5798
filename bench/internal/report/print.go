package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteJSON writes the report as one indented JSON document.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// WriteText writes the report as tables.
func (r *Report) WriteText(w io.Writer) error {
	// Everything goes to a buffer first, so that only one write can fail.
	var out bytes.Buffer
	r.head(&out)
	if r.Streams {
		r.streams(&out)
	} else {
		r.ingest(&out)
		r.delivery(&out)
		r.latency(&out)
	}
	r.verdict(&out)
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func (r *Report) head(out *bytes.Buffer) {
	env, set := r.Environment, r.Settings
	fmt.Fprintf(out, "started   %s\n", r.Started.UTC().Format(time.RFC3339))
	fmt.Fprintf(out, "command   %s\n", r.Command)
	fmt.Fprintf(out, "revision  %s; server binary sha256 %s\n", env.Revision, env.BinarySHA256)
	fmt.Fprintf(out, "machine   %s, %d cores, %.1f GB, Linux %s\n",
		env.Machine.CPU, env.Machine.Cores, float64(env.Machine.MemoryBytes)/1e9, env.Machine.Kernel)
	fmt.Fprintf(out, "go        bench %s, server %s\n", env.GoVersion, env.ServerGoVersion)
	fmt.Fprintf(out, "disk      %s; 4 KiB and fsync: %s ms\n", env.DataFileSystem, env.Fsync)
	fmt.Fprintf(out, "load      %s, %d-byte bodies, %d connections, warm-up %gs, duration %gs, open loop %d/s\n",
		set.Provider, set.BodyBytes, set.Connections, set.WarmupSeconds, set.DurationSeconds, set.PerSecond)
	if set.ProfileSeconds > 0 {
		fmt.Fprintf(out, "profiled  the server was slowed down by CPU profiles of %d s in the first two phases\n",
			set.ProfileSeconds)
	}
	for _, e := range r.Engines {
		if len(e.Database) > 0 {
			var settings []string
			for name, value := range e.Database {
				settings = append(settings, name+"="+value)
			}
			slices.Sort(settings)
			fmt.Fprintf(out, "%-9s %s\n", e.Name, strings.Join(settings, " "))
		}
	}
}

func (r *Report) ingest(out *bytes.Buffer) {
	table(out, "Ingest, closed loop, no subscription",
		"\tevents/s\tack p50\tp99\tmax ms\trefused\tfailed\tpeak MB\tCPU s/1000\tbench CPU", func(t *bytes.Buffer) {
			row := func(name string, i *Ingest) {
				if i == nil {
					return
				}
				fmt.Fprintf(t, "%s\t%.0f\t%.2f\t%.2f\t%.2f\t%d\t%d\t%s\n", name, i.PerSecond, i.Ack.P50, i.Ack.P99, i.Ack.Max,
					i.Requests.Refused, i.Requests.Failed, i.Use)
			}
			row("yardstick", r.Yardstick)
			for _, e := range r.Engines {
				row(e.Name, e.Ingest)
			}
		})
}

func (r *Report) delivery(out *bytes.Buffer) {
	table(out, "Received and delivered, closed loop, one subscription",
		"\tsustained/s\tingest/s\tdeliveries/s\tdrain s\tmissing\tduplicates\tpeak MB\tCPU s/1000\tbench CPU",
		func(t *bytes.Buffer) {
			for _, e := range r.Engines {
				if d := e.Delivery; d != nil {
					fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t%.2f\t%d\t%d\t%s\n", e.Name, d.SustainedPerSecond, d.IngestPerSecond,
						d.DeliveriesPerSecond, d.DrainSeconds, d.Arrival.Missing, d.Arrival.Duplicates, d.Use)
				}
			}
		})
	table(out, "", "\tack p50\tp99\tmax ms\tto sink p50\tp99\tmax ms\tverified\tbad\tstrays", func(t *bytes.Buffer) {
		for _, e := range r.Engines {
			if d := e.Delivery; d != nil {
				fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%d\t%d\t%d\n", e.Name, d.Ack.P50, d.Ack.P99, d.Ack.Max,
					d.ToSink.P50, d.ToSink.P99, d.ToSink.Max,
					d.Arrival.Sink.Verified, d.Arrival.Sink.BadForwards, d.Arrival.Sink.Strays)
			}
		}
	})
}

func (r *Report) latency(out *bytes.Buffer) {
	table(out, fmt.Sprintf("Latency, open loop, %d/s, one subscription", r.Settings.PerSecond),
		"\tto sink p50\tp99\tmax ms\tack p50\tp99\tmax ms\tlag max\tevents\tmissing\tduplicates\tpeak MB\tCPU "+
			"s/1000\tbench CPU",
		func(t *bytes.Buffer) {
			for _, e := range r.Engines {
				if l := e.Latency; l != nil {
					fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%d\t%d\t%d\t%s\n", e.Name,
						l.ToSink.P50, l.ToSink.P99, l.ToSink.Max, l.Ack.P50, l.Ack.P99, l.Ack.Max, l.Lag.Max,
						l.Delivered, l.Arrival.Missing, l.Arrival.Duplicates, l.Use)
				}
			}
		})
}

func (r *Report) verdict(out *bytes.Buffer) {
	table(out, "Against the design's figures", "\tfigure\tvalue\ttarget\tunit\tok", func(t *bytes.Buffer) {
		for _, e := range r.Engines {
			for _, c := range e.Checks {
				value, ok := fmt.Sprintf("%.2f", c.Value), "yes"
				if c.Value >= 100 || c.Value == 0 {
					value = fmt.Sprintf("%.0f", c.Value)
				}
				if !c.OK {
					ok = "NO"
				}
				if !c.Measured {
					value = "not measured"
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", e.Name, c.Name, value, c.Target, c.Unit, ok)
			}
		}
	})
	problems := slices.Clone(r.Problems)
	for _, e := range r.Engines {
		problems = append(problems, e.problems()...)
	}
	if r.Yardstick != nil && r.Yardstick.Requests.FirstProblem != "" {
		problems = append(problems, "yardstick: first problem: "+r.Yardstick.Requests.FirstProblem)
	}
	for i, p := range problems {
		if i == 0 {
			fmt.Fprint(out, "\nProblems\n")
		}
		fmt.Fprintf(out, "  %s\n", p)
	}
}

// problems collects what went wrong in the engine's phases, each with the phase's name.
func (e *Engine) problems() []string {
	var all []string
	add := func(phase, text string) {
		if text != "" {
			all = append(all, e.Name+phase+": "+text)
		}
	}
	add("", e.Problem)
	if e.Ingest != nil {
		add(", ingest, first request", e.Ingest.Requests.FirstProblem)
	}
	if e.Delivery != nil {
		add(", delivery, first request", e.Delivery.Requests.FirstProblem)
		add(", delivery, first forward", e.Delivery.Arrival.Sink.FirstProblem)
	}
	if e.Latency != nil {
		add(", latency, first request", e.Latency.Requests.FirstProblem)
		add(", latency, first forward", e.Latency.Arrival.Sink.FirstProblem)
	}
	if e.Streaming != nil {
		add(", streams, first request", e.Streaming.Requests.FirstProblem)
		add(", streams, first connection", e.Streaming.FirstProblem)
	}
	if e.Contended != nil {
		add(", ingest with readers, first connection", e.Contended.FirstProblem)
	}
	return all
}

func table(out *bytes.Buffer, title, header string, rows func(*bytes.Buffer)) {
	if title != "" {
		fmt.Fprintf(out, "\n%s\n", title)
	}
	cells := bytes.NewBufferString(header + "\n")
	rows(cells)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	// A bytes.Buffer takes every write.
	_, _ = cells.WriteTo(t)
	_ = t.Flush()
}

// String gives the three percentiles without unit.
func (q Quantiles) String() string {
	return fmt.Sprintf("p50 %.2f, p99 %.2f, max %.2f", q.P50, q.P99, q.Max)
}

// String gives the three columns of a table.
func (u Use) String() string {
	return fmt.Sprintf("%.0f\t%.3f\t%.3f", float64(u.PeakResidentBytes)/1e6, u.CPUPerThousand, u.BenchCPUPerThousand)
}
