package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/testkit/await"
)

// screen is the output of a running command.
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

// running is a command in progress.
type running struct {
	t           *testing.T
	out, stderr screen
	end         context.CancelFunc
	code        chan int
}

// start starts a command that runs until it is interrupted.
func (r remote) start(args ...string) *running {
	r.t.Helper()
	return r.startAt(clock.System(), args...)
}

// startAt is start with a clock.
func (r remote) startAt(clk clock.Clock, args ...string) *running {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	c := &running{t: r.t, end: cancel, code: make(chan int, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.code <- run(ctx, process{args: args, environ: r.environ, stdin: strings.NewReader(""), stdout: &c.out,
			stderr: &c.stderr, clock: clk})
	}()
	r.t.Cleanup(func() {
		cancel()
		await.Value(c.t, "the end of "+strings.Join(args, " "), done, c.output)
	})
	return c
}

// output returns all that the command has printed.
func (c *running) output() string { return c.out.String() + c.stderr.String() }

// waits returns when a pattern has shown so many times.
func (c *running) waits(times int, pattern string, in *screen) {
	c.t.Helper()
	want := regexp.MustCompile(pattern)
	await.Condition(c.t, fmt.Sprintf("%d times %q", times, pattern), func() bool {
		return len(want.FindAllString(in.String(), -1)) >= times
	})
}

// exits waits until the command ends by itself, with the code.
func (c *running) exits(want int) {
	c.t.Helper()
	require.Equal(c.t, want, await.Value(c.t, "the end of the command", c.code, c.output), c.stderr.String())
}

// interrupt ends the command as Ctrl-C does; it has to take that for success.
func (c *running) interrupt() {
	c.t.Helper()
	c.end()
	c.exits(exitOK)
}
