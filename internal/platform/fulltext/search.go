package fulltext

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
)

// Limits of the hits of a search.
const (
	// DefaultLimit is how many hits a search returns that does not say it, and MaxLimit how many it can ask for.
	DefaultLimit = 20
	MaxLimit     = 1000
)

// Options say what a search returns.
type Options struct {
	// Limit is how many hits are returned; 0 is DefaultLimit, and more than MaxLimit is MaxLimit.
	Limit int
	// Accept leaves out documents for which it returns false. It is called for those only that would be among the hits.
	Accept func(segment, doc int) bool
	// Boosts multiply the scores of the documents of each segment; segments without one have 1. A segment whose boost is
	// not positive is left out.
	Boosts []float32
}

// scratch is the memory of a search, for the next one.
type scratch struct {
	splitter *splitter
	synonyms map[string][]synonym
	foreign  map[string]foreign
	raw      [][]byte
	texts    []byte
	groups   []group
	terms    []term
	// found are the terms that are in segments, in the order of the segments; typos are the same for similar words.
	found, typos []foundTerm
	cells        []cell
	touched      []uint32
	// bonuses and factors are those of the fields that have a word, by their bits.
	bonuses, factors [256]float32
	top              []Hit
}

// foundTerm says that a segment has a term: where its postings begin, and how many there are.
type foundTerm struct{ segment, term, at, count uint32 }

// cell is what is known of a document of the segment that is being searched.
type cell struct {
	// score is the sum of all groups, and last is what the last group that the document has contributes.
	score, last float32
	// share is that of the groups that the document has, and groups has a bit for each.
	share  float32
	groups uint32
	// named and titled are how many groups are in the name and the title; lastPlaces are those of the last group.
	named, titled, lastPlaces byte
}

// Searcher searches segments. It is safe for concurrent use, and keeps the memory of searches for the next ones.
type Searcher struct{ scratches sync.Pool }

// NewSearcher returns a searcher. A process needs one.
func NewSearcher() *Searcher {
	synonyms := readSynonyms()
	foreign := readForeign(synonyms)
	return &Searcher{sync.Pool{New: func() any { return newScratch(synonyms, foreign) }}}
}

func newScratch(synonyms map[string][]synonym, foreign map[string]foreign) *scratch {
	s := &scratch{splitter: newSplitter(), synonyms: synonyms, foreign: foreign}
	for places := range s.bonuses {
		if places&(1<<inProvider) != 0 {
			s.bonuses[places] += providerBonus
		}
		if places&(1<<inKind) != 0 {
			s.bonuses[places] += kindBonus
		}
		if places&(1<<inHead) != 0 {
			s.factors[places] += headFactor
		}
	}
	return s
}

// Search returns the documents of all segments that match a query best, the best first. A query is a text; no part of
// it has a meaning of its own. Documents of the same score are in the order of the segments, and in that of their
// numbers. How rare a word is follows from all segments together, so that scores of different segments can be compared.
func (r *Searcher) Search(segments []*Segment, query string, o Options) []Hit {
	s, _ := r.scratches.Get().(*scratch)
	s.parse(query)
	s.find(segments)
	s.limit()
	s.weigh(segments)
	s.top = s.top[:0]
	limit := o.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	limit = min(limit, MaxLimit)
	found, typos := s.found, s.typos
	for i, segment := range segments {
		boost := float32(1)
		if i < len(o.Boosts) {
			boost = o.Boosts[i]
		}
		matched := false
		for _, list := range []*[]foundTerm{&found, &typos} {
			for len(*list) > 0 && int((*list)[0].segment) == i {
				if boost > 0 {
					s.score(segment, (*list)[0])
					matched = true
				}
				*list = (*list)[1:]
			}
		}
		if matched {
			s.collect(segment, i, boost, limit, o.Accept)
		}
	}
	slices.SortFunc(s.top, compare)
	hits := append([]Hit(nil), s.top...)
	// Not deferred: after a panic of Accept, the cells are not clear.
	r.scratches.Put(s)
	return hits
}

// find looks for all terms in all segments.
func (s *scratch) find(segments []*Segment) {
	s.found, s.typos = s.found[:0], s.typos[:0]
	for i, segment := range segments {
		for j := range s.terms {
			t := &s.terms[j]
			if t.weight == 0 {
				continue
			}
			if t.kind == prefixTerm {
				segment.withPrefix(t.text, maxPrefixed, func(word int) { s.found = s.add(s.found, i, segment, j, word) })
			} else if word := segment.find(t.text, t.hash); word >= 0 {
				s.found = s.add(s.found, i, segment, j, word)
			}
		}
	}
	typos := 0
	for _, g := range s.groups {
		nowhere := g.characters >= shortestTypo && typos < maxTypos
		for _, t := range s.terms[g.first:g.end] {
			nowhere = nowhere && t.found == 0
		}
		if nowhere {
			typos++
			s.findSimilar(segments, g.first)
		}
	}
	slices.SortStableFunc(s.typos, func(a, b foundTerm) int { return cmp.Compare(a.segment, b.segment) })
}

// findSimilar looks for words that are similar to a term.
func (s *scratch) findSimilar(segments []*Segment, of int) {
	t := &s.terms[of]
	t.weight = typoWeight
	for i, segment := range segments {
		segment.similar(t.text, maxSimilar, func(word int) { s.typos = s.add(s.typos, i, segment, of, word) })
	}
}

// add adds that a segment has a term as a word.
func (s *scratch) add(to []foundTerm, number int, segment *Segment, term, word int) []foundTerm {
	at, count := segment.list(word)
	s.terms[term].found += count
	//nolint:gosec // a segment has less than 4 GiB, and the others are smaller
	return append(to, foundTerm{uint32(number), uint32(term), uint32(at), uint32(count)})
}

// limit leaves out the most frequent terms as long as a search would visit too many postings: synonyms first.
func (s *scratch) limit() {
	for {
		visits := 0
		var other, own *term
		for i := range s.terms {
			t := &s.terms[i]
			if t.weight == 0 {
				continue
			}
			visits += t.found
			if t.kind != ownTerm && (other == nil || t.found > other.found) {
				other = t
			} else if t.kind == ownTerm && (own == nil || t.found > own.found) {
				own = t
			}
		}
		if visits <= maxVisits {
			return
		}
		// Own terms alone are too many only if there are several.
		if other == nil || other.found == 0 {
			other = own
		}
		other.weight = 0
	}
}

// weigh sets the weights of the groups. A word that is nowhere counts as often as that which is found in its place.
func (s *scratch) weigh(segments []*Segment) {
	all := 0
	for _, segment := range segments {
		all += segment.docs
	}
	total := float32(0)
	for i := range s.groups {
		g := &s.groups[i]
		terms := s.terms[g.first:g.end]
		have, active := terms[0].found, false
		for _, t := range terms {
			active = active || t.weight > 0 && t.found > 0
		}
		if have == 0 {
			for _, t := range terms {
				have = max(have, t.found)
			}
		}
		usual := rarity(have, all)
		if g.share = 0; active && !g.implied {
			g.share = max(usual, leastWeight)
		}
		total += g.share
		for j := range terms {
			t := &terms[j]
			t.rarity = usual
			if t.kind == joinedTerm && t.found > 0 {
				t.rarity = max(usual, rarity(t.found, all))
			}
		}
	}
	for i := range s.groups {
		s.groups[i].share /= max(total, leastWeight)
	}
}

// score adds what a term contributes to the documents of a segment. A document counts the best term of each group; the
// terms of a group come one after the other.
func (s *scratch) score(segment *Segment, f foundTerm) {
	if len(s.cells) < segment.docs {
		s.cells = make([]cell, segment.docs)
	}
	t := &s.terms[f.term]
	if t.weight == 0 {
		return
	}
	g := &s.groups[t.group]
	bit := uint32(1) << t.group
	list := segment.postings[f.at:]
	doc := -1
	for range f.count {
		step := int(list[0])
		if step < 0x80 {
			list = list[1:]
		} else {
			long, n := binary.Uvarint(list)
			step, list = int(long), list[n:] //nolint:gosec // at most the number of documents
		}
		doc += step
		places := list[1]
		contribution := t.weight * (t.rarity*(float32(list[0])/255+s.factors[places]) + s.bonuses[places])
		list = list[2:]
		c := &s.cells[doc]
		if c.groups&bit == 0 {
			if c.groups == 0 {
				s.touched = append(s.touched, uint32(doc)) //nolint:gosec // at most maxDocuments
			}
			c.groups |= bit
			c.share += g.share
			c.last, c.lastPlaces = 0, 0
		}
		if contribution > c.last {
			c.score += contribution - c.last
			c.last = contribution
		}
		gained := places &^ c.lastPlaces
		c.named += gained >> inName & 1
		c.titled += gained >> inTitle & 1
		c.lastPlaces |= places
	}
}

// collect moves the best documents of a segment to the hits, and clears the cells.
func (s *scratch) collect(segment *Segment, number int, boost float32, limit int, accept func(int, int) bool) {
	for _, doc := range s.touched {
		c := s.cells[doc]
		s.cells[doc] = cell{}
		h := Hit{number, int(doc), float64(c.score * s.factor(segment, int(doc), &c) * boost)}
		if len(s.top) == limit && !before(h, s.top[0]) || accept != nil && !accept(number, int(doc)) {
			continue
		}
		s.push(h, limit)
	}
	s.touched = s.touched[:0]
}

// factor is what the sum of a document is multiplied by: for how much of the query it has, how much of its name or
// title the query has, and its prior.
func (s *scratch) factor(segment *Segment, doc int, c *cell) float32 {
	complete := unmatchedShare + (1-unmatchedShare)*c.share*c.share
	exact := max(part(c.named, segment.names[doc]), part(c.titled, segment.titles[doc]))
	return complete * (1 + exactBonus*exact) * priorFactor(segment.priors[doc])
}

func part(of, all byte) float32 {
	if of >= all {
		return min(float32(all), 1)
	}
	return float32(of) / float32(all)
}

// compare orders hits, the best first.
func compare(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.Doc, b.Doc))
}

// before reports whether a hit comes before another.
func before(a, b Hit) bool { return a.Score > b.Score || a.Score == b.Score && compare(a, b) < 0 }

// push adds a hit to the heap of the best, whose first is the last of them.
func (s *scratch) push(h Hit, limit int) {
	if len(s.top) < limit {
		s.top = append(s.top, h)
		for i := len(s.top) - 1; i > 0; {
			parent := (i - 1) / 2
			if !before(s.top[parent], s.top[i]) {
				break
			}
			s.top[parent], s.top[i] = s.top[i], s.top[parent]
			i = parent
		}
		return
	}
	s.top[0] = h
	for i := 0; ; {
		last := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < len(s.top) && before(s.top[last], s.top[child]) {
				last = child
			}
		}
		if last == i {
			return
		}
		s.top[i], s.top[last] = s.top[last], s.top[i]
		i = last
	}
}
