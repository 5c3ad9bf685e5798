package signin_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/platform/testkit"
)

// A request of a user costs one query, which sees a session that has ended.
func TestBearerIsOneQuery(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		in := f.SignedIn(t)
		p := f.Bearer(t, in.Token)
		q := &testkit.CountedQuerier{Querier: f.Store.DB.Read()}
		again, err := f.SignIn.ReadSignedIn(t.Context(), q, p)
		require.NoError(t, err)
		require.Equal(t, p, again)
		require.Equal(t, 1, q.Queries)
		require.NoError(t, f.SignIn.EndSession(t.Context(), p, p.Session))
		_, err = f.SignIn.ReadSignedIn(t.Context(), q, p)
		identitytest.Wants(t, "unauthorized", err, "the session has ended")
		require.Equal(t, 2, q.Queries)
	})
}
