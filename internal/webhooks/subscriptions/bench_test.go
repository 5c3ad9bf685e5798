package subscriptions

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkMatch is the evidence that the subscriptions which do not match cost nothing: the two cases have the same
// ten that match, and the second 9,990 others under every kind of pattern and scope. Compare their times; they lie
// within a factor of two.
func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("subscriptions=%d", n), func(b *testing.B) {
			x := benchIndex(b, n)
			event, types := from("github", "acme"), []string{"issue.comment.created"}
			require.Len(b, x.match(event, types), 10)
			b.ReportAllocs()
			for b.Loop() {
				x.match(event, types)
			}
		})
	}
}

// BenchmarkChange measures the cost of a change of one subscription: no more with 10,000 others than with ten.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("subscriptions=%d", n), func(b *testing.B) {
			x := benchIndex(b, n)
			on := x.byID["sub_00003"]
			off := *on
			off.Enabled = false
			b.ReportAllocs()
			for b.Loop() {
				x.set(on.ID, &off)
				x.set(on.ID, on)
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
		text, s := matching[i%len(matching)], bound("github", "acme")
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
		entries[i] = entry{Matched: Matched{ID: fmt.Sprintf("sub_%05d", i), Enabled: true}, scope: s, slots: []slot{{p, s}}}
	}
	return newIndex(entries)
}
