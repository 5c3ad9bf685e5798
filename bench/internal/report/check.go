package report

import "fmt"

// The targets, stated for two cores shared by server, generator, sink and database.
const (
	TargetIngest    = 10_000.0      // events/s acknowledged at 64 connections
	TargetDelivered = 6_000.0       // events/s received and delivered
	TargetP50       = 2.0           // ms from receipt to sink at 200/s
	TargetP99       = 10.0          // ms from receipt to sink at 200/s
	TargetResident  = 256_000_000.0 // bytes of resident memory at any time
)

// Check is one figure and its target.
type Check struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Target string  `json:"target"`
	Unit   string  `json:"unit"`
	OK     bool    `json:"ok"`
	// Measured is false when the phase did not take place; then the check is not met.
	Measured bool `json:"measured"`
}

// checks compares an engine's figures with the design's.
func (e *Engine) checks() []Check {
	ingest, delivered, p50, p99 := Check{}, Check{}, Check{}, Check{}
	missing, bad := Check{}, Check{}
	if e.Ingest != nil {
		ingest = atLeast(e.Ingest.PerSecond, TargetIngest)
	}
	if e.Delivery != nil {
		delivered = atLeast(e.Delivery.SustainedPerSecond, TargetDelivered)
	}
	if e.Latency != nil && e.Latency.ToSink.Samples > 0 {
		p50 = below(e.Latency.ToSink.P50, TargetP50)
		p99 = below(e.Latency.ToSink.P99, TargetP99)
	}
	if e.Delivery != nil && e.Latency != nil {
		missing = none(e.Delivery.Arrival.Missing + e.Latency.Arrival.Missing)
		bad = none(e.Delivery.Arrival.Sink.BadForwards + e.Latency.Arrival.Sink.BadForwards)
	}
	peak := Check{}
	if e.PeakBytes > 0 {
		peak = below(float64(e.PeakBytes)/1e6, TargetResident/1e6)
	}
	return []Check{
		ingest.named("ingest", "events/s"),
		delivered.named("received and delivered", "events/s"),
		p50.named("receipt to sink, p50", "ms"),
		p99.named("receipt to sink, p99", "ms"),
		peak.named("resident memory, peak", "MB"),
		missing.named("acknowledged, never delivered", "events"),
		bad.named("forwards that fail verification", "events"),
	}
}

// Complete fills in every engine's checks and reports whether the run met all of them, without a problem on the way.
func (r *Report) Complete() bool {
	ok := len(r.Problems) == 0 && len(r.Engines) > 0
	for i := range r.Engines {
		e := &r.Engines[i]
		e.Checks = e.checks()
		if r.Streams {
			e.Checks = e.streamChecks()
		}
		ok = ok && e.Problem == ""
		for _, c := range e.Checks {
			ok = ok && c.OK
		}
	}
	return ok
}

func (c Check) named(name, unit string) Check {
	c.Name, c.Unit = name, unit
	return c
}

func atLeast(value, target float64) Check {
	return Check{Value: value, Target: fmt.Sprintf("≥ %.0f", target), OK: value >= target, Measured: true}
}

func below(value, target float64) Check {
	return Check{Value: value, Target: fmt.Sprintf("< %.0f", target), OK: value < target, Measured: true}
}

func none(count int) Check {
	return Check{Value: float64(count), Target: "0", OK: count == 0, Measured: true}
}
