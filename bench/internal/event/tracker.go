package event

import (
	"iter"
	"sync/atomic"
	"time"

	"sallyport/internal/platform/clock"
)

const (
	ackedBit uint32 = 1 << iota
	seenBit
)

// Tracker records what happened to each event of one phase. Times are kept as monotonic offsets from its creation. It
// is safe for concurrent use, and nothing in it locks or allocates after NewTracker.
type Tracker struct {
	epoch   uint32
	clk     clock.Clock
	zero    time.Time
	slots   []slot
	next    atomic.Uint32
	acked   atomic.Int64
	arrived atomic.Int64
}

type slot struct {
	sent, acked, seen atomic.Int64
	state             atomic.Uint32
	duplicates        atomic.Uint32
}

// Record holds the known facts about one event.
type Record struct {
	// Sent is when the generator was about to write the request.
	Sent time.Duration
	// Acked is when the acknowledgement had been read; it counts only with WasAcked.
	Acked    time.Duration
	WasAcked bool
	// Seen is when the sink had read the first forward of the event; it counts only with WasSeen.
	Seen    time.Duration
	WasSeen bool
	// Duplicates counts the forwards after the first.
	Duplicates int
}

// NewTracker returns a Tracker for at most capacity events. Epoch distinguishes its events from those of other phases
// and runs.
func NewTracker(clk clock.Clock, epoch uint32, capacity int) *Tracker {
	return &Tracker{epoch: epoch, clk: clk, zero: clk.Now(), slots: make([]slot, capacity)}
}

// Epoch returns the number that marks this Tracker's events.
func (t *Tracker) Epoch() uint32 { return t.epoch }

// Now returns the time since the Tracker was made.
func (t *Tracker) Now() time.Duration { return t.clk.Now().Sub(t.zero) }

// Next hands out the next sequence number; ok is false when the capacity is used up.
func (t *Tracker) Next() (seq uint32, ok bool) {
	for {
		seq = t.next.Load()
		if int(seq) >= len(t.slots) {
			return 0, false
		}
		if t.next.CompareAndSwap(seq, seq+1) {
			return seq, true
		}
	}
}

// Sent records that the request of event seq is about to be written.
func (t *Tracker) Sent(seq uint32) { t.slots[seq].sent.Store(int64(t.Now())) }

// Acked records that the acknowledgement of event seq has been read.
func (t *Tracker) Acked(seq uint32) {
	s := &t.slots[seq]
	s.acked.Store(int64(t.Now()))
	t.acked.Add(1)
	if s.state.Or(ackedBit)&seenBit != 0 {
		t.arrived.Add(1)
	}
}

// Seen records that the sink had read a forward of event seq at the given time. It returns false, and records nothing,
// when no such event was sent.
func (t *Tracker) Seen(seq uint32, at time.Duration) bool {
	if seq >= t.next.Load() {
		return false
	}
	s := &t.slots[seq]
	// Zero means "not seen", so that one atomic operation decides which forward was the first.
	if !s.seen.CompareAndSwap(0, max(1, int64(at))) {
		s.duplicates.Add(1)
		return true
	}
	if s.state.Or(seenBit)&ackedBit != 0 {
		t.arrived.Add(1)
	}
	return true
}

// Progress returns how many events were acknowledged so far and how many of those the sink has seen.
func (t *Tracker) Progress() (acked, arrived int) {
	return int(t.acked.Load()), int(t.arrived.Load())
}

// Records yields every event handed out, in order of sequence number. While load runs, the records are those of a
// moment.
func (t *Tracker) Records() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for i := range t.slots[:t.next.Load()] {
			s := &t.slots[i]
			state := s.state.Load()
			r := Record{
				Sent:       time.Duration(s.sent.Load()),
				Acked:      time.Duration(s.acked.Load()),
				WasAcked:   state&ackedBit != 0,
				Seen:       time.Duration(s.seen.Load()),
				WasSeen:    state&seenBit != 0,
				Duplicates: int(s.duplicates.Load()),
			}
			if !yield(r) {
				return
			}
		}
	}
}
