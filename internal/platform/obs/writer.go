package obs

import (
	"io"
	"sync"
	"time"

	"sallyport/internal/platform/clock"
)

const (
	// maxBuffered is the number of bytes that may wait. Beyond it, Write blocks until the writer has caught up.
	maxBuffered = 1 << 20
	// maxGathered is the number of bytes that may wait for linePace.
	maxGathered = 64 << 10
	// linePace is the time for which lines of requests and attempts are gathered after a write.
	linePace = 50 * time.Millisecond
)

// Writer passes lines to an io.Writer from a goroutine of its own, several in one call while there are many: a call and
// the wake-up of its goroutine cost more than a line. A line that comes to Write is written immediately, with all
// before it. The lines of requests and attempts wait up to linePace for each other, except for the first after a pause,
// and a crash loses those.
type Writer struct {
	out io.Writer

	mu sync.Mutex
	// taken is signalled when the goroutine has taken the waiting lines.
	taken   *sync.Cond
	waiting []byte
	spare   []byte
	// gathering is set while the goroutine will look for lines without a signal, after linePace.
	gathering bool
	closed    bool
	signal    chan struct{}
	ended     chan struct{}
}

// NewWriter returns a Writer to out, which needs Close.
func NewWriter(out io.Writer) *Writer {
	w := &Writer{out: out, signal: make(chan struct{}, 1), ended: make(chan struct{})}
	w.taken = sync.NewCond(&w.mu)
	go w.run()
	return w
}

// Write queues a line that is written immediately. After Close it writes directly.
func (w *Writer) Write(line []byte) (int, error) { return w.add(line, true) }

// gather queues a line that may wait for others.
func (w *Writer) gather(line []byte) { _, _ = w.add(line, false) } // a failure cannot be reported anywhere

func (w *Writer) add(line []byte, immediately bool) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.waiting) > maxBuffered && !w.closed {
		w.taken.Wait()
	}
	if w.closed {
		return w.out.Write(line)
	}
	w.waiting = append(w.waiting, line...)
	if immediately || !w.gathering || len(w.waiting) > maxGathered {
		w.wake()
	}
	return len(line), nil
}

// wake lets the goroutine write what waits.
func (w *Writer) wake() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// Close writes the queued lines and ends the goroutine.
func (w *Writer) Close() {
	w.mu.Lock()
	w.closed = true
	w.wake()
	w.taken.Broadcast()
	w.mu.Unlock()
	<-w.ended
}

func (w *Writer) run() {
	defer close(w.ended)
	for {
		lines, closed := w.take()
		if len(lines) > 0 {
			// A failure to write the log cannot be reported anywhere.
			_, _ = w.out.Write(lines)
		}
		switch {
		case closed:
			return
		case len(lines) > 0:
			w.linger()
		default:
			<-w.signal
		}
	}
}

// take returns the waiting lines, and whether they are the last.
func (w *Writer) take() (lines []byte, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines = w.waiting
	w.waiting, w.spare = w.spare[:0], lines
	w.gathering = len(lines) > 0
	w.taken.Broadcast()
	return lines, w.closed
}

// linger waits for more lines.
func (w *Writer) linger() {
	t := clock.System().NewTimer(linePace)
	defer t.Stop()
	select {
	case <-t.C():
	case <-w.signal:
	}
}
