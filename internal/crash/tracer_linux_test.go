package crash_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tracerVariable makes the test binary run the command of its arguments and count how often it syncs a file. The count
// is in the file that the variable names.
const tracerVariable = "SALLYPORT_TEST_TRACER"

func TestMain(m *testing.M) {
	if path := os.Getenv(tracerVariable); path != "" {
		if err := trace(path, os.Args[1:]); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// trace runs a command and stops it at each of its system calls. A call counts when it has returned without an error.
func trace(counts string, args []string) error {
	runtime.LockOSThread() // only the thread that traces may do so
	file, err := os.OpenFile(counts, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // the test's own binary, which ends with this process
	cmd.Env = []string{}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	if _, err := unix.Wait4(pid, nil, unix.WALL, nil); err != nil {
		return err
	}
	if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|
		unix.PTRACE_O_EXITKILL); err != nil {
		return err
	}
	if err := unix.PtraceSyscall(pid, 0); err != nil {
		return err
	}
	var synced uint64
	syncing := map[int]bool{}
	for {
		var status unix.WaitStatus
		tid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case !status.Stopped():
			if tid == pid {
				return nil
			}
			continue
		}
		signal := 0
		switch stop := status.StopSignal(); stop {
		case unix.SIGTRAP | 0x80:
			if done, err := syncEnds(tid, syncing); err != nil {
				return err
			} else if done {
				synced++
				if _, err := file.WriteAt(binary.LittleEndian.AppendUint64(nil, synced), 0); err != nil {
					return err
				}
			}
		case unix.SIGTRAP, unix.SIGSTOP: // a new thread
		default:
			signal = int(stop)
		}
		if err := unix.PtraceSyscall(tid, signal); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
}

// syscallInfo is struct ptrace_syscall_info of the kernel. number is that of the call at its entry, and its result at
// its exit.
type syscallInfo struct {
	op     uint8
	_      [3]uint8
	_      uint32
	_, _   uint64
	number int64
	_      [7]uint64
}

const (
	ptraceGetSyscallInfo        = 0x420e
	syscallEntered, syscallLeft = 1, 2
)

// syncEnds reports whether the thread, which has stopped at a system call, leaves one that has synced a file.
func syncEnds(tid int, syncing map[int]bool) (bool, error) {
	var info syscallInfo
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, ptraceGetSyscallInfo, uintptr(tid), unsafe.Sizeof(info),
		uintptr(unsafe.Pointer(&info)), 0, 0) //nolint:gosec // the kernel fills it in
	switch {
	case errno == unix.ESRCH:
		return false, nil // it was killed
	case errno != 0:
		return false, errno
	case info.op == syscallEntered:
		syncing[tid] = info.number == unix.SYS_FSYNC || info.number == unix.SYS_FDATASYNC
		return false, nil
	default:
		done := info.op == syscallLeft && syncing[tid] && info.number == 0
		syncing[tid] = false
		return done, nil
	}
}
