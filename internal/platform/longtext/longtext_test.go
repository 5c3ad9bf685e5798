package longtext_test

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/longtext"
)

const page = 64 << 10

// paged returns a text in pages, written in pieces of a length.
func paged(t testing.TB, text []byte, piece int) *longtext.Text {
	t.Helper()
	out := new(longtext.Text)
	for rest := text; len(rest) > 0; {
		n, err := out.Write(rest[:min(piece, len(rest))])
		require.NoError(t, err)
		rest = rest[n:]
	}
	require.Equal(t, len(text), out.Len())
	return out
}

// words returns a text of a length with lines of different lengths, which can be compressed.
func words(r *rand.Rand, length int) []byte {
	var out bytes.Buffer
	for out.Len() < length {
		out.WriteString([]string{"alpha", "beta ", "gamma", "delta", " épée", "\n"}[r.IntN(6)])
	}
	return out.Bytes()
}

// A text in pages says the same as one that is whole, at its beginning and its end, across pages, and at random places
// of a text of which a part is compressed. Slices that were returned stay as they were.
func TestPagesAreTheText(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, length := range []int{0, 1, page - 1, page, page + 1, 5*page + 7, 24 << 20} {
		want := words(r, length)
		if len(want) > 0 {
			want = want[:len(want)-1] // a character may be cut at the end
		}
		whole := longtext.Of(want)
		got := paged(t, want, 10_007)
		var kept [][2][]byte
		for range 3000 {
			at := r.IntN(len(want) + 1)
			if r.IntN(4) == 0 {
				at = min(len(want), max(0, at/page*page-2+r.IntN(5)))
			}
			end := min(len(want), at+r.IntN(40))
			if r.IntN(100) == 0 {
				end = min(len(want), at+r.IntN(3*page))
			}
			slice := got.Slice(at, end)
			require.True(t, bytes.Equal(want[at:end], slice), "%d to %d of %d", at, end, length)
			kept = append(kept, [2][]byte{want[at:end], slice})
			from := got.From(at)
			require.True(t, bytes.HasPrefix(want[at:], from))
			require.Equal(t, at == len(want), len(from) == 0)
			if end < len(want) {
				require.True(t, got.Has(at, string(want[at:end]), want[end]))
				require.False(t, got.Has(at, string(want[at:end]), want[end]+1))
				require.False(t, got.Has(at, string(want[at:end])+"\x00", want[end]))
			}
			if at+page > len(want) {
				require.False(t, got.Has(at, string(want[at:]), 0))
			}
			if at < 3*page || r.IntN(100) == 0 { // the whole text counts its lines
				line, column := whole.Place(at)
				gotLine, gotColumn := got.Place(at)
				require.Equal(t, [2]int{line, column}, [2]int{gotLine, gotColumn}, "%d of %d", at, length)
			}
		}
		for _, k := range kept {
			require.True(t, bytes.Equal(k[0], k[1]))
		}
		require.True(t, bytes.Equal(want, got.Bytes()))
	}
}

// Characters that are cut by the end of a page are characters, and bytes that are none are found where they are.
func TestFirstInvalid(t *testing.T) {
	t.Parallel()
	for _, character := range []string{"é", "€", "😀"} {
		for before := range 5 {
			text := []byte(strings.Repeat("a", page-before) + character + strings.Repeat("é", page))
			require.True(t, utf8.Valid(text))
			require.Equal(t, -1, paged(t, text, page).FirstInvalid())
			for _, wrong := range []int{0, 7, page - 1, page, page + 1, len(text) - 1} {
				broken := bytes.Clone(text)
				broken[wrong] = 0xff
				want := longtext.Of(broken).FirstInvalid()
				require.False(t, utf8.Valid(broken))
				require.LessOrEqual(t, want, wrong)
				require.Equal(t, want, paged(t, broken, page).FirstInvalid())
			}
		}
		cut := []byte(strings.Repeat("a", page-1) + character)[:page]
		require.Equal(t, page-1, paged(t, cut, page).FirstInvalid())
	}
	require.Equal(t, -1, new(longtext.Text).FirstInvalid())
}

// Of a text that can be compressed, 8 MiB and a part of the rest are in memory.
func TestMemory(t *testing.T) { //nolint:paralleltest // it measures the heap
	text := new(longtext.Text)
	piece := bytes.Repeat([]byte(`{"description":"something that is said often"},`), 1000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for text.Len() < 64<<20 {
		_, err := text.Write(piece)
		require.NoError(t, err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(16<<20))
	require.Equal(t, piece, text.Slice(0, len(piece)))
	runtime.KeepAlive(text)
}
