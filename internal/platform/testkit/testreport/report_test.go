package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// summarised returns what is printed for a run, and whether it counts as passed.
func summarised(t *testing.T, limit time.Duration, events ...string) (string, bool) {
	t.Helper()
	var out bytes.Buffer
	ok, err := run(strings.NewReader(strings.Join(events, "\n")), &out, limit, 1, "")
	require.NoError(t, err)
	return out.String(), ok
}

func passing() []string {
	return []string{
		`{"Action":"start","Package":"sallyport/a"}`,
		`{"Action":"run","Package":"sallyport/a","Test":"TestGood"}`,
		`{"Action":"output","Package":"sallyport/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}`,
		`{"Action":"output","Package":"sallyport/a","Test":"TestGood","Output":"    a_test.go:7: chatter\n"}`,
		`{"Action":"pass","Package":"sallyport/a","Test":"TestGood","Elapsed":3.5}`,
		`{"Action":"run","Package":"sallyport/a","Test":"TestSkipped"}`,
		`{"Action":"output","Package":"sallyport/a","Test":"TestSkipped","Output":"    a_test.go:9: no such engine\n"}`,
		`{"Action":"output","Package":"sallyport/a","Test":"TestSkipped","Output":"--- SKIP: TestSkipped (0.00s)\n"}`,
		`{"Action":"skip","Package":"sallyport/a","Test":"TestSkipped","Elapsed":0}`,
		`{"Action":"output","Package":"sallyport/a","Output":"PASS\n"}`,
		`{"Action":"output","Package":"sallyport/a","Output":"ok  \tsallyport/a\t3.5s\n"}`,
		`{"Action":"pass","Package":"sallyport/a","Elapsed":3.5}`,
	}
}

// A run that passes is a line for each package, as without -json, and the summary.
func TestPass(t *testing.T) {
	t.Parallel()
	out, ok := summarised(t, time.Minute, passing()...)
	require.True(t, ok)
	require.Equal(t, "ok  \tsallyport/a\t3.5s\n\n1 tests passed, 0 failed, 1 skipped\n"+
		"  skipped    1: no such engine\nthe slowest tests:\n    3.50s a.TestGood\n", out)
}

// A test that takes longer than the limit fails the run, and is named.
func TestLimit(t *testing.T) {
	t.Parallel()
	out, ok := summarised(t, 3*time.Second, passing()...)
	require.False(t, ok)
	require.Contains(t, out, "took longer than 3s: a.TestGood\n")
}

// A failed test, a test that never ends, a build that fails and a run without tests each fail the run, and what they
// printed is shown.
func TestFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events []string
		shown  []string
	}{
		"failed": {[]string{
			`{"Action":"run","Package":"sallyport/a","Test":"TestBad"}`,
			`{"Action":"output","Package":"sallyport/a","Test":"TestBad","Output":"    a_test.go:9: broken\n"}`,
			`{"Action":"output","Package":"sallyport/a","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}`,
			`{"Action":"fail","Package":"sallyport/a","Test":"TestBad","Elapsed":1}`,
			`{"Action":"output","Package":"sallyport/a","Output":"FAIL\tsallyport/a\t3.5s\n"}`,
			`{"Action":"fail","Package":"sallyport/a"}`,
		}, []string{"a_test.go:9: broken", "--- FAIL: TestBad", "FAIL\tsallyport/a\t3.5s\n", "failed: a.TestBad\n"}},
		"panicked": {[]string{
			`{"Action":"run","Package":"sallyport/a","Test":"TestBad"}`,
			`{"Action":"output","Package":"sallyport/a","Test":"TestBad","Output":"panic: test timed out\n"}`,
			`{"Action":"output","Package":"sallyport/a","Output":"FAIL\tsallyport/a\t600s\n"}`,
			`{"Action":"fail","Package":"sallyport/a"}`,
		}, []string{"panic: test timed out", "FAIL\tsallyport/a\t600s\n", "failed: a.TestBad\n"}},
		"not built": {[]string{
			`{"Action":"build-output","ImportPath":"sallyport/a","Output":"a.go:1:1: expected 'package'\n"}`,
			`{"Action":"build-fail","ImportPath":"sallyport/a"}`,
			`{"Action":"output","Package":"sallyport/a","Output":"FAIL\tsallyport/a [build failed]\n"}`,
			`{"Action":"fail","Package":"sallyport/a","FailedBuild":"sallyport/a"}`,
		}, []string{"a.go:1:1: expected", "[build failed]", "failed: a\n"}},
		"nothing ran": {[]string{"go: no such flag"}, []string{"go: no such flag", "no test ran"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, ok := summarised(t, 0, c.events...)
			require.False(t, ok)
			for _, text := range c.shown {
				require.Contains(t, out, text)
			}
		})
	}
}

// The file of the tests that may do more in other runs names the functions of tests of which a part was skipped, and of
// properties, and no others. A long run without one of these would leave out what the short one has left out.
func TestMore(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "more")
	events := append(passing(),
		`{"Action":"run","Package":"sallyport/b","Test":"TestStore/postgres"}`,
		`{"Action":"output","Package":"sallyport/b","Test":"TestStore/postgres","Output":"    b_test.go:9: no\n"}`,
		`{"Action":"skip","Package":"sallyport/b","Test":"TestStore/postgres","Elapsed":0}`,
		`{"Action":"run","Package":"sallyport/b","Test":"TestModel/sqlite"}`,
		`{"Action":"output","Package":"sallyport/b","Test":"TestModel/sqlite","Output":"    b_test.go:3: `+
			rapidLog(t)+`\n"}`,
		`{"Action":"pass","Package":"sallyport/b","Test":"TestModel/sqlite","Elapsed":1}`,
		`{"Action":"pass","Package":"sallyport/b","Elapsed":1}`)
	ok, err := run(strings.NewReader(strings.Join(events, "\n")), io.Discard, 0, 1, file)
	require.NoError(t, err)
	require.True(t, ok)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "property sallyport/b TestModel\nskipped sallyport/a TestSkipped\nskipped sallyport/b TestStore\n",
		string(text))
}

// logged is a test that keeps the last line that is logged.
type logged struct {
	*testing.T

	line string
}

func (l *logged) Logf(format string, args ...any) { l.line = fmt.Sprintf(format, args...) }

// rapidLog returns what rapid logs about a property.
func rapidLog(t *testing.T) string {
	t.Helper()
	l := logged{T: t}
	rapid.Check(&l, func(*rapid.T) {})
	require.NotEmpty(t, l.line)
	return l.line
}
