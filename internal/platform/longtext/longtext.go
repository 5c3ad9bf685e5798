// Package longtext keeps a long text in memory in a part of its size: in pages, of which those that were read last are
// there and the others are compressed. A short text is never compressed. See README.md.
package longtext

import (
	"bytes"
	"unicode/utf8"

	"github.com/klauspost/compress/s2"
)

const (
	pageBits = 16
	pageSize = 1 << pageBits
	// residentPages is how many pages are there uncompressed.
	residentPages = 128
)

// Text is a text. It is written once, and read then. It is not safe for concurrent use, not even for readers.
type Text struct {
	// whole is a text that is there as it is, which has no pages.
	whole []byte
	pages []page
	size  int
	// resident are the pages that are there, and hand is the next of them that may have to go.
	resident []int
	hand     int
	scratch  []byte
}

// page is a part of a text. Each is pageSize long but the last.
type page struct {
	// text is nil while the page is not there, and packed before it was away for the first time. A text is never changed
	// once the page is full, so that slices of it remain valid when the page goes.
	text, packed []byte
	// used says that the page was read since the hand came by.
	used bool
	// lines is how many lines end in a page that is full, and lineStart where the last line that begins in it does.
	lines, lineStart int
}

// Of returns a text that is there as a whole. It keeps the slice, which must not be changed.
func Of(whole []byte) *Text { return &Text{whole: whole, size: len(whole)} }

// Len returns the length of the text in bytes.
func (t *Text) Len() int { return t.size }

// Write adds to the end of a text that was not made by Of. It never fails.
func (t *Text) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		if t.size&(pageSize-1) == 0 {
			t.pages = append(t.pages, page{text: make([]byte, 0, pageSize)})
			t.admit(len(t.pages) - 1)
		}
		last := &t.pages[len(t.pages)-1]
		n := min(len(p), pageSize-len(last.text))
		last.text = append(last.text, p[:n]...)
		p = p[n:]
		if t.size += n; len(last.text) == pageSize {
			last.lines = bytes.Count(last.text, []byte{'\n'})
			last.lineStart = t.size - pageSize + bytes.LastIndexByte(last.text, '\n') + 1
		}
	}
	return written, nil
}

// admit makes room for a page that is there now.
func (t *Text) admit(n int) {
	t.pages[n].used = true
	if len(t.resident) < residentPages {
		t.resident = append(t.resident, n)
		return
	}
	for t.pages[t.resident[t.hand]].used {
		t.pages[t.resident[t.hand]].used = false
		t.hand = (t.hand + 1) % residentPages
	}
	gone := &t.pages[t.resident[t.hand]]
	if gone.packed == nil {
		if t.scratch == nil {
			t.scratch = make([]byte, s2.MaxEncodedLen(pageSize))
		}
		gone.packed = bytes.Clone(s2.Encode(t.scratch, gone.text))
	}
	gone.text = nil
	t.resident[t.hand] = n
	t.hand = (t.hand + 1) % residentPages
}

// page returns the text of a page.
func (t *Text) page(n int) []byte {
	p := &t.pages[n]
	if p.text == nil {
		text, err := s2.Decode(make([]byte, pageSize), p.packed)
		if err != nil {
			panic("longtext: a page cannot be read again: " + err.Error()) // it was never outside of memory
		}
		p.text = text
		t.admit(n)
	}
	p.used = true
	return p.text
}

// From returns the text from an offset on: all that is there in one piece, and at least one byte before the end of the
// text. It must not be changed.
func (t *Text) From(at int) []byte {
	switch {
	case at >= t.size:
		return nil
	case t.pages == nil:
		return t.whole[at:]
	default:
		return t.page(at >> pageBits)[at&(pageSize-1):]
	}
}

// Slice returns the text from an offset to another one. It must not be changed.
func (t *Text) Slice(from, to int) []byte {
	if t.pages == nil {
		return t.whole[from:to:to]
	}
	if from>>pageBits == (to-1)>>pageBits && from < to {
		start := from &^ (pageSize - 1)
		return t.page(from >> pageBits)[from-start : to-start : to-start]
	}
	out := make([]byte, 0, to-from)
	for from < to {
		piece := t.From(from)
		piece = piece[:min(len(piece), to-from)]
		out = append(out, piece...)
		from += len(piece)
	}
	return out
}

// Has reports whether the text has a string at an offset, and a byte after it.
func (t *Text) Has(at int, text string, after byte) bool {
	end := at + len(text)
	if end >= t.size {
		return false
	}
	var piece []byte
	switch {
	case t.pages == nil:
		piece = t.whole[at : end+1]
	case at>>pageBits == end>>pageBits:
		p := &t.pages[at>>pageBits]
		if p.text == nil {
			t.page(at >> pageBits)
		}
		p.used = true
		piece = p.text[at&(pageSize-1) : end&(pageSize-1)+1]
	default:
		piece = t.Slice(at, end+1)
	}
	return piece[len(text)] == after && string(piece[:len(text)]) == text
}

// Bytes returns the whole text in one piece. It must not be changed.
func (t *Text) Bytes() []byte { return t.Slice(0, t.size) }

// Place returns the line and column of an offset, both from 1. Columns count bytes.
func (t *Text) Place(at int) (line, column int) {
	at = min(at, t.size)
	if t.pages == nil {
		before := t.whole[:at]
		return 1 + bytes.Count(before, []byte{'\n'}), len(before) - bytes.LastIndexByte(before, '\n')
	}
	line, start := 1, 0
	for i := range at >> pageBits {
		if p := &t.pages[i]; p.lines > 0 {
			line, start = line+p.lines, p.lineStart
		}
	}
	if rest := at & (pageSize - 1); rest > 0 {
		before := t.page(at >> pageBits)[:rest]
		if n := bytes.Count(before, []byte{'\n'}); n > 0 {
			line, start = line+n, at-rest+bytes.LastIndexByte(before, '\n')+1
		}
	}
	return line, at - start + 1
}

// FirstInvalid returns the offset of the first byte that is not UTF-8; −1 if all are.
func (t *Text) FirstInvalid() int {
	for at := 0; at < t.size; {
		piece := t.From(at)
		if utf8.Valid(piece) {
			at += len(piece)
			continue
		}
		for len(piece) > 0 {
			r, size := utf8.DecodeRune(piece)
			if r == utf8.RuneError && size == 1 {
				// The character may go on in the next page.
				if r, size = utf8.DecodeRune(t.Slice(at, min(at+utf8.UTFMax, t.size))); r == utf8.RuneError && size == 1 {
					return at
				}
				at += size
				break
			}
			at += size
			piece = piece[size:]
		}
	}
	return -1
}
