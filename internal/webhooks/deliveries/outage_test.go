package deliveries

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/testkit"
)

// While the database is away, the loops of the workers log a line a second of each kind, however often they run and
// however many subscriptions they serve.
func TestOutageOfTheDatabaseLogsLittle(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		var log bytes.Buffer
		logger := slog.New(obs.NewOutages(slog.NewJSONHandler(&log, nil), w.clock))
		w.claimer.log, w.leases.log, w.follower.log, w.recorder.log, w.breakers.log = logger, logger, logger, logger, logger
		require.NoError(t, store.DB.Close())
		for n := range 50 {
			sub := w.subscription()
			w.Due(w.env, sub)
			w.claimer.claimDue(t.Context())
			w.leases.keep(t.Context())
			w.follower.followSubscriptions(t.Context())
			w.recorder.storeCounts(t.Context())
			w.ended(w.env, sub, 10, 10)
			w.breakers.run(t.Context())
			require.Error(t, w.db.Ping(t.Context()), n)
		}
		kinds := map[string]int{}
		for line := range strings.Lines(log.String()) {
			var fields map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &fields))
			kind, ok := fields["outage"].(string)
			require.True(t, ok, "a line of no kind: %s", line)
			kinds[kind]++
		}
		require.Equal(t, map[string]int{"claims": 1, "leases": 1, "follower": 1, "counts": 1, "breaker": 1}, kinds)
	})
}
