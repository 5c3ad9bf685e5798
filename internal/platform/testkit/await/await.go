// Package await bounds how long tests wait. A wait that reaches the limit fails the test and shows where the program
// hangs, instead of running into the time limit of the package without a word.
package await

import (
	"net/http/httptest"
	"runtime"
	"testing"
	"time"
)

// Limit is how long a test waits for what must happen. It measures no speed: a machine under heavy load takes a
// fraction of it, so that only an error makes a test wait so long.
const Limit = 2 * time.Minute

// poll is how often Condition looks.
const poll = 10 * time.Millisecond

// Value returns the next value of a channel, or the zero value of a closed channel. details, such as the log of a
// process, are shown with the stacks of all goroutines when the limit is reached.
func Value[T any](t testing.TB, what string, ch <-chan T, details ...func() string) T {
	t.Helper()
	return value(t, Limit, what, ch, details)
}

// Return calls a function that waits, such as the Wait of a sync.WaitGroup, and returns when it does.
func Return(t testing.TB, what string, wait func(), details ...func() string) {
	t.Helper()
	returned(t, Limit, what, wait, details)
}

// Condition calls a function every few milliseconds until it returns true.
func Condition(t testing.TB, what string, condition func() bool, details ...func() string) {
	t.Helper()
	become(t, Limit, what, condition, details)
}

// Close closes a server when the test ends.
func Close(t testing.TB, server *httptest.Server) {
	t.Helper()
	t.Cleanup(func() {
		t.Helper()
		Return(t, "the end of the requests to "+server.URL, server.Close)
	})
}

func value[T any](t testing.TB, limit time.Duration, what string, ch <-chan T, details []func() string) T {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
		fail(t, limit, what, details)
		panic("unreachable")
	}
}

func returned(t testing.TB, limit time.Duration, what string, wait func(), details []func() string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	value(t, limit, what, done, details)
}

func become(t testing.TB, limit time.Duration, what string, condition func() bool, details []func() string) {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	again := time.NewTicker(poll)
	defer again.Stop()
	for !condition() {
		select {
		case <-again.C:
		case <-timer.C:
			fail(t, limit, what, details)
		}
	}
}

// fail ends the test with everything that shows where it hangs.
func fail(t testing.TB, limit time.Duration, what string, details []func() string) {
	t.Helper()
	for _, show := range details {
		t.Log(show())
	}
	t.Fatalf("waited %s in vain for %s\n%s", limit, what, stacks())
}

// stacks returns the stacks of all goroutines.
func stacks() []byte {
	const most = 1 << 20
	b := make([]byte, most)
	return b[:runtime.Stack(b, true)]
}
