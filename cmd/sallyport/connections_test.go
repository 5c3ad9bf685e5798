package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/reference"
)

// Every operation on connections has a command, and every property that can be changed a flag, so that what the API
// can do can be typed.
func TestConnectionsAreWhole(t *testing.T) {
	t.Parallel()
	text, err := reference.Document()
	require.NoError(t, err)
	document := decode[struct {
		Paths      map[string]map[string]struct{ OperationID string }
		Components struct {
			Schemas map[string]struct{ Properties map[string]json.RawMessage }
		}
	}](t, string(text))
	commands := call(command{ctx: t.Context(), clock: clock.System(), args: []string{"commands"}}, nil).out
	section := func(name string) string {
		_, section, found := strings.Cut(commands, "\n## sallyport "+name+"\n")
		require.True(t, found, name)
		section, _, _ = strings.Cut(section, "\n## ")
		return section
	}
	known := map[string]string{"list-connections": "connections list", "create-connection": "connections create",
		"get-connection": "connections show", "update-connection": "connections update",
		"test-connection":    "connections test",
		"operate-connection": "connections rotate-path", "delete-connection": "connections delete",
		"list-webhook-secrets": "connections secrets list", "create-webhook-secret": "connections secrets add",
		"delete-webhook-secret": "connections secrets delete", "get-webhook-enrolment": "connections enrolment show",
		"open-webhook-enrolment": "connections enrolment open", "confirm-webhook-enrolment": "connections enrolment confirm",
		"delete-webhook-enrolment": "connections enrolment close", "send-webhook-sample": "subscriptions trigger"}
	for path, operations := range document.Paths {
		for method, o := range operations {
			if strings.HasPrefix(path, "/connections") {
				require.NotEmpty(t, known[o.OperationID], "%s %s has no command", method, path)
				section(known[o.OperationID])
			}
		}
	}
	flags := map[string]string{"webhook_secret": "webhook-secret-file", "tags": "tag", "metadata": "metadata-file",
		"params": "param"}
	terms := propertiesOf(t, document.Components.Schemas["connections.Creation"].Properties["connect"])
	require.NotEmpty(t, terms)
	for _, name := range []string{"connections create", "connections reconnect"} {
		for property := range terms {
			require.Contains(t, section(name), "`--"+strings.ReplaceAll(property, "_", "-")+"=", name)
		}
	}
	for _, name := range []string{"connections create", "connections update"} {
		listed := section(name)
		for _, schema := range []string{"connections.Patch", "connections.WebhookChange"} {
			properties := document.Components.Schemas[schema].Properties
			if schema == "connections.WebhookChange" && len(properties) == 0 {
				properties = propertiesOf(t, document.Components.Schemas["connections.Patch"].Properties["webhook"])
			}
			require.NotEmpty(t, properties)
			for property := range properties {
				flag := flags[property]
				if flag == "" {
					flag = strings.ReplaceAll(property, "_", "-")
				}
				if property != "webhook" {
					require.Regexp(t, `--(\[no-\])?`+flag+`\b`, listed, "%s: %s", name, property)
				}
			}
		}
	}
}

// propertiesOf returns the properties of an object that stands in the schema of another.
func propertiesOf(t *testing.T, schema json.RawMessage) map[string]json.RawMessage {
	t.Helper()
	return decode[struct{ Properties map[string]json.RawMessage }](t, string(schema)).Properties
}

// A connection is changed, its secrets are rotated, its URL is replaced, and it is disabled and enabled, with commands
// alone. Secrets come from files and standard input and are not shown.
func TestConnectionsAreChanged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		s := in.serve(t, clock.System())
		r := in.remote(t, s, "connections,events")
		out := r.run("", "connections", "create", "--provider", "generic-hmac", "--connection-id", "acme",
			"--param", "signature_header=X-Sig", "--param=event_type_pointer=/type;x=y", "--tag", "team=a",
			"--rate-limit-per-second", "5", "--source-cidrs", "127.0.0.0/8,::1/128", "--json")
		require.Equal(t, exitOK, out.code, out.stderr)
		require.Contains(t, out.stderr, "sallyport connections secrets add generic-hmac acme")
		created := decode[connectionRow](t, out.out)
		require.Equal(t, map[string]string{"signature_header": "X-Sig", "event_type_pointer": "/type;x=y"},
			created.Webhook.Params)

		metadata := filepath.Join(t.TempDir(), "metadata.json")
		require.NoError(t, os.WriteFile(metadata, []byte(`{"owner":"me"}`), 0o600))
		shown := r.do("connections", "update", "generic-hmac", "acme", "--param", "encoding=base64", "--unset",
			"event_type_pointer",
			"--alias", "acme-hooks", "--max-body-bytes", "1000", "--dedupe-window-seconds", "60", "--no-redeliver-on-duplicate",
			"--same-body-new-id", "refuse", "--url-base", "https://hooks.example.com", "--metadata-file", metadata,
			"--tag", "stage=b", "--remove-tag", "team", "--clear", "rate_limit_per_second,source_cidrs")
		for _, want := range []string{"encoding=base64 signature_header=X-Sig\n", "acme-hooks\n", "1000 bytes\n",
			"60 seconds\n", "refuse\n", "restart nothing\n", "https://hooks.example.com\n", `{"owner":"me"}`, "stage=b\n"} {
			require.Contains(t, shown, want)
		}
		require.NotContains(t, shown, "per second")
		require.Regexp(t, `(?m)^Event types +unknown: name the place of the type, as with --param event_type_header=`, shown)
		require.NotContains(t, r.do("connections", "update", "generic-hmac", "acme", "--param", "event_type_pointer=/type"),
			"Event types")
		tagged := func(flags ...string) []connectionRow {
			return decode[[]connectionRow](t, r.do(append([]string{"connections", "list", "--json"}, flags...)...))
		}
		r.do("connections", "update", "generic-hmac", "acme", "--tag", "names=a,b=c")
		require.Len(t, tagged("--tag", "stage=b", "--tag", "names=a,b=c"), 1)
		require.Empty(t, tagged("--tag", "stage=b", "--tag", "names=a"))
		r.refuse(exitUsage, "a key, = and a value", "connections", "list", "--tag", "stage")
		r.refuse(exitUsage, "nothing to change", "connections", "update", "generic-hmac", "acme")
		r.refuse(exitUsage, "alias cannot be set and cleared", "connections", "update", "generic-hmac", "acme", "--alias",
			"a", "--clear", "alias")

		out = r.run("the first secret\n", "connections", "secrets", "add", "generic-hmac", "acme", "--label", "first",
			"--json")
		require.Equal(t, exitOK, out.code, out.stderr)
		first := decode[webhookSecretRow](t, out.out)
		file := filepath.Join(t.TempDir(), "secret")
		require.NoError(t, os.WriteFile(file, []byte("the second secret\n"), 0o600))
		require.Contains(t, r.run("", "connections", "secrets", "add", "generic-hmac", "acme", "--webhook-secret-file",
			"/nowhere").stderr, "/nowhere: no such file")
		require.Contains(t, r.do("connections", "secrets", "add", "generic-hmac", "acme", "--secret-file", file),
			"…cret\n")
		listed := r.do("connections", "secrets", "list", "generic-hmac", "acme")
		require.Regexp(t, `(?m)^whs_\w+ +first +…cret +\S+ \S+ +never`, listed)
		require.NotContains(t, listed, "the first secret")
		require.Equal(t, first.ID+" is deleted\n", r.do("connections", "secrets", "delete", "generic-hmac", "acme", first.ID))
		out = r.run("the only secret", "connections", "secrets", "replace", "generic-hmac", "acme", "--secret-file", "-")
		require.Equal(t, exitOK, out.code, out.stderr)
		require.Len(t, decode[[]webhookSecretRow](t, r.do("connections", "secrets", "list", "generic-hmac", "acme",
			"--json")), 1)
		r.refuse(exitFailed, "contains no secret", "connections", "secrets", "add", "generic-hmac", "acme")

		moved := decode[connectionRow](t, r.do("connections", "rotate-path", "generic-hmac", "acme", "--json"))
		require.NotEqual(t, created.WebhookURL, moved.WebhookURL)
		require.Regexp(t, `(?m)^Status +disabled$`, r.do("connections", "disable", "generic-hmac", "acme"))
		require.Regexp(t, `(?m)^Status +active$`, r.do("connections", "enable", "generic-hmac", "acme"))
		r.refuse(exitFailed, "not_found", "connections", "enable", "generic-hmac", "other")
		r.refuse(exitFailed, "connection_not_ready", "connections", "refresh", "generic-hmac", "acme")
		r.refuse(exitUsage, "--yes", "connections", "revoke", "generic-hmac", "acme")
		r.refuse(exitFailed, "connection_not_ready", "connections", "revoke", "generic-hmac", "acme", "--yes")

		// A connection can be named as responses show it, also before further arguments. Values of flags stay whole.
		require.Regexp(t, `(?m)^Connection +generic-hmac/acme$`, r.do("connections", "show", "generic-hmac/acme"))
		r.refuse(exitFailed, "not_found", "connections", "secrets", "delete", "generic-hmac/acme",
			"whs_00000000000000000000000000")
		r.refuse(exitUsage, "expected", "connections", "show", "generic-hmac/")
		r.refuse(exitFailed, "no such file", "connections", "update", "--metadata-file", "no/such", "generic-hmac", "acme")
		// A mistyped parameter gets a suggestion, another one the list.
		r.refuse(exitUsage, "Did you mean encoding?", "connections", "update", "generic-hmac/acme", "--param", "encodng=hex")
		r.refuse(exitUsage, "it has signature_header, algorithm, ",
			"connections", "update", "generic-hmac/acme", "--param", "x=1")
	})
}

// A provider's secret is enrolled with commands alone: opened, shown, confirmed, and ended.
func TestEnrolmentOverTheAPI(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		s := in.serve(t, clock.System())
		r := in.remote(t, s, "connections")
		out := r.run("", "connections", "create", "--provider", "notion", "--connection-id", "notes", "--json")
		url := *decode[connectionRow](t, out.out).WebhookURL
		require.Regexp(t, `(?m)^Enrolment +open$`, r.do("connections", "enrolment", "open", "notion", "notes"))
		status, _ := s.ask(t, http.MethodPost, "/api/v1/webhook/"+url[strings.LastIndex(url, "/")+1:], "",
			map[string]any{"verification_token": "secret_of_the_handshake"})
		require.Equal(t, http.StatusOK, status)
		shown := r.do("connections", "enrolment", "show", "notion", "notes")
		require.Regexp(t, `(?m)^Enrolment +awaiting_confirmation$`, shown)
		require.Contains(t, shown, "secret_of_the_handshake")
		require.Regexp(t, `(?m)^Secret +whs_\w+$`, r.do("connections", "enrolment", "confirm", "notion", "notes"))
		require.Equal(t, "captured", decode[struct{ Status string }](t, r.do("connections", "enrolment", "show", "notion",
			"notes", "--json")).Status)
		r.do("connections", "enrolment", "open", "notion", "notes")
		require.Equal(t, "the enrolment of notion/notes is ended\n", r.do("connections", "enrolment", "close", "notion",
			"notes"))
		r.refuse(exitFailed, "not_found", "connections", "enrolment", "confirm", "notion", "notes")
	})
}

// A sample takes the whole way of a webhook: it is stored, verified, and matched. The provider's only connection is
// found without its name.
func TestTrigger(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		s := in.serve(t, clock.System())
		r := in.remote(t, s, "connections,webhooks,events,events:write")
		// The key of a provider that is mistyped gets a suggestion, and no more: the value does not come back.
		r.refuse(exitUsage, "Did you mean github?", "connections", "create", "--provider", "githb")
		require.Contains(t, r.run("", "connections", "show", "githb", "acme").stderr, "Did you mean github?")
		r.refuse(exitUsage, "Did you mean github?", "subscriptions", "create", "--provider-config-key", "githb",
			"--event-types", "*", "--forward-url", "http://127.0.0.1:9/")
		none := r.run("", "connections", "create", "--provider", "acme-internal")
		require.Equal(t, exitUsage, none.code)
		require.NotContains(t, none.stderr, "Did you mean")
		require.NotContains(t, none.stderr, "acme-internal")
		r.refuse(exitFailed, "there is no connection to github", "subscriptions", "trigger", "github", "push")
		out := r.run(githubSecret, "connections", "create", "--provider", "github", "--connection-id", "repo",
			"--webhook-secret-file", "-")
		require.Equal(t, exitOK, out.code, out.stderr)
		sent := r.run(`{"issue":{"number":7}}`, "subscriptions", "trigger", "github", "issues.opened", "--data-file", "-")
		require.Equal(t, exitOK, sent.code, sent.stderr)
		require.Regexp(t, `(?m)^Type +issues.opened$`, sent.out)
		uuid := strings.Fields(sent.out)[1]
		require.Contains(t, sent.stderr, "No subscription gets it")
		require.Contains(t, sent.stderr, "deliveries carry no signature of the provider")
		require.Contains(t, sent.stderr, "sallyport events show "+uuid+" --explain")
		r.do("subscriptions", "create", "--provider", "github", "--event-types", "push", "--forward-url",
			"http://127.0.0.1:9/")
		require.Len(t, decode[[]any](t, r.do("subscriptions", "list", "--provider", "github", "--json")), 1)
		require.Empty(t, decode[[]any](t, r.do("subscriptions", "list", "--provider", "gitea", "--json")))
		matched := r.run("", "subscriptions", "trigger", "github", "push", "--connection-id", "repo")
		require.Regexp(t, `(?m)^Subscriptions +1$`, matched.out)
		require.NotContains(t, matched.stderr, "No subscription")
		require.NotContains(t, matched.stderr, "held")
		asleep := decode[subscriptionRow](t, r.do("subscriptions", "create", "--provider", "github", "--event-types", "push",
			"--forward-url", "http://127.0.0.1:9/", "--json")).ID
		r.do("subscriptions", "disable", asleep)
		require.Contains(t, r.run("", "subscriptions", "trigger", "github", "push", "--connection-id", "repo").stderr,
			"held: "+asleep+";")
		r.do("subscriptions", "delete", asleep)
		r.run(githubSecret, "connections", "create", "--provider", "github", "--connection-id", "gone")
		left := decode[subscriptionRow](t, r.do("subscriptions", "create", "--connection-id", "gone", "--event-types", "push",
			"--forward-url", "http://127.0.0.1:9/", "--json")).ID
		require.Contains(t, r.run("", "connections", "delete", "github", "gone").stderr, "name this connection, and would "+
			"match another one with its id: "+left)
		r.do("subscriptions", "delete", left)
		shown := r.do("events", "show", uuid, "--body", "--headers")
		for _, want := range []string{"verified", `"number": 7`, "sallyport-sample"} {
			require.Contains(t, shown, want)
		}
		require.Equal(t, "push", decode[struct {
			Type string `json:"event_type"`
		}](t, r.do("subscriptions", "trigger", "github", "push", "--connection", "repo", "--json")).Type)
		r.refuse(exitUsage, "not valid JSON", "subscriptions", "trigger", "github", "push", "--data-file", "-")
		r.refuse(exitUsage, "event_type", "subscriptions", "trigger", "github", "two words")
		r.run(githubSecret, "connections", "create", "--provider", "github", "--connection-id", "second")
		r.refuse(exitUsage, "--connection: second, repo", "subscriptions", "trigger", "github", "push")
		r.refuse(exitUsage, "Did you mean github?", "subscriptions", "trigger", "githb", "push")
		r.refuse(exitUsage, "Did you mean gitea?", "subscriptions", "trigger", "forgejo", "push")
		r.refuse(exitUsage, "Anthropic has no webhooks here", "subscriptions", "trigger", "anthropic", "push")
		r.refuse(exitUsage, "must be one type", "subscriptions", "trigger", "github", "issues.*", "--connection", "repo")
		require.Contains(t, r.run("", "subscriptions", "trigger", "github", "issues.flown", "--connection", "repo").stderr,
			"minimal body")
		require.Contains(t, r.run("", "subscriptions", "trigger", "github", "issues.flown", "--connection", "repo").stderr,
			"sallyport providers show github")
		mistyped := r.run("", "subscriptions", "trigger", "github/repo", "issues.opend")
		require.Equal(t, exitOK, mistyped.code, mistyped.stderr)
		require.Regexp(t, `(?m)^Connection +github/repo$`, mistyped.out)
		require.Contains(t, mistyped.stderr, "Did you mean issues.opened?")
		require.Contains(t, r.run("", "events", "list", "--provider", "githb").stderr, "Did you mean github?")
		require.NotContains(t, r.run("", "events", "list", "--provider", "sallyport").stderr, "warning")
	})
}
