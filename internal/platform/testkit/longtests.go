package testkit

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// LongTests names the variable that turns on the tests that take minutes. .ci/run sets it.
const LongTests = "SALLYPORT_TEST_LONG"

// IsLong reports whether the tests that take minutes run.
func IsLong() bool { return os.Getenv(LongTests) != "" }

// NeedLong skips a test that takes minutes, unless those run.
func NeedLong(t *testing.T) {
	t.Helper()
	if !IsLong() {
		t.Skipf("this test takes long: set %s=1 to run it", LongTests)
	}
}

// LimitProperties has rapid draw fewer cases for each property of a package than the usual 100: 12, 60 in long tests,
// and 8 with the race detector, which looks for unordered accesses and not for cases. It is for packages whose
// properties drive databases, and whose TestMain calls it. Each run draws other cases. -rapid.checks overrides it.
func LimitProperties() {
	checks := "12"
	switch {
	case Race:
		checks = "8"
	case IsLong():
		checks = "60"
	}
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(fmt.Sprintf("limit the cases of properties: %v", err))
	}
}

// NeedProcesses skips a test that starts whole processes where that is not wanted.
func NeedProcesses(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test starts whole processes")
	}
	if Race {
		t.Skip("the race detector sees nothing of the processes that this test starts")
	}
}

// NeedNoRace skips a test that says nothing about races under the detector, where it would take minutes: it sends one
// request after the other, as others do that take less.
func NeedNoRace(t *testing.T) {
	t.Helper()
	if Race {
		t.Skip("this test computes on one goroutine at a time; tests without the race detector run it")
	}
}
