package compare

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
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
		require.Contains(t, out.String(), "4 nodes: it fell over")
	})
}
