package fulltext

import (
	"sync"
	"unicode/utf8"
)

// Limits of queries.
const (
	// MaxQuery is how much of a query is read, in bytes.
	MaxQuery = 1 << 10
	// maxGroups is how many different words of a query count; each has a bit of a cell. maxTerms is how many words are
	// looked for, with synonyms.
	maxGroups = 32
	maxTerms  = 96
	// maxPrefixed is how many words of a segment that begin with the last word of a query count, and shortestPrefix the
	// fewest characters of that.
	maxPrefixed    = 24
	shortestPrefix = 2
	// maxTypos is for how many words of a query that are nowhere similar ones are looked for, maxSimilar how many of a
	// segment count, and shortestTypo the fewest characters of such a word.
	maxTypos     = 2
	maxSimilar   = 4
	shortestTypo = 5
)

// group is a word of a query, with the terms that are found in its place: one of them is enough.
type group struct {
	// first and end are its terms; the first is the word itself.
	first, end int
	characters int
	// rarity is its weight in scores, and share its part of the query when it is measured how much of that a document
	// has.
	rarity, share float32
}

// term is a word that is looked for.
type term struct {
	text   []byte
	group  int
	weight float32
	prefix bool
	// found is how many documents have it.
	found int
}

// synonymTable is read once, because it is the same for all queries.
var synonymTable = sync.OnceValue(readSynonyms)

// parse reads the words of a query. Any text is a query.
func (s *scratch) parse(text string) {
	s.groups, s.terms, s.texts, s.raw = s.groups[:0], s.terms[:0], s.texts[:0], s.raw[:0]
	text = text[:min(len(text), MaxQuery)]
	for _, w := range s.splitter.split(text, MaxQuery, false) {
		if !w.whole {
			s.raw = append(s.raw, w.text)
		}
	}
	last := len(s.raw) - 1
	if last < 0 {
		return
	}
	r, _ := utf8.DecodeLastRuneInString(text)
	unfinished := isLetter(r) && utf8.RuneCount(s.raw[last]) >= shortestPrefix
	for i, w := range s.raw {
		if !stopWord(w) {
			s.addGroup(i, unfinished && i == last)
		}
	}
	if len(s.groups) == 0 && unfinished {
		// A word such as "in" may be the beginning of another.
		s.addGroup(last, true)
	}
}

// addGroup adds a word of a query with its terms, unless it is there or there are too many.
func (s *scratch) addGroup(i int, unfinished bool) {
	raw := s.raw[i]
	own := stem(s.keep(raw))
	for _, g := range s.groups {
		if string(s.terms[g.first].text) == string(own) {
			return
		}
	}
	if len(s.groups) == maxGroups || len(s.terms) >= maxTerms {
		return
	}
	g := group{first: len(s.terms), characters: utf8.RuneCount(raw)}
	s.addTerm(own, 1, false)
	if unfinished {
		s.addTerm(s.keep(raw), prefixWeight, true)
	}
	// Words are written together and apart: web hook, on call, GitHub.
	if i > 0 {
		s.addTerm(stem(s.keep(s.raw[i-1], raw)), joinedWeight, false)
	}
	if i+1 < len(s.raw) {
		s.addTerm(stem(s.keep(raw, s.raw[i+1])), joinedWeight, false)
	}
	for _, other := range synonymTable()[string(own)] {
		s.addTerm(s.keep([]byte(other.stem)), other.weight, false)
	}
	g.end = len(s.terms)
	s.groups = append(s.groups, g)
}

// addTerm adds a term of the group that is being added.
func (s *scratch) addTerm(text []byte, weight float32, prefix bool) {
	if len(s.terms) < maxTerms && len(text) <= maxWord {
		s.terms = append(s.terms, term{text: text, group: len(s.groups), weight: weight, prefix: prefix})
	}
}

// keep copies texts into one that is valid until the next query.
func (s *scratch) keep(texts ...[]byte) []byte {
	at := len(s.texts)
	for _, text := range texts {
		s.texts = append(s.texts, text...)
	}
	return s.texts[at:len(s.texts):len(s.texts)]
}
