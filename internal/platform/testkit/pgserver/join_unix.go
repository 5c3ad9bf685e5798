//go:build unix

package pgserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sallyport/internal/platform/testkit/filelock"
)

// keeperPackage is built by the first process to join.
const keeperPackage = "sallyport/internal/platform/testkit/pgserver/keeper"

// retry is how often a process looks for the server that another one is about to start.
const retry = 20 * time.Millisecond

// Join returns the user's server, which it starts where none is running. The calling process holds the server until it
// ends.
func Join(ctx context.Context) (*Server, error) {
	dir, err := folder()
	if err != nil {
		return nil, err
	}
	return join(ctx, dir, linger)
}

// join is Join with a folder, and with how long the server outlives its last holder.
func join(ctx context.Context, dir string, linger time.Duration) (*Server, error) {
	bin, version, err := find()
	if err != nil {
		return nil, err
	}
	start, err := filelock.Wait(ctx, filepath.Join(dir, startLock), filelock.Exclusive)
	if err != nil {
		return nil, err
	}
	defer start.Close() //nolint:errcheck // unlocks; nothing was written
	if err := ensureServer(ctx, dir, bin, linger); err != nil {
		return nil, err
	}
	hold, err := filelock.Wait(ctx, filepath.Join(dir, holdersLock), filelock.Shared)
	if err != nil {
		return nil, err
	}
	url, err := os.ReadFile(filepath.Join(dir, urlFile))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the server's URL: %w", err), closing(hold))
	}
	return &Server{URL: string(url), Version: version, hold: hold}, nil
}

// ensureServer returns when a server runs. The caller holds start.lock.
func ensureServer(ctx context.Context, dir, bin string, linger time.Duration) error {
	again := time.NewTicker(retry)
	defer again.Stop()
	for {
		runs, err := keeperRuns(dir)
		if err != nil {
			return err
		}
		if !runs {
			return startKeeper(ctx, dir, bin, linger)
		}
		if _, err := os.Stat(filepath.Join(dir, urlFile)); err == nil {
			return nil
		}
		// The process that started this keeper was killed before the server ran.
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the server: %w", ctx.Err())
		}
	}
}

// folder returns the folder of this user's server. No other user may write to it.
func folder() (string, error) {
	dir := filepath.Join(tempDir(), "sallyport-test-postgres-"+strconv.Itoa(os.Getuid()))
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make the server's folder: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("look at the server's folder: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s belongs to another user", dir)
	}
	return dir, nil
}

// tempDir returns the folder for temporary files, or /tmp where that is closed to the user who runs the server for
// root.
func tempDir() string {
	dir := os.TempDir()
	if os.Getuid() != 0 {
		return dir
	}
	for path := filepath.Clean(dir); ; path = filepath.Dir(path) {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o001 == 0 {
			return "/tmp"
		}
		if path == filepath.Dir(path) {
			return dir
		}
	}
}

// keeperRuns reports whether a keeper is alive.
func keeperRuns(dir string) (bool, error) {
	f, err := filelock.Try(filepath.Join(dir, keeperLock), filelock.Exclusive)
	if errors.Is(err, filelock.ErrLocked) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, closing(f)
}

// startKeeper builds and starts a keeper, and returns when its server accepts connections.
func startKeeper(ctx context.Context, dir, bin string, linger time.Duration) error {
	program := filepath.Join(dir, keeperFile)
	build := exec.CommandContext(ctx, "go", "build", "-o", program, keeperPackage)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the server's keeper: %w: %s", err, out)
	}
	keeper := exec.Command(program, dir, bin, linger.String()) //nolint:noctx // outlives this process
	keeper.Dir = dir
	// A keeper that shared the session would end with the first interrupt from the terminal.
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := keeper.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start the server's keeper: %w", err)
	}
	if err := keeper.Start(); err != nil {
		return fmt.Errorf("start the server's keeper: %w", err)
	}
	said := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n') // a keeper that says nothing is not ready
		said <- strings.TrimSpace(line)
	}()
	select {
	case line := <-said:
		if line != ready {
			return fmt.Errorf("start PostgreSQL from %s: %s", bin, line)
		}
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("start PostgreSQL from %s: %w", bin, ctx.Err()), keeper.Process.Kill())
	}
}

func closing(f *os.File) error {
	if err := f.Close(); err != nil {
		return fmt.Errorf("close %s: %w", f.Name(), err)
	}
	return nil
}
