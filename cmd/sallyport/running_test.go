package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
)

// screen is what a command prints while it runs.
type screen struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// running is a command under way.
type running struct {
	t           *testing.T
	out, stderr screen
	end         context.CancelFunc
	code        chan int
}

// start starts a command that runs until it is interrupted.
func (r remote) start(args ...string) *running {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	c := &running{t: r.t, end: cancel, code: make(chan int, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.code <- run(ctx, process{args: args, environ: r.environ, stdin: strings.NewReader(""), stdout: &c.out,
			stderr: &c.stderr, clock: clock.System()})
	}()
	r.t.Cleanup(func() {
		cancel()
		<-done
	})
	return c
}

// waits returns when a pattern has shown so many times.
func (c *running) waits(times int, pattern string, in *screen) {
	c.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for want := regexp.MustCompile(pattern); len(want.FindAllString(in.String(), -1)) < times; {
		select {
		case <-again.C:
		case <-deadline.C:
			require.FailNow(c.t, "waited in vain", "%d times %q in\n%s%s", times, pattern, c.out.String(), c.stderr.String())
		}
	}
}

// exits waits until the command ends by itself, with the code.
func (c *running) exits(want int) {
	c.t.Helper()
	select {
	case code := <-c.code:
		require.Equal(c.t, want, code, c.stderr.String())
	case <-time.After(patience):
		require.FailNow(c.t, "the command does not end", "%s%s", c.out.String(), c.stderr.String())
	}
}

// interrupt ends the command as Ctrl-C does; it has to take that for success.
func (c *running) interrupt() {
	c.t.Helper()
	c.end()
	c.exits(exitOK)
}
