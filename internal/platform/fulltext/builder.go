package fulltext

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Builder makes a segment. The zero value is ready. It is not safe for concurrent use.
type Builder struct {
	splitter *splitter
	// priors, names and titles are those of Segment.
	priors, names, titles []byte
	// ids are the numbers of words, in the order in which they were seen, and lists their postings.
	ids   map[string]uint32
	lists [][]posting
	// frequencies and places are those of the words of one document, by number, and seen are these numbers.
	frequencies []float32
	places      []byte
	seen        []uint32
	inField     []uint32
}

// posting says that a document has a word: how much it contributes, and a bit for each field that has it.
type posting struct {
	doc            uint32
	impact, places byte
}

// Add adds a document. It has the next number.
func (b *Builder) Add(d Document) {
	if b.splitter == nil {
		b.splitter, b.ids = newSplitter(), map[string]uint32{}
	}
	doc := uint32(len(b.priors)) //nolint:gosec // Build refuses more than maxDocuments
	b.priors = append(b.priors, priorByte(d.Prior))
	path, head := pathWords(d.Path[:min(len(d.Path), maxText)])
	for f, text := range [fields]string{
		inName: d.Name, inTitle: d.Title, inProvider: d.Provider, inTags: strings.Join(d.Tags, "\n"), inPath: path,
		inDescription: withoutMarkup(d.Description), inKind: d.Kind, inHead: head,
	} {
		b.addField(field(f), text)
	}
	var lengths [fields]byte
	for _, id := range b.seen {
		for f := range lengths {
			lengths[f] += b.places[id] >> f & 1
		}
		b.lists[id] = append(b.lists[id], posting{doc, impactOf(b.frequencies[id]), b.places[id]})
		b.frequencies[id], b.places[id] = 0, 0
	}
	b.names, b.titles = append(b.names, lengths[inName]), append(b.titles, lengths[inTitle])
	b.seen = b.seen[:0]
}

// addField counts the words of a field of the document that is being added.
func (b *Builder) addField(f field, text string) {
	if text == "" {
		return
	}
	rank := fieldRanks()[f]
	b.inField = b.inField[:0]
	length := 0
	for _, w := range b.splitter.split(text[:min(len(text), maxText)], rank.limit, true) {
		if !w.whole {
			length++
		}
		if stopWord(w.text) {
			continue
		}
		stemmed := stem(w.text)
		id, ok := b.ids[string(stemmed)]
		if !ok {
			id = uint32(len(b.lists)) //nolint:gosec // far fewer than 4 billion words fit into memory
			b.ids[string(stemmed)] = id
			b.lists = append(b.lists, nil)
			b.frequencies, b.places = append(b.frequencies, 0), append(b.places, 0)
		}
		b.inField = append(b.inField, id)
	}
	one := rank.weight / (1 - rank.norm + rank.norm*float32(length)/rank.length)
	for _, id := range b.inField {
		if b.places[id] == 0 {
			b.seen = append(b.seen, id)
		}
		b.frequencies[id] += one
		b.places[id] |= 1 << f
	}
}

// Build returns a segment of the documents that were added. The builder is not to be used after it. There is an error
// if there are more than 262,144.
func (b *Builder) Build() (*Segment, error) {
	if len(b.priors) > maxDocuments {
		return nil, fmt.Errorf("a segment has at most %d documents, not %d", maxDocuments, len(b.priors))
	}
	words := make([]string, 0, len(b.ids))
	for w := range b.ids {
		words = append(words, w)
	}
	slices.Sort(words)
	return newSegment(b.priors, b.names, b.titles, words, func(w string) []posting { return b.lists[b.ids[w]] }), nil
}

// priorByte keeps a prior: 128 is none.
func priorByte(prior float32) byte {
	if math.IsNaN(float64(prior)) {
		prior = 0
	}
	return byte(128 + math.Round(127*float64(max(-1, min(1, prior)))))
}

// priorFactor is what a score is multiplied by.
func priorFactor(b byte) float32 { return 1 + (float32(b)-128)/127 }

// pathWords returns the parts of a path that are no parameters, and the last of them.
func pathWords(path string) (words, head string) {
	way, _, _ := strings.Cut(path, "?")
	var out strings.Builder
	for part := range strings.SplitSeq(way, "/") {
		part = withoutBraces(part)
		if strings.Trim(part, " .:-_") != "" {
			out.WriteString(part)
			out.WriteByte('\n')
			head = part
		}
	}
	return out.String(), head
}

// withoutBraces removes parameters.
func withoutBraces(part string) string {
	for {
		before, rest, found := strings.Cut(part, "{")
		_, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			return part
		}
		part = before + "\n" + after
	}
}

// withoutMarkup removes tags of HTML and the addresses of links in Markdown.
func withoutMarkup(text string) string {
	text = text[:min(len(text), maxText)]
	if !strings.ContainsAny(text, "<(") {
		return text
	}
	var out strings.Builder
	for text != "" {
		at := strings.IndexAny(text, "<(")
		if at < 0 {
			break
		}
		end := byte('>')
		skip := text[at] == '<' && len(text) > at+1 && (text[at+1] == '/' || text[at+1]|0x20 >= 'a' && text[at+1]|0x20 <= 'z')
		if text[at] == '(' {
			end, skip = ')', at > 0 && text[at-1] == ']'
		}
		length := strings.IndexByte(text[at:], end)
		if !skip || length < 0 {
			out.WriteString(text[:at+1])
			text = text[at+1:]
			continue
		}
		out.WriteString(text[:at])
		out.WriteByte(' ')
		text = text[at+length+1:]
	}
	out.WriteString(text)
	return out.String()
}
