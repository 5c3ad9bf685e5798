package testkit

import (
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
