package compare

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/role"
)

// Nodes that share a database are measured together: events go to those that receive, all of them arrive, and the work
// of the database is counted for each event.
func TestMeasureFleet(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *Bench) {
		if b.Engine != Postgres {
			t.Skip("nodes share a PostgreSQL database")
		}
		f := b.MeasureFleet(t.Context(), Setup{Nodes: 2, Receiving: 1})
		require.Empty(t, f.Problem)
		for _, figures := range []Figures{f.Burst, f.Steady} {
			require.Positive(t, figures[Events])
			require.Zero(t, figures[Refused]+figures[Missing])
			require.Greater(t, figures[CPU], figures[PostgresCPU])
			require.Positive(t, figures[PostgresCPU])
		}
		require.Positive(t, f.Work.WALBytes)
		require.GreaterOrEqual(t, f.Work.Inserted, 3.0, "an event, its payload, its keys, its delivery and its attempt")
		var out bytes.Buffer
		require.NoError(t, PrintFleets(&out, []Fleet{f, {Setup: Setup{Nodes: 4, Receiving: 4}, Problem: "it fell over"}}))
		require.Contains(t, out.String(), "| 2     | 1       |")
		require.Contains(t, out.String(), "nodes 4: it fell over")
	})
}

// Roles go around the nodes, and the nodes that receive come first. A gateway needs both kinds.
func TestRolesOfNodes(t *testing.T) {
	t.Parallel()
	both := []role.Role{role.Worker, role.API}
	s, err := WithRoles(3, both)
	require.NoError(t, err)
	require.Equal(t, Setup{Nodes: 3, Receiving: 1, Roles: []role.Role{role.API, role.Worker, role.Worker}}, s)
	require.Equal(t, "1 api, 2 worker", s.name())
	require.Equal(t, []string{"--role", "worker"}, s.args(2))
	s, err = WithRoles(1, []role.Role{role.All})
	require.NoError(t, err)
	require.Equal(t, 1, s.Receiving)
	for _, roles := range [][]role.Role{{role.API}, {role.Worker}, both[:1]} {
		_, err := WithRoles(2, roles)
		require.ErrorIs(t, err, errSetup)
	}
	_, err = WithRoles(1, both)
	require.ErrorIs(t, err, errSetup)
}

// Events that one node receives and another one sends all arrive.
func TestMeasureRoles(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *Bench) {
		if b.Engine != Postgres {
			t.Skip("nodes share a PostgreSQL database")
		}
		setup, err := WithRoles(2, []role.Role{role.API, role.Worker})
		require.NoError(t, err)
		f := b.MeasureFleet(t.Context(), setup)
		require.Empty(t, f.Problem)
		for _, figures := range []Figures{f.Burst, f.Steady} {
			require.Positive(t, figures[Events])
			require.Zero(t, figures[Refused]+figures[Missing])
		}
		var out bytes.Buffer
		require.NoError(t, PrintFleets(&out, []Fleet{f}))
		require.Contains(t, out.String(), "| 1 api, 1 worker | 1       |")
	})
}
