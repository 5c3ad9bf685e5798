package fulltext

import (
	"bytes"
	"unicode/utf8"
)

// Limits of queries.
const (
	// maxQuery is how much of a query is read, in bytes.
	maxQuery = 1 << 10
	// maxGroups is how many different words of a query count; each has a bit of a cell. maxTerms is how many words are
	// looked for, with synonyms.
	maxGroups = 32
	maxTerms  = 96
	// maxVisits is how many postings a search visits. It bounds its time in a large catalog.
	maxVisits = 300_000
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
	// implied is true of words that the query does not have or that only narrow another: documents without them have no
	// less of the query.
	implied bool
	// share is its part of the query when it is measured how much of that a document has.
	share float32
}

// term is a word that is looked for.
type term struct {
	text  []byte
	hash  uint64
	group int
	// weight is that of the term in place of the word, and rarity that of the group, or its own if it is more.
	weight, rarity float32
	kind           termKind
	// found is how many documents have it.
	found int
}

// termKind is why a term is looked for.
type termKind uint8

const (
	ownTerm termKind = iota
	otherTerm
	joinedTerm
	prefixTerm
)

// parse reads the words of a query. Any text is a query.
func (s *scratch) parse(text string) {
	s.groups, s.terms, s.texts, s.raw = s.groups[:0], s.terms[:0], s.texts[:0], s.raw[:0]
	text = text[:min(len(text), maxQuery)]
	for _, w := range s.splitter.split(text, maxQuery, false) {
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
	languages := s.languagesOf()
	for i, w := range s.raw {
		if !stopWord(w) && s.foreign[string(w)].stops&languages == 0 && !s.joins(i) {
			s.addGroup(i, unfinished && i == last)
		}
	}
	if len(s.raw) > 1 {
		s.addImplied(s.raw[0])
	}
	if len(s.groups) == 0 && unfinished {
		// A word such as "in" may be the beginning of another.
		s.addGroup(last, true)
	}
}

// joins reports that a word is only the beginning of the one that it makes with the next: e-mail.
func (s *scratch) joins(i int) bool {
	return string(s.raw[i]) == "e" && i+1 < len(s.raw) && bytes.HasPrefix(s.raw[i+1], []byte("mail"))
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
	g.implied = i+1 < len(s.raw) && narrows(raw, s.raw[i+1])
	s.addTerm(own, 1, ownTerm)
	if unfinished {
		s.addTerm(s.keep(raw), prefixWeight, prefixTerm)
	}
	// Words are written together and apart: web hook, on call, GitHub.
	if i > 0 {
		s.addTerm(stem(s.keep(s.raw[i-1], raw)), joinedWeight, joinedTerm)
	}
	if i+1 < len(s.raw) {
		s.addTerm(stem(s.keep(raw, s.raw[i+1])), joinedWeight, joinedTerm)
	}
	for _, other := range s.synonyms[string(own)] {
		s.addTerm(s.keep([]byte(other.stem)), other.weight, otherTerm)
	}
	for _, english := range s.foreign[string(raw)].english {
		s.addTerm(s.keep([]byte(english.stem)), english.weight, otherTerm)
	}
	g.end = len(s.terms)
	if g.implied {
		for j := range s.terms[g.first:] {
			s.terms[g.first+j].weight *= narrowingWeight
		}
	}
	s.groups = append(s.groups, g)
}

// narrows reports pairs of words of which documents often have the second alone.
func narrows(first, second []byte) bool {
	switch string(first) {
	case "mailing":
		return bytes.HasPrefix(second, []byte("list"))
	case "phone":
		return bytes.HasPrefix(second, []byte("call"))
	case "text", "chat", "direct", "private":
		return bytes.HasPrefix(second, []byte("message"))
	case "calendar":
		return bytes.HasPrefix(second, []byte("event"))
	case "credit", "debit":
		return bytes.HasPrefix(second, []byte("card"))
	}
	return false
}

// addImplied adds that a query is about creating or changing something, if its first word says so with the name of the
// thing: "comment on an issue".
func (s *scratch) addImplied(first []byte) {
	switch string(first) {
	case "approve", "assign", "book", "call", "charge", "comment", "deploy", "email", "invite", "like", "mail", "message",
		"note", "order", "pay", "pin", "react", "refund", "reply", "share", "star", "subscribe", "tag", "text", "transfer",
		"tweet", "watch":
	default:
		return
	}
	if len(s.groups) == maxGroups {
		return
	}
	g := group{first: len(s.terms), implied: true}
	for _, kind := range []string{"create", "add", "send", "update", "insert", "post", "set"} {
		s.addTerm(stem(s.keep([]byte(kind))), impliedWeight, otherTerm)
	}
	if g.end = len(s.terms); g.end > g.first {
		s.groups = append(s.groups, g)
	}
}

// addTerm adds a term of the group that is being added. A text is a term of one group only, the one in which it weighs
// most: a document that has it has one of the words, not both.
func (s *scratch) addTerm(text []byte, weight float32, kind termKind) {
	if len(s.terms) == maxTerms || len(text) > maxWord {
		return
	}
	if kind == ownTerm || kind == otherTerm {
		for i := range s.terms {
			if t := &s.terms[i]; string(t.text) == string(text) && (t.kind == ownTerm || t.kind == otherTerm) {
				if t.weight >= weight {
					return
				}
				t.weight = 0
			}
		}
	}
	s.terms = append(s.terms, term{text: text, hash: hashOf(text), group: len(s.groups), weight: weight, kind: kind})
}

// keep copies texts into one that is valid until the next query.
func (s *scratch) keep(texts ...[]byte) []byte {
	at := len(s.texts)
	for _, text := range texts {
		s.texts = append(s.texts, text...)
	}
	return s.texts[at:len(s.texts):len(s.texts)]
}
