package sse

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"sallyport/internal/platform/clock"
)

// Writer is the server's side of one stream.
type Writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	clock   clock.Clock
}

// NewWriter returns a Writer with a timeout for each Write. Deadlines of connections use real time, in tests too.
func NewWriter(w http.ResponseWriter, timeout time.Duration) *Writer {
	return &Writer{w: w, control: http.NewResponseController(w), timeout: timeout, clock: clock.System()}
}

// Open responds with 200 and the headers of a stream, and sends the time that the client waits before it reconnects. It
// removes the server's read timeout from the connection, because a stream outlives it.
func (s *Writer) Open(retry time.Duration) error {
	if err := s.control.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("open a stream: %w", err)
	}
	h := s.w.Header()
	h.Set("Content-Type", ContentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies such as nginx pass messages on immediately
	s.w.WriteHeader(http.StatusOK)
	return s.Write([]byte("retry: " + strconv.FormatInt(retry.Milliseconds(), 10) + "\n\n"))
}

// Write sends whole blocks to the client. After an error, because the client is gone or too slow, nothing more can be
// sent.
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
