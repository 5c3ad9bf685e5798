// Package target starts and ends what is measured: the gateway on either engine with a database of its own, and the
// yardstick.
package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// stopTimeout is how long a process may take to end after SIGTERM; the gateway's own limit for a stop is 30 s.
const stopTimeout = 45 * time.Second

// process is a child whose end is always awaited.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	// err is what Wait returned; it is set before done is closed.
	err error
}

// start runs cmd. The end of the context that cmd was made with ends the process by SIGTERM, and by SIGKILL after
// stopTimeout.
func start(cmd *exec.Cmd) (*process, error) {
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// pid returns the process identifier.
func (p *process) pid() int { return p.cmd.Process.Pid }

// wait waits for the end and returns how the process ended.
func (p *process) wait() error {
	<-p.done
	return p.err
}

// FreeAddr returns a loopback address whose port was free a moment ago. Another process can take it in between; then
// the server does not start, and says so.
func FreeAddr(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return addr, nil
}

// logFile makes the file that takes a child's output.
func logFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make log file: %w", err)
	}
	return file, nil
}

// runWithLog starts cmd with both outputs to the file at path, which stays open until the process has ended.
func runWithLog(cmd *exec.Cmd, path string) (*process, error) {
	log, err := logFile(path)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	p, err := start(cmd)
	// The child has its own descriptor.
	return p, errors.Join(err, log.Close())
}
