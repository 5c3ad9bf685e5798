package procstat_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/bench/internal/procstat"
	"sallyport/internal/platform/clock"
)

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

const status = "Name:\tsallyport\nVmPeak:\t 1300000 kB\nVmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\n"

// The fields are those of proc_pid_stat(5) and proc_pid_status(5), also for a command whose name imitates the format.
func TestProcReadsTheDocumentedFields(t *testing.T) {
	t.Parallel()
	proc := procstat.In(folder(t, map[string]string{
		"status": status,
		"stat":   "42 (a) R 1 (b)) S 1 42 42 0 -1 4194560 1 2 3 4 150 75 1000 2000 20 0 9 0 1 2 3\n",
	}))
	memory, err := proc.Memory()
	require.NoError(t, err)
	require.Equal(t, procstat.Memory{Resident: 1 << 20, Peak: 2 << 20}, memory)
	cpu, err := proc.CPU()
	require.NoError(t, err)
	require.Equal(t, 2250*time.Millisecond, cpu, "utime and stime, without the children's times")
}

// The time of a family is that of its first process, of its children, and of those that have ended; no other process
// counts.
func TestFamilyCPU(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for pid, text := range map[string]string{
		"10": "10 (postgres) S 1 10 10 0 -1 4194560 1 2 3 4 100 50 200 50 20 0 9 0 1 2 3\n",
		"11": "11 (postgres) S 10 10 10 0 -1 4194560 1 2 3 4 30 20 0 0 20 0 9 0 1 2 3\n",
		"12": "12 (other) S 1 12 12 0 -1 4194560 1 2 3 4 9000 9000 0 0 20 0 9 0 1 2 3\n",
	} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, pid), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, pid, "stat"), []byte(text), 0o600))
	}
	child := procstat.In(filepath.Join(dir, "11"))
	parent, err := child.Parent()
	require.NoError(t, err)
	cpu, err := parent.FamilyCPU()
	require.NoError(t, err)
	require.Equal(t, 4500*time.Millisecond, cpu)
	cpu, err = child.FamilyCPU()
	require.NoError(t, err)
	require.Equal(t, 500*time.Millisecond, cpu)
}

// Figures must never be taken from a file that reads otherwise, nor be zero for a process that is gone.
func TestProcRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"cut":      {"status": "Name:\tx\n", "stat": "42 (a) S 1 2"},
		"no name":  {"status": "VmRSS:\t12\nVmHWM:\t12 kB\n", "stat": "42"},
		"not a no": {"status": "VmRSS:\tx kB\n", "stat": "42 (a) S 1 42 42 0 -1 4194560 1 2 3 4 x y 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proc := procstat.In(folder(t, files))
			_, err := proc.Memory()
			require.ErrorIs(t, err, procstat.ErrFormat)
			_, err = proc.CPU()
			require.ErrorIs(t, err, procstat.ErrFormat)
		})
	}
	gone := procstat.In(filepath.Join(t.TempDir(), "gone"))
	_, err := gone.Memory()
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = gone.CPU()
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A peak belongs to its phase: Begin forgets the former one, and a peak between two questions is not lost.
func TestSamplerKeepsThePeakOfItsPhase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		set := func(kib string) {
			text := "VmHWM:\t9 kB\nVmRSS:\t" + kib + " kB\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, "status"), []byte(text), 0o600))
		}
		// The time in the bubble stands still until everything in it waits: advance lets exactly one reading happen.
		advance := func() {
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
		}
		set("1")
		s := procstat.Sample(t.Context(), clock.System(), procstat.In(dir))
		s.Begin()
		set("4096")
		advance()
		set("512")
		peak, err := s.Peak()
		require.NoError(t, err)
		require.EqualValues(t, 4<<20, peak)

		s.Begin()
		advance()
		peak, err = s.Peak()
		require.NoError(t, err)
		require.EqualValues(t, 512<<10, peak)

		s.Stop()
		set("8192")
		advance()
		set("512")
		peak, err = s.Peak()
		require.NoError(t, err)
		require.EqualValues(t, 512<<10, peak, "Stop ends the readings")
	})
}

// The longest mount point that contains the folder decides, the later of two equal ones, and a common prefix is not
// containment.
func TestFileSystem(t *testing.T) {
	t.Parallel()
	const mounts = "overlay / overlay rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/a /data ext4 rw 0 0\n/dev/b /data xfs rw 0 " +
		"0\nbroken\n"
	for dir, kind := range map[string]string{
		"/": "overlay", "/tmp": "tmpfs", "/tmp/x": "tmpfs", "/tmpfile": "overlay", "/data/x": "xfs",
	} {
		require.Equal(t, kind, procstat.FileSystem(mounts, dir), dir)
	}
	require.Equal(t, "unknown", procstat.FileSystem("", "/"))
}

// The probe leaves nothing behind and refuses a folder that is not there.
func TestMeasureFsync(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	summary, err := procstat.MeasureFsync(clock.System(), dir)
	require.NoError(t, err)
	require.Equal(t, 200, summary.Count)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = procstat.MeasureFsync(clock.System(), filepath.Join(dir, "gone"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// On Linux, the only system the bench runs on, every fact is there.
func TestReadMachine(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("/proc is Linux's")
	}
	machine, err := procstat.ReadMachine()
	require.NoError(t, err)
	require.NotEmpty(t, machine.CPU)
	require.NotEmpty(t, machine.Kernel)
	require.Positive(t, machine.Cores)
	require.Positive(t, machine.MemoryBytes)
	own := procstat.Of(os.Getpid())
	memory, err := own.Memory()
	require.NoError(t, err)
	require.Positive(t, memory.Resident)
	_, err = own.CPU()
	require.NoError(t, err)
}
