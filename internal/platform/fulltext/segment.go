package fulltext

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// version is that of the format, of the words and of the numbers of the ranking that are in a segment.
const version = 1

// ErrVersion is the error of Decode for a segment that another version of this package wrote. It is to be built again.
var ErrVersion = errors.New("the segment has another version and must be built again")

// ErrCorrupt is the error of Decode for bytes that are no segment, or of which some have changed.
var ErrCorrupt = errors.New("the bytes are no valid segment")

// The form of a segment. All numbers are little-endian. After the header there are: the priors and the numbers of words
// in names and titles, a byte for each document; for each word where its text and its postings end, as two arrays of
// 32-bit numbers; the texts of the words, in ascending order; the postings. A list of postings has the number of
// documents, and for each of them the difference to the one before (both as unsigned varints), the impact and the
// fields.
const (
	magic = "SFT\x00"
	// Places in the header. The checksum is that of all that follows it.
	atVersion  = 4
	atChecksum = 8
	atDocs     = 12
	atWords    = 16
	atTexts    = 20
	atPostings = 24
	headerSize = 28
)

// Segment is an immutable set of documents that can be searched. It is safe for concurrent use.
type Segment struct {
	all         []byte
	docs, words int
	// priors, names and titles have a byte for each document: its prior, and how many words its name and title have.
	priors, names, titles []byte
	textEnds, postingEnds []byte
	texts, postings       []byte
	known                 filter
}

// newSegment makes a segment of words in ascending order.
func newSegment(priors, names, titles []byte, words []string, lists func(string) []posting) *Segment {
	var texts, postings []byte
	textEnds, postingEnds := make([]byte, 0, 4*len(words)), make([]byte, 0, 4*len(words))
	for _, w := range words {
		texts = append(texts, w...)
		list := lists(w)
		postings = binary.AppendUvarint(postings, uint64(len(list)))
		previous := -1
		for _, p := range list {
			postings = binary.AppendUvarint(postings, uint64(int(p.doc)-previous)) //nolint:gosec // documents ascend
			postings = append(postings, p.impact, p.places)
			previous = int(p.doc)
		}
		textEnds = binary.LittleEndian.AppendUint32(textEnds, uint32(len(texts)))          //nolint:gosec // see below
		postingEnds = binary.LittleEndian.AppendUint32(postingEnds, uint32(len(postings))) //nolint:gosec // see below
	}
	// A document has less than 200 words of at most maxWord bytes: the ends of those of maxDocuments fit into 32 bits.
	all := make([]byte, headerSize, headerSize+3*len(priors)+8*len(words)+len(texts)+len(postings))
	copy(all, magic)
	binary.LittleEndian.PutUint32(all[atVersion:], version)
	for at, n := range map[int]int{atDocs: len(priors), atWords: len(words), atTexts: len(texts),
		atPostings: len(postings)} {
		binary.LittleEndian.PutUint32(all[at:], uint32(n)) //nolint:gosec // see above
	}
	for _, part := range [][]byte{priors, names, titles, textEnds, postingEnds, texts, postings} {
		all = append(all, part...)
	}
	binary.LittleEndian.PutUint32(all[atChecksum:], checksum(all))
	s := open(all)
	s.fillFilter()
	return s
}

func checksum(all []byte) uint32 {
	return crc32.Checksum(all[atDocs:], crc32.MakeTable(crc32.Castagnoli))
}

// open finds the parts of a segment by its header.
func open(all []byte) *Segment {
	number := func(at int) int { return int(binary.LittleEndian.Uint32(all[at:])) }
	s := &Segment{all: all, docs: number(atDocs), words: number(atWords)}
	rest := all[headerSize:]
	take := func(n int) []byte {
		part := rest[:n:n]
		rest = rest[n:]
		return part
	}
	s.priors, s.names, s.titles = take(s.docs), take(s.docs), take(s.docs)
	s.textEnds, s.postingEnds = take(4*s.words), take(4*s.words)
	s.texts, s.postings = take(number(atTexts)), take(number(atPostings))
	return s
}

// Len returns the number of documents.
func (s *Segment) Len() int { return s.docs }

// Size returns the number of bytes that the segment has in memory.
func (s *Segment) Size() int { return len(s.all) + 8*len(s.known) }

// Append appends the segment in the form that Decode reads.
func (s *Segment) Append(to []byte) []byte { return append(to, s.all...) }

// Decode returns the segment that Append wrote. It keeps the bytes, which must not change any more. Errors are
// ErrVersion and ErrCorrupt.
func Decode(all []byte) (*Segment, error) {
	if len(all) < headerSize || string(all[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: it does not begin as one", ErrCorrupt)
	}
	if v := binary.LittleEndian.Uint32(all[atVersion:]); v != version {
		return nil, fmt.Errorf("%w: version %d instead of %d", ErrVersion, v, version)
	}
	if binary.LittleEndian.Uint32(all[atChecksum:]) != checksum(all) {
		return nil, fmt.Errorf("%w: its checksum differs", ErrCorrupt)
	}
	size := uint64(headerSize)
	for at, each := range map[int]uint64{atDocs: 3, atWords: 8, atTexts: 1, atPostings: 1} {
		size += each * uint64(binary.LittleEndian.Uint32(all[at:]))
	}
	if size != uint64(len(all)) || binary.LittleEndian.Uint32(all[atDocs:]) > maxDocuments {
		return nil, fmt.Errorf("%w: its size is %d bytes, not %d", ErrCorrupt, len(all), size)
	}
	s := open(all)
	if err := s.check(); err != nil {
		return nil, err
	}
	s.fillFilter()
	return s, nil
}

// fillFilter makes the filter, which is not among the bytes of a segment.
func (s *Segment) fillFilter() {
	s.known = newFilter(s.words)
	for i := range s.words {
		s.known.add(hashOf(s.text(i)))
	}
}

// check proves what searches rely on, so that they need no checks of their own.
func (s *Segment) check() error {
	textEnd, postingEnd := 0, 0
	var previous []byte
	for i := range s.words {
		nextText, nextPosting := number(s.textEnds, i), number(s.postingEnds, i)
		if nextText <= textEnd || nextText > len(s.texts) || nextText-textEnd > maxWord ||
			nextPosting <= postingEnd || nextPosting > len(s.postings) {
			return fmt.Errorf("%w: word %d has no valid place", ErrCorrupt, i)
		}
		text := s.texts[textEnd:nextText]
		if string(previous) >= string(text) {
			return fmt.Errorf("%w: word %d is not in order", ErrCorrupt, i)
		}
		if !s.checkList(s.postings[postingEnd:nextPosting]) {
			return fmt.Errorf("%w: word %d has no valid documents", ErrCorrupt, i)
		}
		previous, textEnd, postingEnd = text, nextText, nextPosting
	}
	if textEnd != len(s.texts) || postingEnd != len(s.postings) {
		return fmt.Errorf("%w: it goes on after its last word", ErrCorrupt)
	}
	return nil
}

// checkList reports whether a list of postings has as many documents of the segment as it says, in ascending order.
func (s *Segment) checkList(list []byte) bool {
	count, n := binary.Uvarint(list)
	if n <= 0 || count == 0 || count > uint64(s.docs) { //nolint:gosec // it is not negative
		return false
	}
	list = list[n:]
	doc := -1
	for range count {
		step, n := binary.Uvarint(list)
		if n <= 0 || len(list) < n+2 || step == 0 || step > math.MaxInt32 || list[n] == 0 || list[n+1] == 0 {
			return false
		}
		doc += int(step)
		if doc >= s.docs {
			return false
		}
		list = list[n+2:]
	}
	return len(list) == 0
}

// number returns a number of an array of 32-bit numbers.
func number(array []byte, i int) int { return int(binary.LittleEndian.Uint32(array[4*i:])) }
