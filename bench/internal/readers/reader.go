package readers

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	readBuffer = 32 << 10
	// maxMessage bounds one message of a stream.
	maxMessage = 1 << 20
)

var (
	errRefused = errors.New("the stream was refused")
	errTooLong = errors.New("a message of the stream is too long")
)

// reader is one reader. Its counters but received are read only after it has ended.
type reader struct {
	all     *Readers
	audited bool
	begun   chan error

	received                           atomic.Int64
	attempts, updates                  int64
	duplicateEvents, duplicateAttempts int64
	lagged, gaps, reconnects           int64
	delays                             []time.Duration
	// seen are the events and attempts that a followed reader has received.
	seen   map[string]bool
	lastID []byte
}

// run reads streams, one after the other, until ctx ends.
func (r *reader) run(ctx context.Context) {
	for first := true; ctx.Err() == nil; first = false {
		if !first {
			r.reconnects++
			t := r.all.clk.NewTimer(comeBack)
			select {
			case <-t.C():
			case <-ctx.Done():
				t.Stop()
				return
			}
		}
		if err := r.read(ctx, first); err != nil && ctx.Err() == nil {
			r.all.note(err)
		}
		if first {
			select {
			case r.begun <- errRefused: // unless it has begun
			default:
			}
		}
	}
}

// read reads one stream to its end.
func (r *reader) read(ctx context.Context, first bool) (err error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", r.all.plan.Addr)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // what reads then fails, and that is the report
	defer func() {
		stop()
		_ = conn.Close() // what has come is counted
	}()
	request := "GET " + r.all.plan.Path + " HTTP/1.1\r\nHost: " + r.all.plan.Addr + "\r\nAPI-Key: " + r.all.plan.Key +
		"\r\n"
	if len(r.lastID) > 0 {
		request += "Last-Event-ID: " + string(r.lastID) + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		return fmt.Errorf("write request: %w", err)
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, readBuffer), nil)
	if err != nil {
		return fmt.Errorf("read response: %w", err)
	}
	defer func() {
		_ = conn.Close() // first, for closing the body would read what is left of it
		_ = resp.Body.Close()
	}()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: %s", errRefused, resp.Status)
	}
	buf := make([]byte, 0, 2*readBuffer)
	for {
		if cap(buf)-len(buf) < readBuffer {
			grown := make([]byte, len(buf), 2*cap(buf))
			copy(grown, buf)
			buf = grown
		}
		n, err := resp.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		rest := r.blocks(buf)
		if first && len(rest) < len(buf) {
			first = false
			r.begun <- nil
		}
		buf = buf[:copy(buf[:cap(buf)], rest)]
		switch {
		case len(buf) > maxMessage:
			return errTooLong
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read a stream: %w", err)
		}
	}
}

// blocks counts the whole blocks in b and returns what follows the last.
func (r *reader) blocks(b []byte) []byte {
	for {
		end := bytes.Index(b, []byte("\n\n"))
		if end < 0 {
			return b
		}
		r.block(b[:end])
		b = b[end+2:]
	}
}

func (r *reader) block(b []byte) {
	if id := field(b, "id: "); id != nil {
		r.lastID = append(r.lastID[:0], id...)
	}
	switch event := field(b, "event: "); string(event) {
	case "webhook_event.received":
		r.received.Add(1)
		if r.audited {
			r.duplicateEvents += r.again(between(b, `"event_uuid":"`))
			r.delay(between(b, `"received_at":"`))
		}
	case "webhook_attempt.completed":
		r.attempts++
		if r.audited {
			r.duplicateAttempts += r.again(between(b, `"id":"`))
		}
	case "webhook_event.updated":
		r.updates++
	case "stream.lagged":
		r.lagged++
	case "stream.gap":
		r.gaps++
	default: // an id alone, or the end of the stream
	}
}

// field returns the value of a line that begins with prefix; nil without one.
func field(b []byte, prefix string) []byte {
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte("\n"))
		if value, ok := bytes.CutPrefix(line, []byte(prefix)); ok {
			return value
		}
		if bytes.HasPrefix(line, []byte("data: ")) {
			return nil // the last field of a message
		}
		b = rest
	}
	return nil
}

// between returns what stands between a text and the next quotation mark.
func between(b []byte, text string) string {
	_, rest, _ := bytes.Cut(b, []byte(text))
	value, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(value)
}

// again returns 1 for a message that the reader has already received.
func (r *reader) again(name string) int64 {
	if r.seen[name] {
		return 1
	}
	r.seen[name] = true
	return 0
}

func (r *reader) delay(receivedAt string) {
	if at, err := time.Parse(time.RFC3339, receivedAt); err == nil {
		r.delays = append(r.delays, r.all.clk.Now().Sub(at))
	}
}
