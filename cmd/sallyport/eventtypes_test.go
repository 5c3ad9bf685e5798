package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
)

// An empty list of events by a type says if no event can have it, and what was probably meant, with --json on standard
// error alone. It says nothing about a type that is known, that its provider may send, or that the gateway emits, nor
// about a list with events.
func TestEmptyListOfAType(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		s := in.serve(t, clock.System())
		r := in.remote(t, s, "webhooks,connections")
		warning := func(args ...string) string {
			out := r.run("", append([]string{"events", "list"}, args...)...)
			require.Equal(t, exitOK, out.code, out.stderr)
			return strings.TrimSpace(out.stderr)
		}
		require.Empty(t, warning("--event-type", "issues"), "nothing is known of an environment without connections")
		create := func(provider string) {
			dir := write(t, t.TempDir(), "secret", githubSecret+"\n")
			r.do("connections", "create", "--provider", provider, "--connection-id", "repo", "--webhook-secret-file",
				dir+"/secret")
		}
		create("github")
		for text, want := range map[string]string{
			"issues": `warning: no event has the type "issues" alone; issues.* matches those whose type begins like ` +
				`issues.assigned`,
			"issue.opened": `warning: no provider here is known to send events of the type "issue.opened". ` +
				`Did you mean issues.opened?`,
			"orders/create": `warning: no provider here is known to send events of the type "orders/create"; ` +
				`"sallyport providers show NAME" lists the types`,
			"issues.*": "", "issues.opened": "", "push": "", "*": "", "*.opened": "", "sallyport.connection.created": "",
		} {
			require.Equal(t, want, warning("--event-type", text), text)
			require.Equal(t, want, warning("--event-type", text, "--json"), text)
		}
		require.Contains(t, warning("--provider", "shopify", "--event-type", "orders"), "orders/* matches")
		require.Empty(t, warning("--provider", "shopify", "--event-type", "orders.create"))

		create("generic-hmac")
		require.Contains(t, warning("--event-type", "issues"), "issues.* matches")
		require.Empty(t, warning("--event-type", "orders/create"), "any type can come from this provider")

		s.deliver(t, "first")
		require.Empty(t, warning("--event-type", "issues,issues.opened"))
	})
}
