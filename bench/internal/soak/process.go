//go:build linux

package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// patience bounds each wait for something that must happen. It is no measure of speed.
const patience = 90 * time.Second

// errNode reports a node that did not do what a process must.
var errNode = errors.New("node")

// process is a node over all its lives: it ends and starts again with the same data folder and address.
type process struct {
	name    string
	cfg     nodeConfig
	logPath string
	http    *http.Client

	cmd    *exec.Cmd
	steps  io.WriteCloser
	exited chan struct{}
	err    error // of the last life; set when exited is closed
}

// start begins a life and returns when the node is ready.
func (p *process) start(ctx context.Context) error {
	if err := p.launch(); err != nil {
		return err
	}
	return p.awaitReady(ctx)
}

func (p *process) launch() error {
	configuration, err := json.Marshal(p.cfg)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()                                              //nolint:errcheck // the node has its own descriptor
	p.cmd = exec.Command(self, NodeCommand, string(configuration)) //nolint:noctx // end and close end it
	p.cmd.Env = []string{}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if p.steps, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	p.exited = exited
	go func() {
		p.err = p.cmd.Wait()
		close(exited)
	}()
	return nil
}

// awaitReady returns when the node says that it is ready.
func (p *process) awaitReady(ctx context.Context) error {
	return waitFor(ctx, p.name+" is ready", func() (bool, error) {
		if !p.alive() {
			return false, fmt.Errorf("%w %s ended by itself: %w; see %s", errNode, p.name, p.err, p.logPath)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.cfg.Listen+"/readyz", http.NoBody)
		if err != nil {
			return false, err
		}
		resp, err := p.http.Do(req)
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		return resp.StatusCode == http.StatusOK, resp.Body.Close()
	})
}

// alive reports whether the present life has not ended.
func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// kill ends the node as the loss of power does.
func (p *process) kill() error {
	if !p.alive() {
		return fmt.Errorf("%w %s ended by itself: %w; see %s", errNode, p.name, p.err, p.logPath)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	return p.awaitEnd(patience)
}

// terminate ends the node in order.
func (p *process) terminate() error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := p.awaitEnd(2 * stopTimeout); err != nil {
		return err
	}
	if p.err != nil {
		return fmt.Errorf("%w %s did not end in order: %w; see %s", errNode, p.name, p.err, p.logPath)
	}
	return nil
}

func (p *process) awaitEnd(limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.exited:
		return nil
	case <-timer.C:
		return fmt.Errorf("%w %s did not end within %s; see %s", errNode, p.name, limit, p.logPath)
	}
}

func (p *process) freeze() error { return p.signal(syscall.SIGSTOP) }
func (p *process) thaw() error   { return p.signal(syscall.SIGCONT) }

func (p *process) signal(s syscall.Signal) error {
	if !p.alive() {
		return fmt.Errorf("%w %s ended by itself: %w; see %s", errNode, p.name, p.err, p.logPath)
	}
	return p.cmd.Process.Signal(s)
}

// stepClock sets how many seconds the node's wall clock is ahead, now and in its next lives.
func (p *process) stepClock(seconds int64) error {
	p.cfg.ClockStep = seconds
	if !p.alive() {
		return nil
	}
	_, err := fmt.Fprintln(p.steps, seconds)
	return err
}

// close ends the node however it is.
func (p *process) close() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.exited
}

// waitFor returns when the condition holds. It asks again at short intervals, and returns an error when patience ends.
func waitFor(ctx context.Context, what string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited in vain for %s: %s", patience, what))
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		done, err := holds()
		if err != nil || done {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pause waits for a part of a disruption.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
