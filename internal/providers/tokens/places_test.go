package tokens

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
)

// Connections that are due are found in turns: those of one environment, at one endpoint or at thousands, and overdue
// for however long, keep neither another environment's nor another endpoint's of the same one from being found.
func TestDueInTurns(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		d := s.DB
		now := time.UnixMilli(1_000_000).UTC()
		for _, text := range []string{ // rows without connections
			"ALTER TABLE token_refreshes RENAME TO referring_refreshes",
			"CREATE TABLE token_refreshes AS SELECT * FROM referring_refreshes WHERE 1 = 0",
		} {
			_, err := d.Write().ExecContext(t.Context(), text)
			require.NoError(t, err)
		}
		add := func(env, endpoint string, n int, age time.Duration) {
			due := now.Add(-age)
			for i := range n {
				r := row{connectionUUID: fmt.Sprint(env, endpoint, i), environment: id.Environment(env), endpoint: endpoint,
					due: &due}
				_, err := db.Insert(t.Context(), d.Write(), "INSERT INTO token_refreshes", columns(&r), "")
				require.NoError(t, err)
			}
		}
		for i := range 300 {
			add("many", fmt.Sprint("endpoint-", i), 1, time.Hour)
		}
		add("one", "hangs", 100, time.Hour)
		add("one", "works", 1, time.Second)
		add("late", "works", 1, 0)
		due, err := listDue(t.Context(), d.Read(), now, 30)
		require.NoError(t, err)
		found := map[string]int{}
		for _, r := range due {
			found[string(r.environment)]++
			found[string(r.environment)+" "+r.endpoint]++
		}
		require.Equal(t, 1, found["late"])
		require.Equal(t, 1, found["one works"])
		require.InDelta(t, found["many"], found["one"], 1)
		require.Len(t, due, 30)
		due, err = listDue(t.Context(), d.Read(), now, 10_000)
		require.NoError(t, err)
		require.Len(t, due, 2*perEnvironment+perEndpoint+2, "others cannot get a place")
	})
}

// However many environments take as many places as they get, at endpoints of their own or all at one, one that has none
// gets one.
func TestPlaceForEachEnvironment(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorker()
		envs := rapid.IntRange(1, 40).Draw(t, "environments")
		shared := rapid.Bool().Draw(t, "one endpoint")
		endpoint := func(env, turn int) string {
			if shared {
				return "shared"
			}
			return fmt.Sprint(env, turn)
		}
		for turn := range maxExchanges {
			for env := range envs {
				w.enter(&row{environment: id.Environment(fmt.Sprint(env)), endpoint: endpoint(env, turn)})
			}
		}
		least, most, limit := 5, perEnvironment, maxExchanges
		if shared {
			least, most, limit = 2, perEndpoint, perHost
		}
		if w.total > limit {
			t.Fatalf("%d exchanges", w.total)
		}
		if got := w.byEnv["0"]; got < least || got > most {
			t.Fatalf("%d places of %d environments", got, envs)
		}
		if !w.enter(&row{environment: "late", endpoint: endpoint(-1, 0)}) {
			t.Fatalf("no place beside %d environments with %d places", envs, w.total)
		}
	})
}
