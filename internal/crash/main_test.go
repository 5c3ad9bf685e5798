package crash_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Variables of the environment that the suite reads.
const (
	// roundsVariable raises the number of kills per engine.
	roundsVariable = "SALLYPORT_TEST_CRASH_ROUNDS"
	// raceVariable says that the race detector is on. It cannot look into the processes that this suite starts.
	raceVariable = "SALLYPORT_TEST_RACE"
)

// binary builds the command once and returns its path. TestMain removes it.
var binary = sync.OnceValues(build) //nolint:gochecknoglobals // one build for all tests

var binaryDir string //nolint:gochecknoglobals // set by TestMain before any test runs

func build() (string, error) {
	path := filepath.Join(binaryDir, "sallyport")
	//nolint:noctx // the build outlives the test that asks first
	cmd := exec.Command("go", "build", "-o", path, "sallyport/cmd/sallyport")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the binary: %w\n%s", err, out)
	}
	return path, nil
}

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sallyport-crash-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // the system's folder for temporary files
	binaryDir = dir
	return m.Run()
}

// needProcesses skips the test where starting and killing processes is not wanted.
func needProcesses(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test starts and ends whole server processes")
	}
	if os.Getenv(raceVariable) != "" {
		t.Skipf("%s is set: the race detector sees nothing of the processes that this test starts", raceVariable)
	}
}

// rounds is how often a suite kills the server.
func rounds(t *testing.T) int {
	t.Helper()
	const least = 20
	text := os.Getenv(roundsVariable)
	if text == "" {
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
