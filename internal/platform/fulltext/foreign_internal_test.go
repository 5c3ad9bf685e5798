package fulltext

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A word of another language is none of the English words that have synonyms, stands for English words, and is one
// word.
func TestForeignWords(t *testing.T) {
	t.Parallel()
	english := readSynonyms()
	table := readForeign(english)
	require.Greater(t, len(table), 300)
	keys := map[string]bool{}
	for key := range english {
		keys[key] = true
	}
	for word, f := range table {
		require.False(t, stopWord([]byte(word)) && f.of != 0, word)
		require.Equal(t, f.of != 0, len(f.english) > 0, word)
		require.Zero(t, f.of&f.stops, word)
		if f.of == 0 {
			continue
		}
		require.NotContains(t, keys, word)
		require.LessOrEqual(t, len(word), maxWord)
		for _, e := range f.english {
			require.NotEmpty(t, e.stem)
			require.Greater(t, e.weight, float32(0), word)
			require.Less(t, e.weight, float32(1), word)
		}
	}
	require.Equal(t, german, table["losche"].of, "accents do not count")
	require.Equal(t, french|spanish, table["factura"].of|table["facture"].of)
}
