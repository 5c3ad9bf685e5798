package fulltext

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Limits of words.
const (
	// maxWord is the length of the longest word in bytes. Longer ones are cut, in documents and in queries.
	maxWord = 40
	// maxText is how much of a field is read, in bytes.
	maxText = 8 << 10
)

// word is a word of a text, in lower case and without marks. It is in the buffer of the splitter that found it.
type word struct {
	text []byte
	// whole is true of a word in camel case that is there in addition to its parts.
	whole bool
}

// splitter splits texts into words. It reuses its memory, and is not safe for concurrent use.
type splitter struct {
	words []word
	buf   []byte
	fold  cases.Caser
}

func newSplitter() *splitter { return &splitter{fold: cases.Fold()} }

// split returns the words of a text, at most limit. They are valid until the next call. Scripts without spaces become
// pairs of characters; with singles, each character, too.
func (s *splitter) split(text string, limit int, singles bool) []word {
	s.words, s.buf = s.words[:0], s.buf[:0]
	text = plain(text)
	for at := 0; at < len(text) && len(s.words) < limit; {
		r, size := utf8.DecodeRuneInString(text[at:])
		switch {
		case withoutSpaces(r):
			end := spanOf(text, at, withoutSpaces)
			s.addPairs(text[at:end], singles)
			at = end
		case isLetter(r):
			at = s.addWord(text, at)
		default:
			at += size
		}
	}
	return s.words[:min(len(s.words), limit)]
}

// plain returns a text in compatibility form, without marks that letters can be without.
func plain(text string) string {
	ascii := true
	for i := 0; i < len(text) && ascii; i++ {
		ascii = text[i] < utf8.RuneSelf
	}
	if ascii {
		return text
	}
	decomposed := norm.NFKD.String(text)
	kept := make([]byte, 0, len(decomposed))
	for at := 0; at < len(decomposed); {
		r, size := utf8.DecodeRuneInString(decomposed[at:])
		if !optionalMark(r) {
			kept = append(kept, decomposed[at:at+size]...)
		}
		at += size
	}
	return norm.NFC.String(string(kept))
}

// optionalMark reports accents, and the points of Hebrew and Arabic. Other marks, such as vowels of Indic scripts and
// the voicing of kana, make another word.
func optionalMark(r rune) bool {
	return r >= 0x0300 && r <= 0x036f || r >= 0x0591 && r <= 0x05c7 && unicode.Is(unicode.Mn, r) ||
		r >= 0x064b && r <= 0x065f || r == 0x0670 || r >= 0x1ab0 && r <= 0x1aff || r >= 0x1dc0 && r <= 0x1dff ||
		r >= 0x20d0 && r <= 0x20ff
}

func isLetter(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	}
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r))
}

func withoutSpaces(r rune) bool {
	return r >= 0x0e00 && r != utf8.RuneError && (r == 0x30fc || unicode.In(r, unicode.Han, unicode.Hiragana,
		unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar))
}

// spanOf returns where the characters of a kind end that begin at a place.
func spanOf(text string, at int, is func(rune) bool) int {
	for at < len(text) {
		r, size := utf8.DecodeRuneInString(text[at:])
		if !is(r) {
			break
		}
		at += size
	}
	return at
}

// genitive is the length of an 's or the like at the beginning of a text.
func genitive(text string) int {
	for _, mark := range []string{"'", "’"} {
		if len(text) > len(mark) && text[:len(mark)] == mark {
			rest := text[len(mark):]
			next, _ := utf8.DecodeRuneInString(rest[1:])
			if (rest[0] == 's' || rest[0] == 't') && !isLetter(next) {
				return len(mark) + 1
			}
		}
	}
	return 0
}

// addPairs adds the pairs of neighbours in a run of a script without spaces.
func (s *splitter) addPairs(run string, singles bool) {
	previous := -1
	for at, r := range run {
		size := utf8.RuneLen(r)
		if singles || len(run) == size {
			s.addPair(run[at : at+size])
		}
		if previous >= 0 {
			s.addPair(run[previous : at+size])
		}
		previous = at
	}
}

func (s *splitter) addPair(text string) {
	at := len(s.buf)
	s.buf = append(s.buf, text...)
	s.words = append(s.words, word{text: s.buf[at:len(s.buf):len(s.buf)]})
}

// addWord adds the word that begins at a place, and returns where it ends. One that has two parts, with a hyphen or in
// camel case, is also added as a whole: on-call, GitHub.
func (s *splitter) addWord(text string, at int) int {
	inWord := func(r rune) bool { return isLetter(r) && !withoutSpaces(r) }
	start, parts := at, 0
	for {
		end := spanOf(text, at, inWord)
		for first := at; at < end; parts++ {
			next := partOf(text[first:end], at-first) + first
			s.add(text[at:next], false)
			at = next
		}
		if end+1 >= len(text) || text[end] != '-' || spanOf(text, end+1, inWord) == end+1 {
			break
		}
		at = end + 1
	}
	if parts == 2 {
		s.add(strings.Replace(text[start:at], "-", "", 1), true)
	}
	return at + genitive(text[at:])
}

// partOf returns where the part of a word in camel case ends that begins at a place. Digits belong to the letters
// before them: OAuth2, v2, S3.
func partOf(text string, at int) int {
	previous, first := utf8.DecodeRuneInString(text[at:])
	for at += first; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		next, _ := utf8.DecodeRuneInString(text[at+size:])
		// The first letter of a word is no part: OAuth, iPhone.
		if unicode.IsUpper(r) && at != first && (unicode.IsLower(previous) ||
			(unicode.IsUpper(previous) || unicode.IsNumber(previous)) && unicode.IsLower(next)) {
			return at
		}
		previous = r
		at += size
	}
	return at
}

func (s *splitter) add(text string, whole bool) {
	at := len(s.buf)
	ascii := true
	for i := range len(text) {
		c := text[i]
		if c >= utf8.RuneSelf {
			ascii = false
			break
		}
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		s.buf = append(s.buf, c)
	}
	if !ascii {
		s.buf = append(s.buf[:at], s.fold.String(text)...)
	}
	s.buf = s.buf[:at+len(cut(s.buf[at:]))]
	s.words = append(s.words, word{text: s.buf[at:len(s.buf):len(s.buf)], whole: whole})
}

// cut returns the beginning of a word that is too long, up to the end of a character.
func cut(w []byte) []byte {
	if len(w) <= maxWord {
		return w
	}
	end := maxWord
	for end > 0 && !utf8.RuneStart(w[end]) {
		end--
	}
	return w[:end]
}
