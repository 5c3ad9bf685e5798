package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"sallyport/bench/internal/procstat"
	"sallyport/bench/internal/report"
	"sallyport/internal/platform/clock"
)

// readEnvironment describes what the figures depend on: machine, toolchains, revision, binary, and the disk under
// dataRoot.
func readEnvironment(ctx context.Context, clk clock.Clock, binary, dataRoot string) (report.Environment, error) {
	env := report.Environment{GoVersion: runtime.Version(), ServerGoVersion: "unknown", Revision: revision(ctx)}
	var err error
	if env.Machine, err = procstat.ReadMachine(); err != nil {
		return env, err
	}
	if info, err := buildinfo.ReadFile(binary); err == nil {
		env.ServerGoVersion = info.GoVersion
	}
	if env.BinarySHA256, err = fileSHA256(binary); err != nil {
		return env, err
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return env, fmt.Errorf("read mounts: %w", err)
	}
	folder, err := filepath.EvalSymlinks(dataRoot)
	if err != nil {
		return env, fmt.Errorf("data folder: %w", err)
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return env, fmt.Errorf("data folder: %w", err)
	}
	env.DataFileSystem = procstat.FileSystem(string(mounts), folder)
	fsync, err := procstat.MeasureFsync(clk, folder)
	if err != nil {
		return env, err
	}
	env.Fsync = report.NewQuantiles(fsync)
	return env, nil
}

// revision returns git's commit of the present folder, marked when files differ from it, and "unknown" outside a
// checkout.
func revision(ctx context.Context) string {
	git := func(args ...string) (string, error) {
		var out bytes.Buffer
		// The checkout may belong to another user than the one who measures.
		cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=*"}, args...)...)
		cmd.Stdout = &out
		err := cmd.Run()
		return strings.TrimSpace(out.String()), err
	}
	commit, commitErr := git("rev-parse", "HEAD")
	changes, statusErr := git("status", "--porcelain")
	switch {
	case errors.Join(commitErr, statusErr) != nil:
		return "unknown"
	case changes != "":
		return commit + "+changes"
	default:
		return commit
	}
}

func fileSHA256(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read binary: %w", err)
	}
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	if err := errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("read binary: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
