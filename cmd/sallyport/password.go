package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"sallyport/internal/platform/secretbox"
)

// maxPasswordLine is longer than any password that is accepted.
const maxPasswordLine = 4096

// readPassword reads a password: at a terminal twice and without echo, otherwise from the first line. There is no flag
// for it, because command lines appear in histories and process lists.
func (e *env) readPassword(ctx context.Context) (secretbox.Secret, error) {
	f, ok := e.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return firstLine(e.stdin)
	}
	first, err := e.prompt(ctx, f, "Password: ")
	if err != nil {
		return "", err
	}
	second, err := e.prompt(ctx, f, "Password again: ")
	if err != nil {
		return "", err
	}
	if first != second {
		return "", errors.New("the two passwords differ")
	}
	return first, nil
}

func firstLine(r io.Reader) (secretbox.Secret, error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxPasswordLine)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the password: %w", err)
	}
	line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if line == "" {
		return "", errors.New("there is no password on standard input: type one of at least 12 characters, or give a file " +
			"with < FILE")
	}
	return secretbox.Secret(line), nil
}

// prompt reads a line from the terminal without echo. An interrupt ends the wait and restores the echo.
func (e *env) prompt(ctx context.Context, f *os.File, text string) (secretbox.Secret, error) {
	fd := int(f.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("read the terminal's state: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	if _, err := fmt.Fprint(e.stderr, text); err != nil {
		return "", err
	}
	type input struct {
		line []byte
		err  error
	}
	got := make(chan input, 1)
	go func() {
		line, err := term.ReadPassword(fd)
		got <- input{line, err}
	}()
	select {
	case a := <-got:
		e.note("")
		if a.err != nil {
			return "", fmt.Errorf("read the password: %w", a.err)
		}
		return secretbox.Secret(a.line), nil
	case <-ctx.Done():
		e.note("")
		return "", errors.Join(errors.New("interrupted"), term.Restore(fd, before))
	}
}
