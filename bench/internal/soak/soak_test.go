//go:build linux

package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/pgserver"
)

// The test binary plays the nodes of its runs.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == NodeCommand {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err := ServeNode(ctx, os.Args[2], os.Stdin, os.Stderr)
		stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The guarantees hold through the disruptions that one round each has room for in a test: a kill, a node that stands
// still for longer than its leases and continues, and the loss of the network to the database, with receivers that
// misbehave. The soak command draws hundreds of others.
func TestSoak(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	for engine, disruptions := range map[string][]string{
		"sqlite":   {"kill -9", "SIGSTOP"},
		"postgres": {"SIGSTOP", "network reset"},
	} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			// PostgreSQL's user must be able to enter the folder.
			dir, err := os.MkdirTemp("/tmp", "sallyport-soak-") //nolint:usetesting // see above
			require.NoError(t, err)
			require.NoError(t, os.Chmod(dir, 0o711))
			var progress strings.Builder
			figures, broken, err := Run(t.Context(), Options{Engine: engine, Rounds: len(disruptions), Nodes: 2, Seed: 1,
				Rate: 20, Fans: 0, Lease: 2 * time.Second, QuietEvery: len(disruptions), Disruptions: disruptions, Dir: dir,
				Progress: &progress})
			if errors.Is(err, pgserver.ErrNone) && os.Getenv(testkit.RequireEngines) == "" {
				t.Skipf("%v", err)
			}
			require.NoError(t, err, progress.String())
			require.Zero(t, broken, progress.String())
			require.Equal(t, len(disruptions), figures.Rounds)
			require.Positive(t, figures.QuietEnds)
			require.Positive(t, figures.Arrivals)
			require.NoError(t, os.RemoveAll(dir))
		})
	}
}
