// Package actionindex finds the actions of one version of a provider: by name, in order, and by words. An index is made
// once and never changes. See README.md.
package actionindex

import (
	"bytes"
	"encoding/binary"
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
	summaries summaries
	// sorted are the numbers of the actions by their names.
	sorted []int32
	words  *fulltext.Segment
}

// Builder makes an index. It is for one goroutine.
type Builder struct {
	provider string
	texts    []byte
	ends     []uint32
	words    fulltext.Builder
}

// NewBuilder returns a builder for the actions of a provider.
func NewBuilder(slug, displayName string) *Builder {
	return &Builder{provider: slug + " " + displayName}
}

// Add adds an action, which gets the next number.
func (b *Builder) Add(a *actions.Action, summary *actions.Summary) {
	b.texts = appendSummary(b.texts, summary)
	b.ends = append(b.ends, uint32(len(b.texts))) //nolint:gosec // 50,000 summaries have far less than 4 GiB
	b.words.Add(documentOf(a, b.provider))
}

// Build returns the index. The builder must not be used again.
func (b *Builder) Build() (*Index, error) {
	words, err := b.words.Build()
	if err != nil {
		return nil, fmt.Errorf("index actions: %w", err)
	}
	return newIndex(summaries{string(b.texts), b.ends}, words), nil
}

func newIndex(s summaries, words *fulltext.Segment) *Index {
	x := &Index{summaries: s, sorted: make([]int32, len(s.ends)), words: words}
	for i := range x.sorted {
		x.sorted[i] = int32(i)
	}
	slices.SortFunc(x.sorted, func(a, b int32) int { return strings.Compare(s.name(int(a)), s.name(int(b))) })
	return x
}

// Len returns how many actions there are.
func (x *Index) Len() int { return len(x.summaries.ends) }

// Summary returns the action with a number.
func (x *Index) Summary(number int) *actions.Summary { return x.summaries.read(number) }

// Name returns the name of the action with a number.
func (x *Index) Name(number int) string { return x.summaries.name(number) }

// Find returns the number of the action with a name.
func (x *Index) Find(name string) (number int, ok bool) {
	i := x.After(name)
	if i > 0 && x.SortedName(i-1) == name {
		return int(x.sorted[i-1]), true
	}
	return 0, false
}

// After returns the place, in the order of names, of the first action whose name comes after the one given.
func (x *Index) After(name string) (place int) {
	return sort.Search(len(x.sorted), func(i int) bool { return x.SortedName(i) > name })
}

// Sorted returns the action at a place in the order of names.
func (x *Index) Sorted(place int) *actions.Summary { return x.Summary(int(x.sorted[place])) }

// SortedName returns the name at a place in the order of names.
func (x *Index) SortedName(place int) string { return x.Name(int(x.sorted[place])) }

// Number returns the number of the action at a place in the order of names.
func (x *Index) Number(place int) int { return int(x.sorted[place]) }

// Words returns the segment that finds actions by words; its documents have the numbers of the actions.
func (x *Index) Words() *fulltext.Segment { return x.words }

// Size returns how much memory the index takes, in bytes.
func (x *Index) Size() int {
	const each = 8 // an end, and a place in the order of names
	return x.words.Size() + len(x.summaries.texts) + each*x.Len()
}

// magic is the beginning of an index: a name and the version of its form.
const magic = "SPX2"

// ErrForm is the error of bytes that are no index of this release.
var ErrForm = errors.New("the index of actions has another form")

// Encode returns the index in the form that Decode reads.
func (x *Index) Encode() []byte {
	t := x.summaries.texts
	out := make([]byte, 0, headSize+4*x.Len()+len(t)+x.words.Size())
	out = append(out, magic...)
	out = binary.LittleEndian.AppendUint32(out, uint32(x.Len())) //nolint:gosec // there are 50,000 at most
	for _, end := range x.summaries.ends {
		out = binary.LittleEndian.AppendUint32(out, end)
	}
	out = append(out, t...)
	return x.words.Append(out)
}

// headSize is the length of what an index has before its ends.
const headSize = len(magic) + 4

// Decode reads what Encode has returned. It keeps nothing of the bytes. The error is ErrForm for an index of another
// release.
func Decode(all []byte) (*Index, error) {
	if !bytes.HasPrefix(all, []byte(magic)) || len(all) < headSize {
		return nil, ErrForm
	}
	count := int(binary.LittleEndian.Uint32(all[len(magic):]))
	rest := all[headSize:]
	if len(rest)/4 < count {
		return nil, ErrForm
	}
	s := summaries{ends: make([]uint32, count)}
	end := uint32(0)
	for i := range s.ends {
		s.ends[i] = binary.LittleEndian.Uint32(rest[4*i:])
		if s.ends[i] < end {
			return nil, ErrForm
		}
		end = s.ends[i]
	}
	if rest = rest[4*count:]; uint64(len(rest)) < uint64(end) {
		return nil, ErrForm
	}
	s.texts = string(rest[:end])
	if !s.valid() {
		return nil, ErrForm
	}
	words, err := fulltext.Decode(bytes.Clone(rest[end:]))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForm, err)
	}
	if words.Len() != count {
		return nil, ErrForm
	}
	return newIndex(s, words), nil
}
