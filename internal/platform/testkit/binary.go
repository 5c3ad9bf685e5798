package testkit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/filelock"
)

// buildTimeout bounds a build from nothing on a machine under load.
const buildTimeout = 10 * time.Minute

// Binary returns the path of the command sallyport, built from this checkout. All packages and all runs share the file:
// a build that finds it current does not link it again.
func Binary(t *testing.T) string {
	t.Helper()
	path, err := buildBinary()
	require.NoError(t, err)
	return path
}

var buildBinary = sync.OnceValues(func() (path string, err error) { //nolint:gochecknoglobals // one for the process
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout) // outlives the test that needs it first
	defer cancel()
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	sum := sha256.Sum256(mod)
	dir := filepath.Join(cache, "sallyport-test", hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of the binary: %w", err)
	}
	lock, err := filelock.Wait(ctx, filepath.Join(dir, "build.lock"), filelock.Exclusive)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return "", err
	}
	defer lock.Close() //nolint:errcheck // unlocks; nothing was written
	path = filepath.Join(dir, "sallyport")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "sallyport/cmd/sallyport")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the binary: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return path, nil
})
