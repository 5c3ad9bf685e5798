package httpserver

import (
	"bytes"
	"math"
	"strconv"
)

// framing follows the messages of an HTTP/1 connection (RFC 9112 section 6) to find those whose length is ambiguous.
// net/http accepts a request with both Content-Length and Transfer-Encoding and hides the one that it ignores, and it
// ignores the Transfer-Encoding of HTTP/1.0. A proxy before the server that does the opposite would take a part of the
// body for another request, or the other way round: request smuggling (RFC 9112 section 11.2).
//
// It accepts the line endings and the chunks that net/http accepts, and more, but never less: where the two could
// differ, net/http has refused the request before.
type framing struct {
	state state
	// carry is the beginning of a line that ends in a later read.
	carry []byte
	// left is how much of a body or chunk follows.
	left uint64
	// length is the Content-Length of the present head, and lengths how many there were.
	length  uint64
	lengths int
	// coded and chunked are about its Transfer-Encoding. oldest says that the request is one of HTTP/1.0.
	coded, chunked, oldest bool
	// framed says that the header before was one of the two, which must not continue on another line.
	framed bool
}

// state says what comes next.
type state uint8

const (
	// atStart expects a request line, after any number of empty lines.
	atStart state = iota
	inHead
	inBody
	atChunk
	inChunk
	// afterChunk expects the empty rest of the line on which a chunk ends.
	afterChunk
	inTrailer
	// over is the state after a request that net/http refuses: it closes the connection.
	over
)

// The reasons for which a request is refused.
const (
	reasonBoth            = "the request has Content-Length and Transfer-Encoding"
	reasonLengths         = "the request has more than one Content-Length"
	reasonLength          = "Content-Length is not a number"
	reasonOldCoding       = "a request of HTTP/1.0 cannot have Transfer-Encoding"
	reasonContinued       = "Content-Length and Transfer-Encoding must be on one line"
	reasonChunk           = "a chunk of the body is malformed"
	maxCarry              = maxHeaderBytes + 8<<10 // net/http refuses a head of this size
	keptCarry             = 1 << 10
	contentLength         = "content-length"
	transferEncoding      = "transfer-encoding"
	oldestVersion         = " HTTP/1.0"
	maxChunkDigits        = 16
	hexadecimal           = 16
	lowerCase        byte = 0x20
)

// scan follows the bytes of a read. It returns how many of them precede the end of a line that is refused, and why; if
// none is, it returns all and an empty reason.
func (f *framing) scan(p []byte) (passed int, reason string) {
	for i := 0; i < len(p); {
		switch f.state {
		case over:
			return len(p), ""
		case inBody, inChunk:
			n := min(f.left, uint64(len(p)-i))
			i, f.left = i+int(n), f.left-n //nolint:gosec // at most the length of p
			if f.left > 0 {
				return len(p), ""
			}
			if f.state == inBody {
				f.state = atStart
			} else {
				f.state = afterChunk
			}
		case atStart, inHead, atChunk, afterChunk, inTrailer:
			n := bytes.IndexByte(p[i:], '\n')
			if n < 0 {
				f.keep(p[i:])
				return len(p), ""
			}
			line := p[i : i+n]
			if len(f.carry) > 0 {
				f.carry = append(f.carry, line...)
				line = f.carry
			}
			reason := f.line(bytes.TrimSuffix(line, []byte{'\r'}))
			f.dropCarry()
			if reason != "" {
				f.state = over
				return i + n, reason
			}
			i += n + 1
		}
	}
	return len(p), ""
}

// keep keeps the beginning of a line.
func (f *framing) keep(part []byte) {
	if len(f.carry)+len(part) > maxCarry {
		f.state = over
		return
	}
	f.carry = append(f.carry, part...)
}

// dropCarry empties the carry. Idle connections are many, so a large one is not kept for the next line.
func (f *framing) dropCarry() {
	if f.carry = f.carry[:0]; cap(f.carry) > keptCarry {
		f.carry = nil
	}
}

// line takes a line without its end. It returns why the line is refused, or an empty text.
func (f *framing) line(line []byte) (reason string) {
	switch f.state {
	case atStart:
		if len(line) > 0 {
			*f = framing{state: inHead, carry: f.carry, oldest: bytes.HasSuffix(line, []byte(oldestVersion))}
		}
	case inHead:
		if len(line) == 0 {
			f.endHead()
			return ""
		}
		return f.header(line)
	case atChunk:
		return f.chunk(line)
	case afterChunk:
		if len(line) > 0 {
			return reasonChunk
		}
		f.state = atChunk
	case inTrailer:
		if len(line) == 0 {
			f.state = atStart
		}
	case inBody, inChunk, over: // have no lines
	}
	return ""
}

// header takes a line of the head. The first letter excludes most lines.
func (f *framing) header(line []byte) (reason string) {
	if line[0] == ' ' || line[0] == '\t' {
		if f.framed {
			return reasonContinued
		}
		return ""
	}
	f.framed = false
	switch line[0] | lowerCase {
	case contentLength[0]:
		if value, ok := valueOf(line, contentLength); ok {
			return f.takeLength(value)
		}
	case transferEncoding[0]:
		if value, ok := valueOf(line, transferEncoding); ok {
			return f.takeCoding(value)
		}
	}
	return ""
}

// valueOf returns the value of a header line if it has the name, in any case.
func valueOf(line []byte, name string) (value []byte, ok bool) {
	if len(line) <= len(name) || line[len(name)] != ':' {
		return nil, false
	}
	for i := range len(name) {
		c := line[i]
		if 'A' <= c && c <= 'Z' {
			c |= lowerCase
		}
		if c != name[i] {
			return nil, false
		}
	}
	return bytes.Trim(line[len(name)+1:], " \t"), true
}

func (f *framing) takeLength(value []byte) (reason string) {
	f.framed = true
	f.lengths++
	if f.coded {
		return reasonBoth
	}
	if f.lengths > 1 {
		return reasonLengths
	}
	length, err := strconv.ParseUint(string(value), 10, 63)
	if err != nil || value[0] == '+' {
		return reasonLength
	}
	f.length = length
	return ""
}

func (f *framing) takeCoding(value []byte) (reason string) {
	f.framed = true
	if f.lengths > 0 {
		return reasonBoth
	}
	if f.oldest {
		return reasonOldCoding
	}
	f.chunked = !f.coded && bytes.EqualFold(value, []byte("chunked"))
	f.coded = true
	return ""
}

func (f *framing) endHead() {
	switch {
	case f.chunked:
		f.state = atChunk
	case f.coded:
		f.state = over // net/http responds with 501
	case f.length > 0:
		f.state, f.left = inBody, f.length
	default:
		f.state = atStart
	}
}

// chunk takes the line with the size of a chunk, in hexadecimal, and its extensions.
func (f *framing) chunk(line []byte) (reason string) {
	digits, _, _ := bytes.Cut(line, []byte{';'})
	digits = bytes.TrimRight(digits, " \t")
	size, err := strconv.ParseUint(string(digits), hexadecimal, 64)
	if err != nil || len(digits) > maxChunkDigits || size > math.MaxInt64 {
		return reasonChunk
	}
	if f.left = size; size == 0 {
		f.state = inTrailer
		return ""
	}
	f.state = inChunk
	return ""
}
