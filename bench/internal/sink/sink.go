// Package sink is the receiver of the gateway's forwards: a minimal HTTP/1.1 server that notes when it has read each
// event, and verifies a sample of them in full.
package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"sallyport/bench/internal/event"
	"sallyport/bench/internal/wire"
)

// sampleEvery is how many forwards go by for each one that is verified; the first is always verified.
const sampleEvery = 100

// Responses have no Date field: a recipient with a clock adds its own (RFC 9110, section 6.6.1).
const (
	responseOK       = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	responseNotFound = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
)

// Counts are the sink's counts since Expect.
type Counts struct {
	// Forwards is the number of forwards credited to an event, duplicates included.
	Forwards int `json:"forwards"`
	// Strays is the number of requests that carry no mark of an event of the present phase.
	Strays int `json:"strays"`
	// Verified is the number of forwards verified in full.
	Verified int `json:"verified"`
	// BadForwards is the number of verified forwards whose signature, envelope or content was wrong.
	BadForwards int `json:"bad_forwards"`
	// BrokenConnections is the number of connections that ended on something else than the end of the stream between
	// messages.
	BrokenConnections int `json:"broken_connections"`
	// FirstProblem describes the first bad forward or broken connection.
	FirstProblem string `json:"first_problem,omitempty"`
}

// Sink receives forwards. It is safe for concurrent use.
type Sink struct {
	listener net.Listener
	serving  sync.WaitGroup
	phase    atomic.Pointer[phase]

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

// phase is the expectation under which forwards are counted.
type phase struct {
	tracker  *event.Tracker
	verifier *Verifier

	forwards, strays, verified, bad, broken atomic.Int64

	mu           sync.Mutex
	firstProblem string
}

// Listen starts a Sink on a free port of the IPv4 loopback address. It responds with 404 to everything until Expect is
// called.
func Listen(ctx context.Context) (*Sink, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for forwards: %w", err)
	}
	s := &Sink{listener: listener, conns: map[net.Conn]struct{}{}}
	s.serving.Go(s.accept)
	return s, nil
}

// URL returns the address that forwards go to.
func (s *Sink) URL() string { return "http://" + s.listener.Addr().String() + "/" }

// Expect credits forwards to the tracker's events from now on, with counts that begin at zero.
func (s *Sink) Expect(tracker *event.Tracker, verifier *Verifier) {
	s.phase.Store(&phase{tracker: tracker, verifier: verifier})
}

// Counts returns the counts of the present phase.
func (s *Sink) Counts() Counts {
	p := s.phase.Load()
	if p == nil {
		return Counts{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return Counts{
		Forwards:          int(p.forwards.Load()),
		Strays:            int(p.strays.Load()),
		Verified:          int(p.verified.Load()),
		BadForwards:       int(p.bad.Load()),
		BrokenConnections: int(p.broken.Load()),
		FirstProblem:      p.firstProblem,
	}
}

// Close stops listening, ends every connection and waits for their goroutines, verification included. Further calls do
// nothing.
func (s *Sink) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	err := s.listener.Close()
	for conn := range s.conns {
		err = errors.Join(err, conn.Close())
	}
	s.mu.Unlock()
	s.serving.Wait()
	return err
}

func (s *Sink) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			// The listener was closed, or the process is out of descriptors; then forwards go missing, which is the report.
			return
		}
		if !s.enter(conn) {
			_ = conn.Close() // the sink is closing; no one waits for this connection
			return
		}
		s.serving.Go(func() { s.serve(conn) })
	}
}

func (s *Sink) enter(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conns[conn] = struct{}{}
	return true
}

func (s *Sink) serve(conn net.Conn) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, conn)
		if !s.closed {
			_ = conn.Close() // the peer has ended or broken the connection already
		}
	}()
	reader := wire.NewReader(conn)
	for {
		request, err := reader.Request()
		p := s.phase.Load()
		if err != nil {
			if p != nil && !endOfConnection(err) {
				p.broken.Add(1)
				p.note(err)
			}
			return
		}
		response, check := p.receive(&request)
		if _, err := conn.Write([]byte(response)); err != nil {
			if p != nil && !endOfConnection(err) {
				p.broken.Add(1)
				p.note(err)
			}
			return
		}
		// After the response: the sender need not wait for the verification, as it would not for a receiver that queues.
		if check != nil {
			check()
		}
		if request.Close {
			return
		}
	}
}

// receive credits one request. When the request is in the sample, check verifies it; check holds only until the next
// read.
func (p *phase) receive(request *wire.Message) (response string, check func()) {
	if p == nil {
		return responseNotFound, nil
	}
	at := p.tracker.Now()
	epoch, seq, ok := event.Find(request.Body)
	if !ok || epoch != p.tracker.Epoch() || !p.tracker.Seen(seq, at) {
		p.strays.Add(1)
		return responseOK, nil
	}
	if p.forwards.Add(1)%sampleEvery != 1 {
		return responseOK, nil
	}
	return responseOK, func() {
		p.verified.Add(1)
		if err := p.verifier.verify(request, epoch, seq); err != nil {
			p.bad.Add(1)
			p.note(err)
		}
	}
}

func (p *phase) note(problem error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.firstProblem == "" {
		p.firstProblem = problem.Error()
	}
}

// endOfConnection reports an end that says nothing about the messages: the peer closed or reset an idle connection, or
// the sink is closing.
func endOfConnection(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}
