package await

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// short is a limit that the waits of these tests reach.
const short = 20 * time.Millisecond

// failing is a test that may fail without failing the present one.
type failing struct {
	testing.TB

	output strings.Builder
	failed bool
}

func (f *failing) Helper() {}

func (f *failing) Log(args ...any) { fmt.Fprintln(&f.output, args...) }

func (f *failing) Fatalf(format string, args ...any) {
	fmt.Fprintf(&f.output, format, args...)
	f.failed = true
	runtime.Goexit()
}

// attempt runs a wait as a test of its own.
func attempt(t *testing.T, wait func(tb testing.TB)) *failing {
	t.Helper()
	f := &failing{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wait(f)
	}()
	<-ended
	return f
}

// Each wait ends at its limit, fails the test, and shows what it waited for, the details and where all goroutines are.
func TestWaitsEndAtTheirLimit(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	details := []func() string{func() string { return "the log of a process" }}
	for name, wait := range map[string]func(tb testing.TB){
		"value":     func(tb testing.TB) { value(tb, short, "a letter", make(chan int), details) },
		"return":    func(tb testing.TB) { returned(tb, short, "a letter", func() { <-release }, details) },
		"condition": func(tb testing.TB) { become(tb, short, "a letter", func() bool { return false }, details) },
	} {
		f := attempt(t, wait)
		require.True(t, f.failed, name)
		require.Contains(t, f.output.String(), "waited 20ms in vain for a letter", name)
		require.Contains(t, f.output.String(), "await.attempt", "%s shows every goroutine", name)
		require.Contains(t, f.output.String(), "the log of a process", name)
	}
}

// A wait that is met returns without failing the test.
func TestWaitsReturn(t *testing.T) {
	t.Parallel()
	letters := make(chan string, 1)
	letters <- "hello"
	require.Equal(t, "hello", Value(t, "a letter", letters))
	close(letters)
	require.Empty(t, Value(t, "the end of the letters", letters))
	called := false
	Return(t, "a call", func() { called = true })
	require.True(t, called)
	looks := 0
	Condition(t, "the third look", func() bool { looks++; return looks == 3 })
	require.Equal(t, 3, looks)
}

// ending is a test whose end comes when it is called.
type ending struct {
	testing.TB

	end func()
}

func (e *ending) Cleanup(f func()) { e.end = f }

// A server is closed with its test.
func TestServerIsClosed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	e := &ending{TB: t}
	Close(e, server)
	reached := func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		require.NoError(t, resp.Body.Close())
		return true
	}
	require.True(t, reached())
	e.end()
	require.False(t, reached())
}
