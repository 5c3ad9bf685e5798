// Command testreport reads what `go test -json` writes and prints what `go test` prints without -json: a line for each
// package, and the output of the tests that failed. Below that it prints how many tests passed, why tests were skipped,
// and which tests were the slowest. It fails where a test failed or took longer than the limit.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	limit := flag.Duration("limit", 0, "the longest that a test may take; 0 for no limit")
	slowest := flag.Int("slowest", 10, "how many of the slowest tests to print")
	flag.Parse()
	ok, err := run(os.Stdin, os.Stdout, *limit, *slowest)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run returns whether every test passed in time.
func run(in io.Reader, out io.Writer, limit time.Duration, slowest int) (bool, error) {
	r := newReport(out)
	if err := r.read(in); err != nil {
		return false, err
	}
	return r.summarise(limit, slowest)
}
