package fulltext_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/fulltext"
	"sallyport/internal/platform/testkit/actioncorpus"
)

func segmentOf(t testing.TB, documents ...fulltext.Document) *fulltext.Segment {
	t.Helper()
	b := &fulltext.Builder{}
	for _, d := range documents {
		b.Add(d)
	}
	s, err := b.Build()
	require.NoError(t, err)
	return s
}

// A segment that was stored is the same again, also among other bytes.
func TestStoredSegments(t *testing.T) {
	t.Parallel()
	corpus := readCorpus(t)
	segments := segmentsOf(t, corpus)
	var decoded []*fulltext.Segment
	for _, s := range segments {
		encoded := s.Append([]byte("before"))
		require.Equal(t, "before", string(encoded[:6]))
		d, err := fulltext.Decode(encoded[6:])
		require.NoError(t, err)
		require.Equal(t, s.Len(), d.Len())
		require.Equal(t, encoded[6:], d.Append(nil))
		decoded = append(decoded, d)
	}
	for _, q := range actioncorpus.Queries() {
		require.Equal(t, search(segments, q.Text, fulltext.Options{}),
			search(decoded, q.Text, fulltext.Options{}))
	}
}

// The bytes of a segment follow from its documents alone, so that equal ones are recognised.
func TestSegmentsAreDeterministic(t *testing.T) {
	t.Parallel()
	corpus := readCorpus(t)[:300]
	one := segmentsOf(t, corpus)
	other := segmentsOf(t, corpus)
	for i := range one {
		require.Equal(t, one[i].Append(nil), other[i].Append(nil))
	}
}

// A segment needs little memory: the aim of 250 bytes a document has room for longer texts than those of the corpus.
func TestSegmentsAreSmall(t *testing.T) {
	t.Parallel()
	segments := segmentsOf(t, readCorpus(t))
	size, count := 0, 0
	for _, s := range segments {
		size, count = size+s.Size(), count+s.Len()
	}
	require.Less(t, size/count, 100)
}

// A segment of another version is no damage: it is recognised, and built again.
func TestOtherVersions(t *testing.T) {
	t.Parallel()
	encoded := segmentOf(t, fulltext.Document{Name: "a"}).Append(nil)
	encoded[4]++
	_, err := fulltext.Decode(encoded)
	require.ErrorIs(t, err, fulltext.ErrVersion)
	require.NotErrorIs(t, err, fulltext.ErrCorrupt)
	require.EqualError(t, err, "the segment has another version and must be built again: version 2 instead of 1")
}

// Segments without documents and without words are segments.
func TestEmptySegments(t *testing.T) {
	t.Parallel()
	for _, s := range []*fulltext.Segment{segmentOf(t),
		segmentOf(t, fulltext.Document{}, fulltext.Document{Name: "the"})} {
		d, err := fulltext.Decode(s.Append(nil))
		require.NoError(t, err)
		require.Empty(t, search([]*fulltext.Segment{s, d}, "the list", fulltext.Options{}))
	}
}

// Every changed, missing or added byte of a segment is noticed.
func TestDamagedSegments(t *testing.T) {
	t.Parallel()
	encoded := segmentOf(t, fulltext.Document{Name: "issues_create", Title: "Create an issue"},
		fulltext.Document{Name: "issues_list", Prior: -0.5}).Append(nil)
	for i := range encoded {
		changed := slices.Clone(encoded)
		changed[i] ^= 0x40
		_, err := fulltext.Decode(changed)
		require.Error(t, err, i)
		_, err = fulltext.Decode(encoded[:i])
		require.ErrorIs(t, err, fulltext.ErrCorrupt)
	}
	_, err := fulltext.Decode(append(slices.Clone(encoded), 0))
	require.ErrorIs(t, err, fulltext.ErrCorrupt)
}

// seal writes the checksum of bytes that are to look like a segment.
func seal(encoded []byte) {
	binary.LittleEndian.PutUint32(encoded[8:], crc32.Checksum(encoded[12:], crc32.MakeTable(crc32.Castagnoli)))
}

// Bytes with a valid checksum that no builder wrote are refused, or can be searched like any other segment.
func FuzzDecode(f *testing.F) {
	valid := segmentOf(f, fulltext.Document{Name: "issues_create", Title: "Create an issue", Provider: "github GitHub"},
		fulltext.Document{Name: "issues_list", Path: "/issues/{id}/comments", Tags: []string{"issues"}},
		fulltext.Document{Title: "创建问题"}).Append(nil)
	f.Add(valid, uint32(0), byte(0))
	f.Add(segmentOf(f).Append(nil), uint32(1), byte(1))
	for at := range valid {
		f.Add(valid, uint32(at), byte(1))
		f.Add(valid, uint32(at), byte(0xff))
	}
	searcher := fulltext.NewSearcher()
	f.Fuzz(func(t *testing.T, encoded []byte, at uint32, change byte) {
		encoded = bytes.Clone(encoded)
		if len(encoded) >= 28 {
			encoded[int(at)%len(encoded)] ^= change
			seal(encoded)
		}
		s, err := fulltext.Decode(encoded)
		if err != nil {
			return
		}
		for _, text := range []string{"create issue", "isues", "c", "创建", "list comments github"} {
			for _, hit := range searcher.Search([]*fulltext.Segment{s, s}, text, fulltext.Options{Limit: 3}) {
				require.Less(t, hit.Doc, s.Len())
			}
		}
	})
}
