package procstat

import (
	"context"
	"sync"
	"time"

	"sallyport/internal/platform/clock"
)

// sampleInterval is the time between two readings of the resident size.
const sampleInterval = 200 * time.Millisecond

// Sampler keeps the highest resident size of a process that it has seen. It is safe for concurrent use.
type Sampler struct {
	proc Proc
	stop context.CancelFunc
	done chan struct{}

	mu   sync.Mutex
	peak int64
	err  error
}

// Sample starts to read the resident size every 200 ms, until Stop or the end of ctx.
func Sample(ctx context.Context, clk clock.Clock, proc Proc) *Sampler {
	ctx, stop := context.WithCancel(ctx)
	s := &Sampler{proc: proc, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for {
			timer := clk.NewTimer(sampleInterval)
			select {
			case <-timer.C():
				s.read()
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
	}()
	return s
}

// Begin forgets the peak and takes a reading.
func (s *Sampler) Begin() {
	s.mu.Lock()
	s.peak = 0
	s.mu.Unlock()
	s.read()
}

// Peak takes a reading and returns the highest resident size in bytes since Begin, and the first error of any reading.
func (s *Sampler) Peak() (int64, error) {
	s.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peak, s.err
}

// Stop ends the readings.
func (s *Sampler) Stop() {
	s.stop()
	<-s.done
}

func (s *Sampler) read() {
	memory, err := s.proc.Memory()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peak = max(s.peak, memory.Resident)
	if s.err == nil {
		s.err = err
	}
}
