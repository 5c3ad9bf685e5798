// Package actionindex finds the actions of one version of a provider: by name, in order, and by words. An index is made
// once and never changes. See README.md.
package actionindex

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"sallyport/internal/platform/fulltext"
	"sallyport/internal/providers/actions"
)

// Index has the summaries of actions. It is safe for concurrent use.
type Index struct {
	summaries []actions.Summary
	// sorted are the numbers of the actions by their names.
	sorted []int32
	words  *fulltext.Segment
}

// Builder makes an index. It is for one goroutine.
type Builder struct {
	provider  string
	summaries []actions.Summary
	words     fulltext.Builder
}

// NewBuilder returns a builder for the actions of a provider.
func NewBuilder(slug, displayName string) *Builder {
	return &Builder{provider: slug + " " + displayName}
}

// Add adds an action, which gets the next number.
func (b *Builder) Add(a *actions.Action, summary *actions.Summary) {
	s := *summary
	s.Risk.Reasons = nil // the action itself has them
	b.summaries = append(b.summaries, s)
	b.words.Add(documentOf(a, b.provider))
}

// Build returns the index. The builder must not be used again.
func (b *Builder) Build() (*Index, error) {
	words, err := b.words.Build()
	if err != nil {
		return nil, fmt.Errorf("index actions: %w", err)
	}
	return newIndex(b.summaries, words), nil
}

func newIndex(summaries []actions.Summary, words *fulltext.Segment) *Index {
	x := &Index{summaries: summaries, sorted: make([]int32, len(summaries)), words: words}
	for i := range x.sorted {
		x.sorted[i] = int32(i)
	}
	slices.SortFunc(x.sorted, func(a, b int32) int { return strings.Compare(summaries[a].Name, summaries[b].Name) })
	return x
}

// Len returns how many actions there are.
func (x *Index) Len() int { return len(x.summaries) }

// Summary returns the action with a number. It is shared and must not be changed.
func (x *Index) Summary(number int) *actions.Summary { return &x.summaries[number] }

// Find returns the number of the action with a name.
func (x *Index) Find(name string) (number int, ok bool) {
	i := x.After(name)
	if i > 0 && x.Sorted(i-1).Name == name {
		return int(x.sorted[i-1]), true
	}
	return 0, false
}

// After returns the place, in the order of names, of the first action whose name comes after the one given.
func (x *Index) After(name string) (place int) {
	return sort.Search(len(x.sorted), func(i int) bool { return x.Sorted(i).Name > name })
}

// Sorted returns the action at a place in the order of names.
func (x *Index) Sorted(place int) *actions.Summary { return &x.summaries[x.sorted[place]] }

// Number returns the number of the action at a place in the order of names.
func (x *Index) Number(place int) int { return int(x.sorted[place]) }

// Words returns the segment that finds actions by words; its documents have the numbers of the actions.
func (x *Index) Words() *fulltext.Segment { return x.words }

// Size returns roughly how much memory the index takes, in bytes.
func (x *Index) Size() int {
	const each, ofText = 300, 16 // a summary, and a text or a tag of it
	size := x.words.Size() + each*len(x.summaries)
	for i := range x.summaries {
		s := &x.summaries[i]
		size += len(s.Name) + len(s.Title) + len(s.Description) + len(s.Path) + ofText*(len(s.Tags)+len(s.Risk.Flags))
	}
	return size
}

// magic is the beginning of an index: a name and the version of its form.
const magic = "SPX1"

// ErrForm is the error of bytes that are no index of this release.
var ErrForm = errors.New("the index of actions has another form")

// Encode returns the index in the form that Decode reads.
func (x *Index) Encode() ([]byte, error) {
	summaries, err := json.Marshal(x.summaries)
	if err != nil {
		return nil, fmt.Errorf("encode an index of actions: %w", err)
	}
	out := make([]byte, 0, len(magic)+8+len(summaries)+x.words.Size())
	out = append(out, magic...)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(summaries)))
	out = append(out, summaries...)
	return x.words.Append(out), nil
}

// Decode reads what Encode has returned. It keeps the bytes, which must not be changed. The error is ErrForm for an
// index of another release.
func Decode(all []byte) (*Index, error) {
	rest, ok := bytes.CutPrefix(all, []byte(magic))
	if !ok || len(rest) < 8 {
		return nil, ErrForm
	}
	size := binary.LittleEndian.Uint64(rest)
	if rest = rest[8:]; size > uint64(len(rest)) {
		return nil, ErrForm
	}
	var summaries []actions.Summary
	if err := json.Unmarshal(rest[:size], &summaries); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForm, err)
	}
	words, err := fulltext.Decode(bytes.Clone(rest[size:]))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForm, err)
	}
	if words.Len() != len(summaries) {
		return nil, ErrForm
	}
	shareTexts(summaries)
	return newIndex(summaries, words), nil
}

// shareTexts makes equal texts that many actions have take memory once.
func shareTexts(summaries []actions.Summary) {
	seen := map[string]string{}
	share := func(text string) string {
		if known, ok := seen[text]; ok {
			return known
		}
		seen[text] = text
		return text
	}
	for i := range summaries {
		s := &summaries[i]
		s.Method = share(s.Method)
		for j, tag := range s.Tags {
			s.Tags[j] = share(tag)
		}
		shareRisk(&s.Risk, share)
	}
}
