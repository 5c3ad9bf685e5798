// Package sse writes and reads server-sent events as section 9.2 of the HTML standard (WHATWG) defines them: the
// server's half for the live streams, the client's half for the command line and for tests.
package sse

import (
	"bytes"
	"errors"
	"strings"
)

// ContentType is the media type of an event stream.
const ContentType = "text/event-stream"

// Message is one block of an event stream.
type Message struct {
	// ID is what a client that comes back sends as Last-Event-ID; empty leaves the last one in force.
	ID string
	// Event is the event's type; empty means "message".
	Event string
	// Data is the event's text. A message without data dispatches no event at the client; its id is taken all the same.
	Data []byte
}

// Errors of messages that the format cannot carry.
var (
	errField = errors.New("an id or event type must not hold a line break or U+0000")
	errEmpty = errors.New("a message needs an id or data, and an event type needs data")
)

// Append appends the message to b as it goes over the wire. It refuses what a client would read as something else.
func (m Message) Append(b []byte) ([]byte, error) {
	switch {
	case strings.ContainsAny(m.ID, "\r\n\x00") || strings.ContainsAny(m.Event, "\r\n\x00"):
		return b, errField
	case len(m.Data) == 0 && (m.ID == "" || m.Event != ""):
		return b, errEmpty
	}
	if m.ID != "" {
		b = append(b, "id: "...)
		b = append(b, m.ID...)
		b = append(b, '\n')
	}
	if m.Event != "" {
		b = append(b, "event: "...)
		b = append(b, m.Event...)
		b = append(b, '\n')
	}
	if len(m.Data) > 0 {
		for rest := m.Data; rest != nil; {
			b, rest = appendLine(b, rest)
		}
	}
	return append(b, '\n'), nil
}

// appendLine appends the first line of data as a field and returns what follows its break; nil where it has none.
func appendLine(b, data []byte) (appended, rest []byte) {
	if i := bytes.IndexAny(data, "\r\n"); i >= 0 {
		data, rest = data[:i], data[lineBreak(data, i):]
	}
	b = append(b, "data: "...)
	b = append(b, data...)
	return append(b, '\n'), rest
}

// lineBreak returns the index behind the line break at i, which CR LF is one of.
func lineBreak(b []byte, i int) int {
	if b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n' {
		return i + 2
	}
	return i + 1
}

// AppendComment appends a line that clients ignore. It keeps proxies from taking a quiet stream for a dead one.
func AppendComment(b []byte, text string) []byte {
	b = append(b, ": "...)
	b = append(b, strings.NewReplacer("\r", " ", "\n", " ").Replace(text)...)
	return append(b, '\n')
}
