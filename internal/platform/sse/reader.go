package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// ErrTooLong is the error for a message over the limit of the Reader.
var ErrTooLong = errors.New("a message of the stream is too long")

// Reader is the client's side of one stream.
type Reader struct {
	r     *bufio.Reader
	limit int
	begun bool
	// skip reports that the last line ended with CR, so an LF right after it belongs to the same line break.
	skip  bool
	id    string
	retry time.Duration
}

// NewReader returns a Reader of the stream r with a limit in bytes for lines and messages.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{r: bufio.NewReader(r), limit: limit}
}

// LastID returns the id that a client sends as Last-Event-ID when it reconnects; empty if the stream has set none.
func (r *Reader) LastID() string { return r.id }

// Retry returns the time that the stream asks clients to wait before they reconnect; 0 if it has set none.
func (r *Reader) Retry() time.Duration { return r.retry }

// Next returns the next event. A message without data is no event, but sets LastID. At the end of the stream it returns
// io.EOF, and drops a message without a final blank line.
func (r *Reader) Next() (Message, error) {
	for {
		if m, event, err := r.NextBlock(); event || err != nil {
			return m, err
		}
	}
}

// NextBlock returns the next block and reports whether it is an event. A block that is not may change LastID.
func (r *Reader) NextBlock() (m Message, isEvent bool, err error) {
	var event string
	var data []byte
	id, hasData := r.id, false
	for {
		line, err := r.line()
		if err != nil {
			return Message{}, false, err
		}
		if len(line) == 0 {
			r.id = id
			if !hasData {
				return Message{}, false, nil
			}
			if event == "" {
				event = "message"
			}
			return Message{ID: id, Event: event, Data: data[:len(data)-1]}, true, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			event = string(value)
		case "data":
			hasData = true
			data = append(append(data, value...), '\n')
			if len(data) > r.limit {
				return Message{}, false, ErrTooLong
			}
		case "id":
			if !bytes.ContainsRune(value, 0) {
				id = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil && isDigits(value) {
				r.retry = time.Duration(ms) * time.Millisecond
			}
		default: // a comment, whose name is empty, or a field of a later standard
		}
	}
}

func isDigits(b []byte) bool {
	return len(bytes.TrimLeft(b, "0123456789")) == 0
}

// line returns the next line without its line break, which is CR, LF or both.
func (r *Reader) line() ([]byte, error) {
	var line []byte
	for {
		c, err := r.r.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		if err != nil {
			return nil, fmt.Errorf("read a stream: %w", err)
		}
		skip := r.skip
		r.skip = c == '\r'
		switch {
		case c == '\n' && skip:
		case c == '\n', c == '\r':
			if !r.begun {
				r.begun = true
				line = bytes.TrimPrefix(line, []byte("\uFEFF"))
			}
			return line, nil
		default:
			if line = append(line, c); len(line) > r.limit {
				return nil, ErrTooLong
			}
		}
	}
}
