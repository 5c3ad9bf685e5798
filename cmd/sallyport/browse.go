package main

import (
	"context"
	"io"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
)

// browserTimeout is how long the command waits for the program that shows a page: it passes the page to a browser, and
// ends.
const browserTimeout = 10 * time.Second

// browseWith returns what shows a page to the user, and reports whether it was shown. That is only so at a terminal
// with a screen: a browser of a machine on which someone is logged in from elsewhere would help no one.
func browseWith(goos string, environ []string, out io.Writer) func(ctx context.Context, page string) bool {
	return func(ctx context.Context, page string) bool {
		f, ok := out.(*os.File)
		if !ok || !term.IsTerminal(int(f.Fd())) {
			return false
		}
		program := browserOf(goos, environ, page)
		if program == nil {
			return false
		}
		return show(ctx, program, browserTimeout)
	}
}

// show runs a program and reports whether it has shown a page: it ended without an error in time, or it still runs and
// so is the browser itself, which stays. A machine without a desktop has no such program, or one that fails.
func show(ctx context.Context, program []string, timeout time.Duration) bool {
	// The browser outlives the command.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program[0], program[1:]...) //nolint:gosec // of browserOf
	if err := cmd.Start(); err != nil {
		return false
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	limit, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case err := <-ended:
		return err == nil
	case <-limit.Done():
		return ctx.Err() == nil
	}
}

// browserOf returns the program that shows a page, with its arguments; nil if there is none. The page comes from a
// server, and is shown only if it is one: other URLs start other programs.
func browserOf(goos string, environ []string, page string) []string {
	u, err := url.Parse(page)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(environ, func(v string) bool {
			name, value, _ := strings.Cut(v, "=")
			return value != "" && slices.Contains(names, name)
		})
	}
	switch {
	case has("SSH_CONNECTION", "SSH_TTY"):
		return nil
	case goos == "darwin":
		return []string{"open", page}
	case goos == "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler", page}
	case has("DISPLAY", "WAYLAND_DISPLAY"):
		return []string{"xdg-open", page}
	default:
		return nil
	}
}
