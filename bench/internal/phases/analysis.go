package phases

import (
	"iter"
	"time"

	"sallyport/bench/internal/event"
	"sallyport/bench/internal/report"
	"sallyport/bench/internal/sink"
)

// window holds the acknowledgements of a stretch of time.
type window struct {
	length time.Duration
	events int
	// eventsToEnd also counts events acknowledged after the window: the responses that the end of the load waited for.
	eventsToEnd int
	// ack is the time to the acknowledgement of each event sent in the window.
	ack []time.Duration
}

// acknowledged looks at the window [from, to]. A load that ran out of events before its time ends the window with its
// last acknowledgement.
func acknowledged(records iter.Seq[event.Record], from, to time.Duration, exhausted bool) window {
	if exhausted {
		last := from
		for r := range records {
			if r.WasAcked {
				last = max(last, r.Acked)
			}
		}
		to = min(to, last)
	}
	w := window{length: to - from}
	for r := range records {
		if !r.WasAcked || r.Acked < from {
			continue
		}
		w.eventsToEnd++
		if r.Acked <= to {
			w.events++
		}
		if r.Sent >= from && r.Sent <= to {
			w.ack = append(w.ack, r.Acked-r.Sent)
		}
	}
	return w
}

// journey is the outcome of the events of one load.
type journey struct {
	acknowledged int
	// delivered events were acknowledged and seen.
	delivered int
	// unacknowledged events were seen only.
	unacknowledged int
	duplicates     int
	lastAck        time.Duration
	// lastSeen is the last first arrival of a delivered event.
	lastSeen    time.Duration
	ack, toSink []time.Duration
}

func follow(records iter.Seq[event.Record]) journey {
	var j journey
	for r := range records {
		j.duplicates += r.Duplicates
		if !r.WasAcked {
			if r.WasSeen {
				j.unacknowledged++
			}
			continue
		}
		j.acknowledged++
		j.lastAck = max(j.lastAck, r.Acked)
		j.ack = append(j.ack, r.Acked-r.Sent)
		if r.WasSeen {
			j.delivered++
			j.lastSeen = max(j.lastSeen, r.Seen)
			j.toSink = append(j.toSink, r.Seen-r.Sent)
		}
	}
	return j
}

// arrival adds up the run and its warm-up: an event lost while warming up is lost all the same.
func (r *journeyRun) arrival(before journey, beforeSink sink.Counts) report.Arrival {
	counts := r.counts
	counts.Forwards += beforeSink.Forwards
	counts.Strays += beforeSink.Strays
	counts.Verified += beforeSink.Verified
	counts.BadForwards += beforeSink.BadForwards
	counts.BrokenConnections += beforeSink.BrokenConnections
	if beforeSink.FirstProblem != "" {
		counts.FirstProblem = beforeSink.FirstProblem
	}
	return report.Arrival{
		Missing:        r.acknowledged - r.delivered + before.acknowledged - before.delivered,
		Duplicates:     r.duplicates + before.duplicates,
		Unacknowledged: r.unacknowledged + before.unacknowledged,
		Sink:           counts,
	}
}

func rate(events int, over time.Duration) float64 {
	if over <= 0 {
		return 0
	}
	return float64(events) / over.Seconds()
}
