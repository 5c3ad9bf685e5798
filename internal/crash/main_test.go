package crash_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
)

// roundsVariable raises the number of kills per engine.
const roundsVariable = "SALLYPORT_TEST_CRASH_ROUNDS"

// rounds is how often a suite kills the server.
func rounds(t *testing.T) int {
	t.Helper()
	const few, least = 2, 20
	text := os.Getenv(roundsVariable)
	switch {
	case text == "" && !testkit.IsLong():
		return few
	case text == "":
		return least
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, roundsVariable)
	return max(n, least)
}

// patience bounds every wait for something that must happen. It is no measure of speed: a machine under load takes its
// time, and only a server that hangs uses it up.
const patience = 60 * time.Second

// waitFor returns when the condition holds. It asks again at short intervals and fails the test when patience ends.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	waitWithin(t, what, patience, holds)
}

func waitWithin(t *testing.T, what string, limit time.Duration, holds func() bool) {
	t.Helper()
	end := time.NewTimer(limit)
	defer end.Stop()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-end.C:
			require.Fail(t, "waited in vain", "%s, within %s", what, limit)
		}
	}
}

// waitSteady returns when the value has not changed for the time given: the one way to see that something has stopped.
func waitSteady(t *testing.T, what string, window time.Duration, value func() int) int {
	t.Helper()
	last, since := value(), time.Now()
	waitFor(t, what, func() bool {
		if now := value(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) >= window
	})
	return last
}
