// Package procstat reads from Linux's /proc what a process uses and what machine it runs on.
package procstat

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is USER_HZ, the unit of times in /proc (proc_pid_stat(5)). Linux fixes it at 100 on every architecture
// that Go supports.
const ticksPerSecond = 100

// ErrFormat reports a file in /proc that does not read as documented.
var ErrFormat = errors.New("unexpected format")

// Memory is a process's resident memory in bytes.
type Memory struct {
	// Resident is VmRSS, the present size.
	Resident int64
	// Peak is VmHWM, the kernel's high-water mark over the whole life of the process.
	Peak int64
}

// Proc reads one process.
type Proc struct {
	dir string
}

// Of returns the Proc of a process identifier.
func Of(pid int) Proc { return In(filepath.Join("/proc", strconv.Itoa(pid))) }

// In returns the Proc described by the files of a directory.
func In(dir string) Proc { return Proc{dir: dir} }

// Memory reads the present and the highest resident size.
func (p Proc) Memory() (Memory, error) {
	text, err := os.ReadFile(filepath.Join(p.dir, "status"))
	if err != nil {
		return Memory{}, fmt.Errorf("read memory use: %w", err)
	}
	var m Memory
	if m.Resident, err = kibibytes(string(text), "VmRSS:"); err != nil {
		return Memory{}, err
	}
	if m.Peak, err = kibibytes(string(text), "VmHWM:"); err != nil {
		return Memory{}, err
	}
	return m, nil
}

// CPU reads the processor time used so far by all threads, in user and kernel mode, in steps of 10 ms.
func (p Proc) CPU() (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join(p.dir, "stat"))
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	// The second field is the command's name in parentheses and may itself hold spaces and parentheses; field 3 follows
	// the last one.
	end := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	const utime, stime = 14 - 3, 15 - 3
	if end < 0 || len(fields) <= stime {
		return 0, fmt.Errorf("%w: stat", ErrFormat)
	}
	var ticks int64
	for _, i := range []int{utime, stime} {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: stat: %w", ErrFormat, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// kibibytes returns the value of a "Name:  123 kB" line in bytes. /proc writes kB and means 1,024 bytes.
func kibibytes(text, name string) (int64, error) {
	for line := range strings.Lines(text) {
		value, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		number, ok := strings.CutSuffix(strings.TrimSpace(value), " kB")
		n, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil {
			return 0, fmt.Errorf("%w: %s", ErrFormat, name)
		}
		return n << 10, nil
	}
	return 0, fmt.Errorf("%w: no %s", ErrFormat, name)
}
