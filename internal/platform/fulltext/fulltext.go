// Package fulltext searches short documents by words: in immutable segments, in memory. See README.md.
package fulltext

// field is a part of a document. A word counts by the field that it is in.
type field uint8

// The fields. inHead is the last part of a path that is no parameter: what the document is about.
const (
	inName field = iota
	inTitle
	inProvider
	inTags
	inPath
	inDescription
	inKind
	inHead
	fields
)

// maxDocuments is how many documents a segment has at most.
const maxDocuments = 1 << 18

// Document is what a segment finds. All fields are optional, and may have any bytes.
type Document struct {
	// Name is an identifier, in snake case, camel case or with other marks between its words.
	Name string
	// Title is a line, and Description a text in which tags of HTML and the addresses of links are left out.
	Title, Description string
	// Provider names the thing that the document belongs to, in all ways that people write it: "github GitHub".
	Provider string
	Tags     []string
	// Path is a path of a URL. Segments in braces are parameters, and are no words.
	Path string
	// Kind says what the document does, in one or two words: "create".
	Kind string
	// Prior raises or lowers the document for every query: its score is multiplied by 1 + Prior. It is kept in 254 steps
	// between -1 and 1.
	Prior float32
}

// Hit is a document that was found: its number in its segment, from 0 in the order in which documents were added, and
// the place of the segment among those searched.
type Hit struct {
	Segment, Doc int
	// Score orders the hits of one search. It has no meaning beyond it.
	Score float64
}
