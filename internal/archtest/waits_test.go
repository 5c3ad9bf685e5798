package archtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func unboundedIn(t *testing.T, body string, exempt map[string]string) []string {
	t.Helper()
	findings, err := UnboundedWaits([]File{goFile("internal/a/x_test.go",
		"import \"net/http/httptest\"\nfunc f(t *testing.T) {\n"+body+"\n}")}, exempt)
	require.NoError(t, err)
	return findings
}

// Each way to wait without a limit is found in a clean-up.
func TestUnboundedWaitsFindsEachForm(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"receive":             "t.Cleanup(func() { <-done })",
		"received error":      "t.Cleanup(func() { require.NoError(t, <-ended) })",
		"group":               "t.Cleanup(func() { stop(); all.Wait() })",
		"process":             "w.t.Cleanup(func() { _ = c.Wait() })",
		"method":              "t.Cleanup(all.Wait)",
		"server":              "s := httptest.NewServer(h)\nt.Cleanup(s.Close)",
		"server in a closure": "s := httptest.NewTLSServer(h)\nt.Cleanup(func() { s.Close() })",
		"embedded server":     "r.Server = httptest.NewUnstartedServer(h)\nt.Cleanup(r.Close)",
		"after a select":      "t.Cleanup(func() { select { case <-a: <-b; default: } })",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			findings := unboundedIn(t, body, nil)
			require.Len(t, findings, 1)
			require.Regexp(t, `^internal/a/x_test\.go:\d+:\d+ waits without a limit; use testkit/await$`, findings[0])
		})
	}
}

// Bounded waits, and waits of the test itself, are not reported.
func TestUnboundedWaitsAccepts(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"value":          `t.Cleanup(func() { await.Value(t, "the end", done) })`,
		"return":         `t.Cleanup(func() { await.Return(t, "the end", all.Wait) })`,
		"closure":        `t.Cleanup(func() { await.Return(t, "the end", func() { _ = c.Wait() }) })`,
		"close":          "s := httptest.NewServer(h)\nawait.Close(t, s)",
		"select":         "t.Cleanup(func() { select { case <-done: case <-time.After(limit): } })",
		"other Close":    "c := open()\nt.Cleanup(c.Close)",
		"with a context": "t.Cleanup(func() { _ = s.Wait(ctx) })",
		"body":           "<-done\nall.Wait()",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, unboundedIn(t, body, nil))
		})
	}
}

// An exemption excuses one file, and one without need is reported.
func TestUnboundedWaitsExemptions(t *testing.T) {
	t.Parallel()
	exempt := map[string]string{"internal/a/x_test.go": "a bubble finds deadlocks"}
	require.Empty(t, unboundedIn(t, "t.Cleanup(func() { <-done })", exempt))
	require.Equal(t, []string{"internal/a/x_test.go needs no exemption: no clean-up waits without a limit"},
		unboundedIn(t, "", exempt))
}
