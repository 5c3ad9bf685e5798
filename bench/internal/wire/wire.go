// Package wire reads HTTP/1.1 messages from a byte stream into one reused buffer.
//
// The load generator and the sink share two processor cores with the server they measure. net/http's client and server
// cost more per message than the gateway's own work on an event, so both ends of the bench speak the small part of RFC
// 9112 that they need: messages framed by Content-Length on persistent connections. Everything else is refused, never
// guessed.
package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	initialBuffer = 8 << 10
	// maxMessage bounds a message's head and body together.
	maxMessage = 1 << 20
)

var (
	// ErrMalformed reports bytes that are not an HTTP/1.x message.
	ErrMalformed = errors.New("malformed HTTP message")
	// ErrUnsupported reports a message framed by something other than Content-Length.
	ErrUnsupported = errors.New("unsupported HTTP message framing")
	// ErrTooLarge reports a message over 1 MiB.
	ErrTooLarge = errors.New("HTTP message too large")
)

// Message is one request or response. Its slices belong to the Reader and hold until its next read.
type Message struct {
	// StartLine is the request line or the status line, without the line end.
	StartLine []byte
	// Status is the status code of a response and 0 in a request.
	Status int
	// Body is the content; it is empty when the message has none.
	Body []byte
	// Close reports that the sender will not use the connection for another message.
	Close bool

	fields []byte
}

// Header returns the value of the first field with that name, compared without regard to case, and "" when there is
// none.
func (m *Message) Header(name string) string {
	for rest := m.fields; len(rest) > 0; {
		var line []byte
		line, rest = cutLine(rest)
		if key, value, ok := bytes.Cut(line, []byte(":")); ok && equalFold(key, name) {
			return string(bytes.Trim(value, " \t"))
		}
	}
	return ""
}

// Reader reads successive messages. It is not safe for concurrent use.
type Reader struct {
	src        io.Reader
	buf        []byte
	start, end int
}

// NewReader returns a Reader of src.
func NewReader(src io.Reader) *Reader {
	return &Reader{src: src, buf: make([]byte, initialBuffer)}
}

// Request reads the next request. It returns io.EOF when the stream ends between messages and io.ErrUnexpectedEOF
// inside one.
func (r *Reader) Request() (Message, error) {
	return r.read(parseRequestLine)
}

// Response reads the next final response; interim (1xx) responses are skipped. The end of the stream is reported as by
// Request.
func (r *Reader) Response() (Message, error) {
	for {
		m, err := r.read(parseStatusLine)
		if err != nil || m.Status >= 200 {
			return m, err
		}
	}
}

type startLineParser func(line []byte, m *Message) (bodyAllowed, lengthRequired bool, err error)

func (r *Reader) read(parse startLineParser) (Message, error) {
	headLen, err := r.head()
	if err != nil {
		return Message{}, err
	}
	var m Message
	m.StartLine, m.fields = cutLine(r.buf[r.start : r.start+headLen-2])
	// A bare CR or LF splits lines for some parsers and not for others (RFC 9112, section 2.2).
	if bytes.ContainsAny(m.StartLine, "\r\n") {
		return Message{}, fmt.Errorf("%w: bare CR or LF", ErrMalformed)
	}
	bodyAllowed, lengthRequired, err := parse(m.StartLine, &m)
	if err != nil {
		return Message{}, err
	}
	length, err := framing(&m)
	if err != nil {
		return Message{}, err
	}
	switch {
	case !bodyAllowed:
		length = 0
	case length < 0 && lengthRequired:
		return Message{}, fmt.Errorf("%w: no Content-Length", ErrUnsupported)
	case length < 0:
		length = 0
	}
	if length > maxMessage-headLen {
		return Message{}, ErrTooLarge
	}
	for r.end-r.start < headLen+length {
		if err := r.fill(); err != nil {
			return Message{}, err
		}
	}
	// fill may have moved the bytes, so the slices into the head are taken again; the head itself has not changed.
	m.StartLine, m.fields = cutLine(r.buf[r.start : r.start+headLen-2])
	m.Body = r.buf[r.start+headLen : r.start+headLen+length]
	r.start += headLen + length
	return m, nil
}

// head returns the length of the next message's head, with the empty line that ends it.
func (r *Reader) head() (int, error) {
	searched := 0
	for {
		pending := r.buf[r.start:r.end]
		if i := bytes.Index(pending[searched:], []byte("\r\n\r\n")); i >= 0 {
			return searched + i + 4, nil
		}
		searched = max(0, len(pending)-3)
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
}

// fill makes room and reads again from the source.
func (r *Reader) fill() error {
	if r.start == r.end {
		r.start, r.end = 0, 0
	}
	if r.end == len(r.buf) {
		switch {
		case r.start > 0:
			r.end = copy(r.buf, r.buf[r.start:r.end])
			r.start = 0
		case len(r.buf) >= maxMessage:
			return ErrTooLarge
		default:
			grown := make([]byte, min(2*len(r.buf), maxMessage))
			copy(grown, r.buf)
			r.buf = grown
		}
	}
	n, err := r.src.Read(r.buf[r.end:])
	r.end += n
	switch {
	case n > 0:
		return nil
	case errors.Is(err, io.EOF) && r.end > r.start:
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	default:
		return io.ErrNoProgress
	}
}
