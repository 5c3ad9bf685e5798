package toolformat

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// writer writes JSON. A writer that is over its limit writes on, and is asked whether it is.
type writer struct {
	out   bytes.Buffer
	limit int
}

func (w *writer) over() bool { return w.out.Len() > w.limit }

// string writes a JSON string, without escapes for HTML.
func (w *writer) string(text string) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(strings.ToValidUTF8(text, "\ufffd")); err != nil {
		w.out.WriteString(`""`) // a string always has a form
		return
	}
	w.out.Write(bytes.TrimRight(b.Bytes(), "\n"))
}

// strings writes an array of strings.
func (w *writer) strings(list []string) {
	w.out.WriteByte('[')
	for i, text := range list {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.string(text)
	}
	w.out.WriteByte(']')
}

// object writes an object: its members are written by what is called.
func (w *writer) object(write func(m *members)) {
	w.out.WriteByte('{')
	write(&members{w: w, first: true})
	w.out.WriteByte('}')
}

// members writes the members of an object, with commas between them.
type members struct {
	w     *writer
	first bool
}

func (m *members) name(name string) {
	if !m.first {
		m.w.out.WriteByte(',')
	}
	m.first = false
	m.w.string(name)
	m.w.out.WriteByte(':')
}

func (m *members) text(name, value string) {
	if value != "" {
		m.name(name)
		m.w.string(value)
	}
}

func (m *members) raw(name string, value []byte) {
	if len(value) > 0 {
		m.name(name)
		m.w.out.Write(value)
	}
}

func (m *members) count(name string, value *int64) {
	if value != nil {
		m.name(name)
		m.w.out.WriteString(strconv.FormatInt(*value, 10))
	}
}

func (m *members) bound(name string, value *bound) {
	if value != nil {
		m.raw(name, value.raw)
	}
}

func (m *members) flag(name string, value bool) {
	if value {
		m.name(name)
		m.w.out.WriteString("true")
	}
}

// list writes an array whose items are written by what is called.
func (m *members) list(name string, count int, write func(i int)) {
	m.name(name)
	m.w.out.WriteByte('[')
	for i := range count {
		if i > 0 {
			m.w.out.WriteByte(',')
		}
		write(i)
	}
	m.w.out.WriteByte(']')
}
