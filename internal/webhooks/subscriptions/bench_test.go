package subscriptions

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/webhooks/filters"
)

// BenchmarkMatch is the evidence that the subscriptions which do not match cost nothing: the two cases have the same
// ten that match, and the second 9,990 others under every kind of pattern and scope. Compare their times; they lie
// within a factor of two.
func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("subscriptions=%d", n), func(b *testing.B) {
			x := benchIndex(b, n)
			event, types := scope{"github", "acme"}, []string{"issue.comment.created"}
			require.Len(b, x.match(event, types), 10)
			b.ReportAllocs()
			for b.Loop() {
				x.match(event, types)
			}
		})
	}
}

// BenchmarkFilters measures the cost of looking for filters for an event: next to nothing where the environment has
// none, and otherwise one more match.
func BenchmarkFilters(b *testing.B) {
	for _, filtered := range []bool{false, true} {
		b.Run(fmt.Sprintf("filtered=%t", filtered), func(b *testing.B) {
			x := benchIndex(b, 10_000)
			if x.filtered = filtered; filtered {
				x.subscriptions[0].Filter = filters.New("true")
			}
			s := &Directory{}
			_, err := s.indexes.Get(b.Context(), "env", func(context.Context) (*index, int64, error) { return x, 1, nil })
			if err != nil {
				b.Fatal(err)
			}
			types := []string{"issue.comment.created"}
			b.ReportAllocs()
			for b.Loop() {
				found, err := s.Filters(b.Context(), "env", "github", "acme", types)
				if err != nil || len(found) == 1 != filtered {
					b.Fatal(found, err)
				}
			}
		})
	}
}

// benchIndex returns an index of n subscriptions of which ten match issue.comment.created of github's acme.
func benchIndex(tb testing.TB, n int) *index {
	tb.Helper()
	matching := []string{"issue.*", "*", "issue.comment.created", "issue.*.created", "*.comment.*"}
	others := []string{"issue", "issue.closed", "push.*", "issue.%d.*", "*.*.closed", "other%d.*", "issue.comment.created"}
	entries := make([]entry, n)
	for i := range entries {
		text, s := matching[i%len(matching)], scope{"github", "acme"}
		if i >= 10 {
			text = others[i%len(others)]
			if text == "issue.comment.created" {
				s.connectionID = fmt.Sprintf("c%d", i)
			} else if text[len(text)-2:] == ".*" && text[0] != 'p' {
				text = fmt.Sprintf(text, i)
			}
		}
		p, err := ParsePattern(text)
		require.NoError(tb, err)
		entries[i] = entry{Matched: Matched{ID: fmt.Sprintf("sub_%05d", i), Enabled: true}, scope: s, patterns: []Pattern{p}}
	}
	return newIndex(entries)
}
