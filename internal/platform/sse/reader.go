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

// ErrTooLong says that a message is larger than the reader takes.
var ErrTooLong = errors.New("a message of the stream is too long")

// Reader is the client's end of one stream.
type Reader struct {
	r     *bufio.Reader
	limit int
	begun bool
	// skip says that the last line ended with CR, so that an LF right after it belongs to its break.
	skip  bool
	id    string
	retry time.Duration
}

// NewReader returns a Reader of the stream in r, whose lines and messages may have limit bytes.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{r: bufio.NewReader(r), limit: limit}
}

// LastID is the id that a client sends as Last-Event-ID when it comes back; empty where the stream has set none.
func (r *Reader) LastID() string { return r.id }

// Retry is how long the stream asks clients to wait before they come back; 0 where it has not said so.
func (r *Reader) Retry() time.Duration { return r.retry }

// Next returns the next event. A message without data is no event; its id counts all the same. At the end of the stream
// it returns io.EOF; what was not ended by a blank line is dropped.
func (r *Reader) Next() (Message, error) {
	for {
		if m, event, err := r.NextBlock(); event || err != nil {
			return m, err
		}
	}
}

// NextBlock returns when the next block has ended, and says whether it is an event. One that is none may have moved
// LastID on.
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

// line returns the next line without its end, which is CR, LF or both.
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
