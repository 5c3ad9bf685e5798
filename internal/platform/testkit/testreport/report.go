package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// result is a test that has ended.
type result struct {
	name    string
	elapsed time.Duration
}

// report collects the results of a run.
type report struct {
	out io.Writer
	// err is the first error of out.
	err error
	// output holds what packages and tests that have not ended have printed, by package and test.
	output map[string][]string
	// open lists the tests of each package that have begun and not ended, in the order of their beginning.
	open   map[string][]string
	ended  []result
	passed int
	failed []string
	// skipped counts tests by the reason they gave.
	skipped map[string]int
	// more has the tests that may do more in other runs.
	more map[moreTest]bool
}

// moreTest is a test that may do more where it has other variables of the environment, such as that of long runs.
type moreTest struct {
	// kind is skippedTest or property.
	kind, pkg string
	// test is the name of the function: subtests are part of it.
	test string
}

const (
	// skippedTest is the kind of a test that was skipped, or a part of it.
	skippedTest = "skipped"
	// property is the kind of a test for which rapid draws cases.
	property = "property"
)

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[string][]string{}, open: map[string][]string{}, skipped: map[string]int{},
		more: map[moreTest]bool{}}
}

func (r *report) print(format string, args ...any) {
	if _, err := fmt.Fprintf(r.out, format, args...); r.err == nil {
		r.err = err
	}
}

// read reads events to the end.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil {
				r.take(e)
			} else {
				r.print("%s", line) // the go command's own words
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the events: %w", err)
		}
	}
}

func (r *report) take(e event) {
	key := e.Package + " " + e.Test
	switch {
	case e.Action == "build-output":
		r.print("%s", e.Output)
	case e.Action == "output":
		r.output[key] = append(r.output[key], e.Output)
	case e.Action == "run":
		r.open[e.Package] = append(r.open[e.Package], e.Test)
	case e.Action != "pass" && e.Action != "fail" && e.Action != "skip": // start, pause, cont, bench, build-fail
	case e.Test == "":
		r.endPackage(e)
	default:
		r.endTest(e, key)
	}
}

// endTest prints the output of a test that failed.
func (r *report) endTest(e event, key string) {
	name := strings.TrimPrefix(e.Package, "sallyport/") + "." + e.Test
	r.ended = append(r.ended, result{name, time.Duration(e.Elapsed * float64(time.Second))})
	r.open[e.Package] = slices.DeleteFunc(r.open[e.Package], func(test string) bool { return test == e.Test })
	switch e.Action {
	case "fail":
		r.failed = append(r.failed, name)
		r.flush(key)
	case "skip":
		r.skipped[reason(r.output[key])]++
		r.addMore(skippedTest, e)
	default:
		r.passed++
		if slices.ContainsFunc(r.output[key], drawn.MatchString) {
			r.addMore(property, e)
		}
	}
	delete(r.output, key)
}

// drawn is what rapid logs about a property.
var drawn = regexp.MustCompile(`\[rapid\] OK, passed \d+ tests`)

func (r *report) addMore(kind string, e event) {
	function, _, _ := strings.Cut(e.Test, "/")
	r.more[moreTest{kind, e.Package, function}] = true
}

// moreTests returns a line for each test that may do more in other runs: its kind, package and name.
func (r *report) moreTests() string {
	var lines []string
	for t := range r.more {
		lines = append(lines, t.kind+" "+t.pkg+" "+t.test+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// endPackage prints the package's line and, where it failed, all remaining output: the output of an unfinished test
// shows where a panic or the time limit struck.
func (r *report) endPackage(e event) {
	key := e.Package + " "
	if e.Action == "fail" {
		name := strings.TrimPrefix(e.Package, "sallyport/")
		for _, test := range r.open[e.Package] {
			r.failed = append(r.failed, name+"."+test)
			r.flush(key + test)
		}
		if !slices.ContainsFunc(r.failed, func(f string) bool { return strings.HasPrefix(f, name+".") }) {
			r.failed = append(r.failed, name)
		}
		r.flush(key)
	} else if lines := r.output[key]; len(lines) > 0 {
		r.print("%s", lines[len(lines)-1])
	}
	delete(r.output, key)
	delete(r.open, e.Package)
}

// flush prints output, without the lines about the beginning and the pauses of tests.
func (r *report) flush(key string) {
	for _, line := range r.output[key] {
		if !strings.HasPrefix(line, "=== ") {
			r.print("%s", line)
		}
	}
}

// place is where a test's log begins.
var place = regexp.MustCompile(`^\s+\S+\.go:\d+: `)

// reason returns the last line that a skipped test logged.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		if at := place.FindStringIndex(line); at != nil {
			return strings.TrimSpace(line[at[1]:])
		}
	}
	return "no reason given"
}

// summarise prints the summary and returns whether every test passed in time.
func (r *report) summarise(limit time.Duration, slowest int) (bool, error) {
	skipped := 0
	for _, n := range r.skipped {
		skipped += n
	}
	r.print("\n%d tests passed, %d failed, %d skipped\n", r.passed, len(r.failed), skipped)
	for _, name := range r.failed {
		r.print("  failed: %s\n", name)
	}
	for _, why := range slices.SortedFunc(maps.Keys(r.skipped), func(a, b string) int {
		return cmp.Or(r.skipped[b]-r.skipped[a], cmp.Compare(a, b))
	}) {
		r.print("  skipped %4d: %s\n", r.skipped[why], why)
	}
	slices.SortStableFunc(r.ended, func(a, b result) int { return cmp.Compare(b.elapsed, a.elapsed) })
	r.print("the slowest tests:\n")
	for _, t := range r.ended[:min(slowest, len(r.ended))] {
		r.print("  %6.2fs %s\n", t.elapsed.Seconds(), t.name)
	}
	late := 0
	for _, t := range r.ended {
		if limit > 0 && t.elapsed > limit {
			r.print("took longer than %s: %s\n", limit, t.name)
			late++
		}
	}
	if len(r.ended) == 0 {
		r.print("no test ran\n")
	}
	return len(r.failed) == 0 && late == 0 && len(r.ended) > 0, r.err
}
