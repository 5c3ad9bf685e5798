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
	s, err := p.stat()
	return s.own, err
}

// FamilyCPU reads the processor time of the process and of its children, present and former: that of a PostgreSQL
// server, if this is its first process.
func (p Proc) FamilyCPU() (time.Duration, error) {
	s, err := p.stat()
	if err != nil {
		return 0, err
	}
	total := s.own + s.ended
	others, err := filepath.Glob(filepath.Join(filepath.Dir(p.dir), "[0-9]*"))
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	pid := filepath.Base(p.dir)
	for _, dir := range others {
		if child, err := In(dir).stat(); err == nil && child.parent == pid { // others end meanwhile
			total += child.own
		}
	}
	return total, nil
}

// Parent reads the process that has started this one.
func (p Proc) Parent() (Proc, error) {
	s, err := p.stat()
	return In(filepath.Join(filepath.Dir(p.dir), s.parent)), err
}

// stat is what proc_pid_stat(5) says of a process: its parent, its own time, and that of its children that have ended.
type stat struct {
	parent     string
	own, ended time.Duration
}

func (p Proc) stat() (stat, error) {
	text, err := os.ReadFile(filepath.Join(p.dir, "stat"))
	if err != nil {
		return stat{}, fmt.Errorf("read processor time: %w", err)
	}
	// The second field is the command's name in parentheses and may itself hold spaces and parentheses; field 3 follows
	// the last one.
	end := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	const ppid, utime, cstime = 4 - 3, 14 - 3, 17 - 3
	if end < 0 || len(fields) <= cstime {
		return stat{}, fmt.Errorf("%w: stat", ErrFormat)
	}
	var ticks [4]int64 // utime, stime, cutime and cstime
	for i := range ticks {
		if ticks[i], err = strconv.ParseInt(string(fields[utime+i]), 10, 64); err != nil {
			return stat{}, fmt.Errorf("%w: stat: %w", ErrFormat, err)
		}
	}
	span := func(n int64) time.Duration { return time.Duration(n) * time.Second / ticksPerSecond }
	return stat{parent: string(fields[ppid]), own: span(ticks[0] + ticks[1]), ended: span(ticks[2] + ticks[3])}, nil
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
