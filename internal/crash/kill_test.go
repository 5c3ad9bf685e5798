package crash_test

import (
	"math/rand/v2"
	"testing"

	"sallyport/internal/platform/testkit"
)

// A server that is killed at any moment loses nothing that it acknowledged, brings every delivery to an end, sends
// nothing again whose outcome it had recorded, and sends twice at most what was in flight.
func TestKill(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	const most = 5 // of one database, so that the rounds of several run in parallel
	for left := rounds(t); left > 0; left -= most {
		testkit.EachServer(t, func(t *testing.T, databaseURL, dir string) {
			killRepeatedly(t, databaseURL, dir, min(left, most))
		})
	}
}

// killRepeatedly kills the servers of one database and then lets a last one finish the work.
func killRepeatedly(t *testing.T, databaseURL, dir string, times int) {
	t.Helper()
	w := newWorld(t, databaseURL, dir)
	random := rand.New(rand.NewPCG(w.sender.seed, senders))
	open := 0
	for round := range times {
		s := startServer(t, dir, databaseURL)
		if round == 0 {
			w.populate(t, s)
		}
		stop := w.sender.start(t, s.base)
		enough := w.sender.acknowledged() + 1 + random.IntN(150)
		waitFor(t, "traffic flows", func() bool { return w.sender.acknowledged() >= enough })
		s.kill(t)
		stop()
		w.ledger.close(t, true)
		open += len(w.ledger.open)
	}
	w.finish(t)
	t.Logf("%d events acknowledged, %d requests forwarded, %d in flight at kills, %d repeated", w.sender.acknowledged(),
		w.ledger.read, open, w.ledger.duplicates)
}
