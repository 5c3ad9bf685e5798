//go:build !race

// The race detector makes sync.Pool forget values at random, so allocations are counted without it only.

package fulltext_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/fulltext"
)

// A search allocates its hits and little else, however many documents there are.
func TestSearchAllocatesLittle(t *testing.T) { //nolint:paralleltest // allocations of other tests would count
	segments := segmentsOf(t, readCorpus(t))
	searcher := fulltext.NewSearcher()
	searcher.Search(segments, longest(), fulltext.Options{})
	require.Less(t, testing.AllocsPerRun(100, func() {
		searcher.Search(segments, "github create issue", fulltext.Options{})
	}), 12.0)
}
