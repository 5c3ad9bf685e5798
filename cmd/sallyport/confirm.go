package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// maxReply is longer than any reply to a question.
const maxReply = 100

// confirm asks the user at a terminal whether something is to happen, after a text that says what. Without a terminal
// it returns a usage error with the text and the advice how to confirm it.
func (e *env) confirm(ctx context.Context, text, question, advice string) error {
	f, ok := e.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return usageError(text + " " + advice)
	}
	e.note("%s", text)
	if _, err := fmt.Fprintf(e.stderr, "%s [y/N] ", question); err != nil {
		return err
	}
	reply := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(f, maxReply)).ReadString('\n') // a line that is not whole is no consent
		reply <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case line := <-reply:
		if line == "y" || line == "yes" {
			return nil
		}
		return errNotConfirmed
	case <-ctx.Done():
		e.note("")
		return ctx.Err()
	}
}
