package testkit

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
)

// Occupy takes all connections of a pool until free or the end of the test.
func Occupy(t *testing.T, pool *sql.DB) (free func()) {
	t.Helper()
	var taken []*sql.Conn
	for range pool.Stats().MaxOpenConnections {
		c, err := pool.Conn(t.Context())
		require.NoError(t, err)
		taken = append(taken, c)
	}
	free = func() {
		for _, c := range taken {
			require.NoError(t, c.Close())
		}
		taken = nil
	}
	t.Cleanup(free)
	return free
}
