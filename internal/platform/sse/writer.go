package sse

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"sallyport/internal/platform/clock"
)

// Writer is the server's end of one stream.
type Writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	clock   clock.Clock
}

// NewWriter returns a Writer that gives each Write timeout to reach the client's connection. The time is real, also
// where tests hold the clock: a connection's deadlines are.
func NewWriter(w http.ResponseWriter, timeout time.Duration) *Writer {
	return &Writer{w: w, control: http.NewResponseController(w), timeout: timeout, clock: clock.System()}
}

// Open answers 200 with the headers of a stream and tells the client how long to wait before it comes back. The
// server's time-outs of reading and writing no longer hold for the connection: a stream outlives them.
func (s *Writer) Open(retry time.Duration) error {
	if err := s.control.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("open a stream: %w", err)
	}
	h := s.w.Header()
	h.Set("Content-Type", ContentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx and its like pass messages on at once
	s.w.WriteHeader(http.StatusOK)
	return s.Write([]byte("retry: " + strconv.FormatInt(retry.Milliseconds(), 10) + "\n\n"))
}

// Write sends whole blocks to the client. An error says that the client is gone or has taken too long; nothing more can
// be sent then.
func (s *Writer) Write(blocks []byte) error {
	if err := s.control.SetWriteDeadline(s.clock.Now().Add(s.timeout)); err != nil {
		return fmt.Errorf("write to a stream: %w", err)
	}
	if _, err := s.w.Write(blocks); err != nil {
		return fmt.Errorf("write to a stream: %w", err)
	}
	if err := s.control.Flush(); err != nil {
		return fmt.Errorf("write to a stream: %w", err)
	}
	return nil
}
