package fulltext_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/fulltext"
)

// A right action is among the first five for every query.
func TestRightActionsComeFirst(t *testing.T) {
	t.Parallel()
	segments, members := segmentsOf(t, readCorpus(t))
	var wrong []string
	reciprocal := 0.0
	for _, q := range queries() {
		rank := rankOf(q, segments, members)
		if rank > 5 || rank == 0 {
			wrong = append(wrong, q.text)
		}
		if rank > 0 {
			reciprocal += 1 / float64(rank)
		}
		t.Logf("%2d  %s", rank, q.text)
	}
	t.Logf("mean reciprocal rank %.3f", reciprocal/float64(len(queries())))
	require.Empty(t, wrong)
}

// rankOf is the place of the first right action, from 1; 0 if there is none among a hundred.
func rankOf(q query, segments []*fulltext.Segment, members [][]*action) int {
	right := q.compile()
	for i, hit := range fulltext.Search(segments, q.text, fulltext.Options{Limit: 100}) {
		if right.MatchString(members[hit.Segment][hit.Doc].String()) {
			return i + 1
		}
	}
	return 0
}
