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
				`"sallyport providers show NAME" lists the types of a provider`,
			"Isues.*":  `warning: no provider here is known to send events of the type "Isues.*". Did you mean issues.*?`,
			"issues.*": "", "issues.opened": "", "push": "", "*": "", "*.opened": "", "sallyport.connection.created": "",
			"sallyport.*": "",
			"sallyport.delivery.dead_letered": `warning: no provider here is known to send events of the type ` +
				`"sallyport.delivery.dead_letered". Did you mean sallyport.delivery.dead_lettered?`,
		} {
			require.Equal(t, want, warning("--event-type", text), text)
			require.Equal(t, want, warning("--event-type", text, "--json"), text)
		}
		require.Contains(t, warning("--provider", "shopify", "--event-type", "orders"), "orders/* matches")
		require.Empty(t, warning("--provider", "shopify", "--event-type", "orders.create"))

		create("generic-hmac")
		require.Contains(t, warning("--event-type", "issues"), "issues.* matches")
		require.Empty(t, warning("--event-type", "orders/create"), "any type can come from this provider")
		require.Contains(t, warning("--event-type", "issue.opened"), "Did you mean issues.opened?")

		s.deliver(t, "first")
		require.Empty(t, warning("--event-type", "issues,issues.opened"))
	})
}

// A filter by a name that the server does not know says so, with the name that is probably meant, where the result
// would otherwise look as if nothing had happened: in an empty list, in a dry run that selects nothing, and before a
// job is made. With --json it is on standard error alone. A name that exists is no reason for a word.
func TestUnknownNamesInFilters(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		s := in.serve(t, clock.System())
		r := in.remote(t, s, "webhooks,connections")
		dir := write(t, t.TempDir(), "secret", githubSecret+"\n")
		r.do("connections", "create", "--provider", "github", "--connection-id", "my-repo", "--webhook-secret-file",
			dir+"/secret")
		sub := decode[subscriptionRow](t, r.do("subscriptions", "create", "--event-types", "*", "--forward-url",
			"http://127.0.0.1:9/", "--json")).ID
		for _, command := range [][]string{{"events", "list"}, {"replays", "create", "--dry-run"},
			{"replays", "create", "--dry-run", "--json"}, {"replays", "create"}} {
			for _, of := range []struct{ flag, name, want string }{
				{"--provider", "gihub", `there is no provider "gihub". Did you mean github?`},
				{"--provider-config-key", "gihub", `there is no provider configuration "gihub". Did you mean github?`},
				{"--connection-id", "myrepo", `there is no connection "myrepo". Did you mean my-repo?`},
				{"--connection-id", "else", `there is no connection "else"`},
				{"--subscription-id", sub[:len(sub)-1] + "x", "there is no subscription"},
				{"--event-type", "pussh", "Did you mean push?"},
				{"--connection-id", "github/myrepo", "Did you mean my-repo?"}, {"--connection", "github/my-repo", ""},
				{"--provider", "github", ""}, {"--provider-config-key", "github", ""}, {"--connection-id", "my-repo", ""},
				{"--subscription-id", sub, ""}, {"--event-type", "push", ""},
			} {
				out := r.run("", append(command, of.flag, of.name)...)
				require.Equal(t, exitOK, out.code, out.stderr)
				if of.want == "" {
					require.NotContains(t, out.stderr, "warning", "%v %s %s", command, of.flag, of.name)
				} else {
					require.Contains(t, out.stderr, "warning: ", "%v %s %s", command, of.flag, of.name)
					require.Contains(t, out.stderr, of.want)
				}
			}
		}
		require.Contains(t, r.run("", "rejections", "list", "--connection-id", "myrepo").stderr, "Did you mean my-repo?")
		r.refuse(exitUsage, "give the id alone, my-repo", "events", "list", "--connection-id", "github/my-repo,other")
	})
}
