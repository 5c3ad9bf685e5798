package procstat

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"sallyport/bench/internal/stats"
	"sallyport/internal/platform/clock"
)

// Machine describes a machine as far as figures depend on it.
type Machine struct {
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"`
	MemoryBytes int64  `json:"memory_bytes"`
	Kernel      string `json:"kernel"`
}

// ReadMachine describes this machine.
func ReadMachine() (Machine, error) {
	m := Machine{CPU: "unknown", Cores: runtime.NumCPU()}
	cpuinfo, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m, fmt.Errorf("read processor: %w", err)
	}
	for line := range strings.Lines(string(cpuinfo)) {
		// Not every architecture names its model.
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return m, fmt.Errorf("read memory: %w", err)
	}
	if m.MemoryBytes, err = kibibytes(string(meminfo), "MemTotal:"); err != nil {
		return m, err
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return m, fmt.Errorf("read kernel: %w", err)
	}
	m.Kernel = strings.TrimSpace(string(release))
	return m, nil
}

// FileSystem returns the type of the file system that holds a directory, from the given text of /proc/self/mounts. On
// tmpfs an fsync costs nothing, and figures taken there mean nothing.
func FileSystem(mounts, dir string) string {
	best, kind := "", "unknown"
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		point := fields[1]
		inside := point == "/" || dir == point || strings.HasPrefix(dir, point+"/")
		// Of two mounts on one point the later hides the earlier.
		if inside && len(point) >= len(best) {
			best, kind = point, fields[2]
		}
	}
	return kind
}

const (
	fsyncRounds = 200
	fsyncBytes  = 4096
)

// MeasureFsync appends 4 KiB to a new file in dir and forces it to disk, 200 times, and removes the file. The times are
// a floor for what a commit can take.
func MeasureFsync(clk clock.Clock, dir string) (summary stats.Summary, err error) {
	path := filepath.Join(dir, "fsync-probe")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return stats.Summary{}, fmt.Errorf("measure fsync: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(path)) }()
	block := make([]byte, fsyncBytes)
	samples := make([]time.Duration, 0, fsyncRounds)
	for range fsyncRounds {
		start := clk.Now()
		if _, err := file.Write(block); err != nil {
			return stats.Summary{}, fmt.Errorf("measure fsync: %w", err)
		}
		if err := file.Sync(); err != nil {
			return stats.Summary{}, fmt.Errorf("measure fsync: %w", err)
		}
		samples = append(samples, clk.Now().Sub(start))
	}
	return stats.Summarise(samples), nil
}
