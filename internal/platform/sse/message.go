// Package sse writes and reads server-sent events (HTML standard, WHATWG, section 9.2): the server's side for the live
// streams, the client's side for the command line and tests.
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
	// ID is the value that a client sends as Last-Event-ID when it reconnects; empty keeps the last one.
	ID string
	// Event is the event's type; empty means "message".
	Event string
	// Data is the event's text. A message without data dispatches no event at the client, but sets the id.
	Data []byte
}

// Errors of messages that the format cannot carry.
var (
	errField = errors.New("an id or event type must not contain a line break or U+0000")
	errEmpty = errors.New("a message needs an id or data, and an event type needs data")
)

// Append appends the message to b in wire format. It refuses fields that a client would read differently.
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

// appendLine appends the first line of data as a field and returns the rest after its line break; nil without one.
func appendLine(b, data []byte) (appended, rest []byte) {
	if i := bytes.IndexAny(data, "\r\n"); i >= 0 {
		data, rest = data[:i], data[lineBreak(data, i):]
	}
	b = append(b, "data: "...)
	b = append(b, data...)
	return append(b, '\n'), rest
}

// lineBreak returns the index after the line break at i; CR LF is one line break.
func lineBreak(b []byte, i int) int {
	if b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n' {
		return i + 2
	}
	return i + 1
}

// AppendComment appends a line that clients ignore. Proxies close streams that stay silent for too long.
func AppendComment(b []byte, text string) []byte {
	b = append(b, ": "...)
	b = append(b, strings.NewReplacer("\r", " ", "\n", " ").Replace(text)...)
	return append(b, '\n')
}
