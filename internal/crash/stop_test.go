package crash_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
)

// A server that is stopped under load ends in time and in good order: attempts in progress are finished and recorded,
// every lease is released, and the next server sends nothing twice.
func TestTerminate(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	testkit.EachServer(t, func(t *testing.T, databaseURL, dir string) {
		w := newWorld(t, databaseURL, dir)
		for life := range 5 {
			s := startServer(t, dir, databaseURL, "--shutdown-timeout", shutdownTimeout.String())
			if life == 0 {
				w.populate(t, s)
			}
			stop := w.sender.start(t, s.base)
			enough := w.sender.acknowledged() + 150
			waitFor(t, "traffic flows", func() bool { return w.sender.acknowledged() >= enough })
			s.terminate(t)
			stop()
			w.ledger.close(t, false)
			require.Empty(t, w.ledger.open, "every attempt in progress was finished and recorded")
		}
		w.finish(t)
		require.Zero(t, w.ledger.duplicates)
	})
}

// A receiver that does not respond cannot keep the server from ending in time: the attempts in progress are cut off,
// and their leases are released all the same.
func TestTerminateWithHangingReceiver(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	testkit.EachServer(t, func(t *testing.T, databaseURL, dir string) {
		w := newWorld(t, databaseURL, dir)
		const timeout = time.Second
		s := startServer(t, dir, databaseURL, "--shutdown-timeout", timeout.String())
		w.populate(t, s)
		w.sink.hold()
		stop := w.sender.start(t, s.base)
		waitFor(t, "the receiver is as busy as it can be", func() bool {
			_, active := w.sink.count()
			return active == inFlight && w.sender.acknowledged() >= 100
		})
		s.terminate(t)
		stop()
		w.ledger.close(t, false)
		require.Len(t, w.ledger.open, inFlight, "what was cut off, and nothing else, may be repeated")
		w.sink.release()
		w.finish(t)
	})
}

// finish lets a last server bring everything to an end, and checks that it did.
func (w *world) finish(t *testing.T) {
	t.Helper()
	s := startServer(t, w.dir, w.databaseURL)
	w.drain(t, s)
	s.terminate(t)
	w.ledger.close(t, false)
	w.ledger.checkEnded(t)
	w.sender.check(t)
}
