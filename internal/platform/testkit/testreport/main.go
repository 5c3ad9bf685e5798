// Command testreport reads what `go test -json` writes and prints what `go test` prints without -json: a line for each
// package, and the output of the tests that failed. Below that it prints how many tests passed, why tests were skipped,
// and which tests were the slowest. It fails where a test failed or took longer than the limit.
//
// With -more it also writes a file of the tests that may do more in other runs, such as those with SALLYPORT_TEST_LONG:
// tests of which a part was skipped, and properties. Other runs need not run the rest again.
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
	more := flag.String("more", "", "the file to write the tests to that may do more in other runs")
	flag.Parse()
	ok, err := run(os.Stdin, os.Stdout, *limit, *slowest, *more)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run returns whether every test passed in time.
func run(in io.Reader, out io.Writer, limit time.Duration, slowest int, more string) (bool, error) {
	r := newReport(out)
	if err := r.read(in); err != nil {
		return false, err
	}
	ok, err := r.summarise(limit, slowest)
	if err != nil || more == "" {
		return ok, err
	}
	if err := os.WriteFile(more, []byte(r.moreTests()), 0o600); err != nil {
		return false, fmt.Errorf("write the tests that may do more in other runs: %w", err)
	}
	return ok, nil
}
