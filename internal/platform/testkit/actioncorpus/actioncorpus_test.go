package actioncorpus_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/actioncorpus"
)

// The table of queries names actions that are in the corpus, and few of them: a query for which many actions are right
// would prove nothing.
func TestQueriesNameActions(t *testing.T) {
	t.Parallel()
	corpus, err := actioncorpus.Read()
	require.NoError(t, err)
	for _, q := range actioncorpus.Queries() {
		right, count := q.Right(), 0
		for i := range corpus {
			if right.MatchString(corpus[i].String()) {
				count++
			}
		}
		require.Positive(t, count, q.Text)
		require.LessOrEqual(t, count, 16, q.Text)
		require.Equal(t, strings.ToLower(q.Text), q.Text)
	}
}
