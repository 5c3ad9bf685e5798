package httpapi_test

import (
	"context"
	"database/sql"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// The transactions of a request are those of its caller's environment, or of the caller: they do not wait for all that
// others have begun before.
func TestRequestsWriteInTurns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.NewSQLite(t, dir)
	d, err := db.Open(t.Context(), "", dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	var order []string // only the transaction in progress adds to it
	s := newServer(t, func(ctx context.Context) error {
		return d.Tx(ctx, func(*sql.Tx) error {
			order = append(order, access.From(ctx).ID)
			return nil
		})
	})
	open, began := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		_ = d.Tx(t.Context(), func(*sql.Tx) error {
			close(began)
			<-open
			return nil
		})
	})
	await.Value(t, "the transaction that the others wait for", began)
	for i, token := range []string{"token", "token", "token", "token", "second"} {
		all.Go(func() {
			if w := s.do(http.MethodGet, prefix+"/fail", "", "Authorization", "Bearer "+token); w.Code != http.StatusNoContent {
				t.Error(w.Code, w.Body)
			}
		})
		await.Condition(t, "the request to wait", func() bool { return d.Waiting() == i+1 })
	}
	close(open)
	await.Return(t, "the requests", all.Wait)
	require.Equal(t, []string{"usr_x", "usr_y"}, order[:2])
	require.Len(t, order, 5)
}
