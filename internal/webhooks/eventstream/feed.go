package eventstream

import (
	"slices"
	"sync"
	"time"

	"sallyport/internal/webhooks/events"
)

// Limits of the messages in memory. Readers have no buffers of their own: each reads from its feed.
const (
	// feedMessages, feedBytes and feedAge limit what a feed keeps behind its readers. The age counts from when the feed
	// got the message: messages for a reader that reconnects may be older.
	feedMessages = events.LogMessages
	feedBytes    = 16 << 20
	feedAge      = 30 * time.Second
	// nodeBytes bounds all feeds of the process together.
	nodeBytes = 48 << 20
)

// feed holds the latest messages of an environment for all its readers on this node.
type feed struct {
	key  feedKey
	made time.Time
	// readers is how many read the feed. The service's lock guards it.
	readers int

	mu sync.Mutex
	// from is the position after which the feed has every message of its environment.
	from int64
	// chunks are the feed's content; the first has the index base.
	chunks   []*chunk
	base     int64
	messages int
	bytes    int
	// last is the place of the newest record in the feed; at position 0 there was none.
	last events.LogPlace
	// guard is the position of a record that is before what the feed waits for. As long as the log has it, nothing between
	// it and the feed's next record has been cut; 0 where there is no such record.
	guard int64
	// changed is closed, and replaced, when something is added.
	changed chan struct{}
	// broken is true if the feed has missed something, so that no reader can continue in it.
	broken bool
}

func newFeed(key feedKey, from, guard int64, now time.Time) *feed {
	return &feed{key: key, made: now, from: from, guard: guard, changed: make(chan struct{})}
}

// add appends chunks, drops what is too old or too much, and wakes the readers. It returns by how many bytes the feed
// has grown, which may be less than nothing.
func (f *feed) add(chunks []*chunk, now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.bytes
	for _, c := range chunks {
		f.last, f.guard = c.record, c.record.Position
		if len(c.messages) == 0 {
			continue // its event is gone, or a later record covers it
		}
		c.added = now
		f.chunks = append(f.chunks, c)
		f.messages += len(c.messages)
		f.bytes += c.size
	}
	// The newest chunk stays, however large: without it no reader would get it.
	for len(f.chunks) > 1 && (f.messages > feedMessages || f.bytes > feedBytes || now.Sub(f.chunks[0].added) > feedAge) {
		f.drop()
	}
	if len(chunks) > 0 {
		f.wake()
	}
	return f.bytes - before
}

// shed drops the oldest chunk and returns its size in bytes; 0 if only one is left.
func (f *feed) shed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.chunks) < 2 {
		return 0
	}
	return f.drop()
}

func (f *feed) drop() int {
	c := f.chunks[0]
	f.chunks[0] = nil
	f.chunks = f.chunks[1:]
	f.base++
	f.from = c.record.Position
	f.messages -= len(c.messages)
	f.bytes -= c.size
	return c.size
}

func (f *feed) size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes
}

// start is the position after which the feed now has every message.
func (f *feed) start() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.from
}

// unread returns those of the records of its environment that are for the feed: one that was made for a reader farther
// on than the hub begins there.
func (f *feed) unread(records []events.LogRecord) []events.LogRecord {
	from := f.start()
	i := slices.IndexFunc(records, func(r events.LogRecord) bool { return r.Position > from })
	if i < 0 {
		return nil
	}
	return records[i:]
}

// guarded returns the feed's guard.
func (f *feed) guarded() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.guard
}

// fail ends the feed: its readers have missed something.
func (f *feed) fail() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = true
	f.wake()
}

func (f *feed) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// indexAfter returns the index of the first chunk whose record is behind a position; ok is false where the feed does
// not hold everything after it.
func (f *feed) indexAfter(position int64) (index int64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if position < f.from || f.broken {
		return 0, false
	}
	index = f.base
	for _, c := range f.chunks {
		if c.record.Position > position {
			break
		}
		index++
	}
	return index, true
}

// takeChunks and takeBytes are how much a reader takes at a time; one chunk, however large.
const (
	takeChunks = 64
	takeBytes  = 256 << 10
)

// reading is a feed's content for a reader.
type reading struct {
	chunks []*chunk
	// changed is closed when there is more.
	changed <-chan struct{}
	// last is the place of the newest record, which is behind the reader where there are no chunks.
	last events.LogPlace
	// lagged says that the reader has been left behind.
	lagged bool
}

// read returns what follows from an index on.
func (f *feed) read(next int64) reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken || next < f.base {
		return reading{lagged: true}
	}
	got, size := []*chunk(nil), 0
	for _, c := range f.chunks[next-f.base:] {
		if size += c.size; len(got) == takeChunks || len(got) > 0 && size > takeBytes {
			break
		}
		got = append(got, c)
	}
	return reading{chunks: got, changed: f.changed, last: f.last}
}

// dropped reports whether the feed no longer keeps the chunk at an index, or anything.
func (f *feed) dropped(index int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.broken || index < f.base
}
