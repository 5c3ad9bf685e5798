package fulltext

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// text returns a word by its number.
func (s *Segment) text(i int) []byte {
	start := 0
	if i > 0 {
		start = number(s.textEnds, i-1)
	}
	return s.texts[start:number(s.textEnds, i)]
}

// from returns the number of the first word that is not before a text.
func (s *Segment) from(text []byte) int {
	low, high := 0, s.words
	for low < high {
		middle := int(uint(low+high) >> 1)
		if bytes.Compare(s.text(middle), text) < 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// find returns the number of a word with this hash, or -1.
func (s *Segment) find(text []byte, hash uint64) int {
	if !s.known.mayHave(hash) {
		return -1
	}
	if i := s.from(text); i < s.words && bytes.Equal(s.text(i), text) {
		return i
	}
	return -1
}

// list returns where the documents of a word begin among the postings, and how many there are.
func (s *Segment) list(i int) (at, count int) {
	if i > 0 {
		at = number(s.postingEnds, i-1)
	}
	if n := s.postings[at]; n < 0x80 {
		return at + 1, int(n)
	}
	n, size := binary.Uvarint(s.postings[at:])
	return at + size, int(n) //nolint:gosec // it is at most the number of documents
}

// withPrefix calls a function with the words that begin with a text and are longer, in ascending order.
func (s *Segment) withPrefix(text []byte, limit int, found func(i int)) {
	for i := s.from(text); i < s.words && limit > 0; i++ {
		w := s.text(i)
		if !bytes.HasPrefix(w, text) {
			return
		}
		if len(w) > len(text) {
			found(i)
			limit--
		}
	}
}

// similar calls a function with the words that begin with the same byte as a text and differ from it by one typing
// error, in ascending order.
func (s *Segment) similar(text []byte, limit int, found func(i int)) {
	for i := s.from(text[:1]); i < s.words && limit > 0; i++ {
		w := s.text(i)
		if w[0] != text[0] {
			return
		}
		if oneError(w, text) {
			found(i)
			limit--
		}
	}
}

// oneError reports whether two words differ by one character: one more, one less, another, or two in the wrong order.
func oneError(a, b []byte) bool {
	if d := len(a) - len(b); d > utf8.UTFMax || d < -utf8.UTFMax {
		return false
	}
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	for start > 0 && (start < len(a) && !utf8.RuneStart(a[start]) || start < len(b) && !utf8.RuneStart(b[start])) {
		start--
	}
	a, b = a[start:], b[start:]
	end := 0
	for end < len(a) && end < len(b) && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	for end > 0 && (!utf8.RuneStart(a[len(a)-end]) || !utf8.RuneStart(b[len(b)-end])) {
		end--
	}
	a, b = a[:len(a)-end], b[:len(b)-end]
	if len(a) == 0 && len(b) == 0 {
		return false
	}
	first, n := utf8.DecodeRune(a)
	other, m := utf8.DecodeRune(b)
	if len(a) == n && len(b) == m {
		return true
	}
	second, l := utf8.DecodeRune(a[n:])
	another, k := utf8.DecodeRune(b[m:])
	return len(a) == n+l && len(b) == m+k && first == another && second == other
}
