package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/testkit/await"
)

// crmDocument describes an API at a host with a bearer token. The operation TRACE becomes no action.
func crmDocument(host string, more ...string) string {
	return `{"openapi": "3.0.3", "info": {"title": "Acme CRM", "version": "7"},
	"servers": [{"url": "https://` + host + `/v1"}], "security": [{"token": []}],
	"components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
	"paths": {
	  "/contacts": {
	    "get": {"operationId": "listContacts", "summary": "List contacts", "tags": ["contacts"], "responses": {},
	      "parameters": [{"name": "limit", "in": "query", "description": "How many", "schema": {"type": "integer"}}]},
	    "post": {"operationId": "createContact", "summary": "Create a contact", "responses": {},
	      "requestBody": {"required": true, "content": {"application/json": {"schema": {"type": "object",
	        "required": ["email"], "properties": {"email": {"type": "string", "format": "email"},
	        "tags": {"type": "array", "items": {"type": "string", "enum": ["lead", "customer"]}}}}}}}},
	    "trace": {"operationId": "traceContacts", "responses": {}}
	  }` + strings.Join(append([]string{""}, more...), ",\n") + `}}`
}

// contactOperation is a path with one operation, in the order method and id.
func contactOperation(path, method, id string) string {
	return fmt.Sprintf(`%q: {%q: {"operationId": %q, "responses": {}, "parameters": [{"name": "id", "in": "path",
		"required": true, "schema": {"type": "string"}}]}}`, path, method, id)
}

// catalogOf returns a runner of commands on the catalog of the environment production.
func (in installation) catalogOf(t *testing.T) func(args ...string) result {
	t.Helper()
	return func(args ...string) result {
		return in.run(t, append(append([]string{"catalog"}, args...), "--environment", "production")...)
	}
}

// must returns what a command printed that must succeed.
func must(t *testing.T, r result) string {
	t.Helper()
	require.Equal(t, exitOK, r.code, r.out+r.stderr)
	return r.out
}

// A document becomes a provider in four steps, next to a running server, which reads it: import, look at the preview,
// activate with a confirmation of where credentials go, and use. A second version shows what it changes, and the first
// can be activated again. Someone with a key that reads the catalog finds the actions.
func TestCatalog(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		catalog := in.catalogOf(t)
		dir := write(t, t.TempDir(), "one.json", crmDocument("api.acme.com"),
			"two.json", crmDocument("api.acme.com", contactOperation("/contacts/{id}", "delete", "deleteContact")),
			"three.json", crmDocument("api.evil.com"))
		file := func(name string) string { return filepath.Join(dir, name) }
		s := in.serve(t, clock.System())
		r := in.remote(t, s, "catalog")
		require.Contains(t, r.do("catalog", "list", "--q", "github"), "GitHub")

		imported := catalog("import", file("one.json"), "--provider", "acme")
		out := must(t, imported)
		for _, want := range []string{`Provider +acme \(a provider of its own\)`, `Status +ready`,
			`Document +Acme CRM 7 \(openapi-3.0, \d+ bytes\)`, `Operations +3: 2 actions, 0 excluded, 1 left out`,
			`Hosts +api.acme.com`, `Auth modes +token`, `Changes +2 added, 0 changed, 0 removed`,
			`\d+:\d+ +TRACE /contacts +TRACE does nothing`} {
			require.Regexp(t, want, out)
		}
		first := regexp.MustCompile(`imp_\w+`).FindString(out)
		require.Contains(t, imported.stderr, "sallyport catalog activate "+first+" --environment production\n")
		diff := must(t, catalog("diff", "acme"))
		require.Regexp(t, `(?m)^added +create_contact +medium +POST /contacts +Create a contact$`, diff)
		r.refuse(exitFailed, "provider_not_found", "catalog", "show", "acme")

		refused := catalog("activate", "acme")
		require.Equal(t, exitUsage, refused.code)
		require.Contains(t, refused.stderr, "Credentials of acme would go to api.acme.com. Confirm it with --yes")
		refused = catalog("activate", "acme", "--digest", "0123")
		require.Equal(t, exitFailed, refused.code)
		require.Contains(t, refused.stderr, "look at it again")
		digest := regexp.MustCompile(`Digest +(\w+)`).FindStringSubmatch(diff)[1]
		require.Contains(t, must(t, catalog("activate", "acme", "--digest", digest)),
			first+" is the active version of acme: 2 added, 0 changed, 0 removed\n")
		require.Contains(t, must(t, catalog("activate", first)), "is active already")

		r.eventually(1, "acme/create_contact", "catalog", "show", "acme")
		require.Regexp(t, `(?m)^acme/create_contact +medium +POST /contacts +Create a contact$`,
			r.do("catalog", "search", "add", "contact", "--provider", "acme", "--operation", "create"))
		found := decode[[]actionRow](t, r.do("catalog", "search", "contact", "--max-risk", "low", "--json"))
		require.Equal(t, "acme__list_contacts", found[0].ToolName)
		detail := r.do("catalog", "show", "acme/create_contact")
		for _, want := range []string{`Risk +medium \(create`, `email +email +yes +body`,
			`tags +array of lead\|customer +body`} {
			require.Regexp(t, want, detail)
		}
		require.Equal(t, detail, r.do("catalog", "show", "acme", "create_contact"))
		require.NotContains(t, detail, "Base URL")
		require.Contains(t, r.do("catalog", "show", "google/sheets_get_values"),
			"Base URL       https://sheets.googleapis.com\n")
		require.Equal(t, detail, r.do("catalog", "show", "acme__create_contact"))
		require.Equal(t, "acme__create_contact", decode[struct{ Name string }](t,
			r.do("catalog", "show", "acme", "create_contact", "--format", "openai")).Name)
		require.Equal(t, "acme", decode[actionRow](t, r.do("catalog", "show", "acme", "create_contact", "--json")).Provider)

		out = must(t, catalog("import", file("two.json"), "--provider", "acme", "--activate"))
		require.Contains(t, out, "is the active version of acme: 1 added, 0 changed, 0 removed", "no host is new")
		require.Len(t, decode[[]importRow](t, must(t, catalog("imports", "--json", "--provider", "acme"))), 2)
		require.Regexp(t, first+" +acme +replaced", must(t, catalog("imports", "--status", "replaced")))
		diff = must(t, catalog("diff", first))
		require.Regexp(t, `(?m)^removed +delete_contact +high +DELETE /contacts/\{id\}`, diff)
		require.Equal(t, "[]\n", must(t, catalog("diff", first, "--kind", "added", "--json")))
		changed := strings.ReplaceAll(crmDocument("api.acme.com"), `"listContacts"`, `"listContacts", "deprecated": true`)
		changed = strings.ReplaceAll(changed, `"integer"`, `"string"`)
		write(t, dir, "changed.json", changed)
		out = must(t, catalog("import", file("changed.json"), "--provider", "acme"))
		require.Regexp(t, `Changes +0 added, 1 changed, 1 removed; 2 are breaking`, out)
		id := regexp.MustCompile(`imp_\w+`).FindString(out)
		diff = must(t, catalog("diff", id))
		require.Regexp(t, `(?m)^list_contacts +input_type +breaking +/limit +integer → string$`, diff)
		require.Regexp(t, `(?m)^list_contacts +deprecation +in use → deprecated$`, diff)
		rows := decode[[]changeRow](t, must(t, catalog("diff", id, "--breaking", "--kind", "changed", "--json")))
		require.Len(t, rows, 1)
		require.Equal(t, []differenceRow{{Kind: "input_type", At: "/limit", From: "integer", To: "string", Breaking: true},
			{Kind: "deprecation", From: "in use", To: "deprecated"}}, rows[0].Differences)
		must(t, catalog("remove", id))

		third := catalog("import", file("three.json"), "--provider", "acme", "--activate")
		require.Equal(t, exitUsage, third.code, "credentials would go to another host")
		require.Contains(t, third.stderr, "Credentials of acme would go to api.evil.com. Now they go to api.acme.com.")
		require.Contains(t, must(t, catalog("remove", regexp.MustCompile(`imp_\w+`).FindString(third.out))), "is removed")

		refused = catalog("remove", "acme")
		require.Equal(t, exitUsage, refused.code)
		require.Contains(t, refused.stderr, "The provider acme would leave the catalog, with all of its actions.")
		must(t, catalog("remove", "acme", "--yes"))
		r.eventually(0, "acme", "catalog", "list", "--q", "acme")
		require.Contains(t, must(t, catalog("activate", first, "--yes")), "is the active version of acme")
	})
}

// The commands report a document that cannot be read with the place in the file, and a wrong command line before
// anything is stored. A document comes from standard input, too, and its actions can be those of another provider.
func TestCatalogImport(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		catalog := in.catalogOf(t)
		in.serve(t, clock.System())
		dir := write(t, t.TempDir(), "bad.yaml", "openapi: 3.0.3\ninfo: {title: [}\n", "empty.yaml", "", "none.json",
			`{"openapi": "3.0.3", "info": {"title": "x", "version": "1"}, "paths": {}}`)
		file := func(name string) string { return filepath.Join(dir, name) }
		for _, tt := range []struct {
			args []string
			code int
			want string
		}{
			{[]string{file("bad.yaml"), "--provider", "acme"}, exitFailed, file("bad.yaml") + `:2:\d+: malformed YAML: `},
			{[]string{file("none.json"), "--provider", "acme"}, exitFailed, file("none.json") + `: the document has no oper`},
			{[]string{file("empty.yaml"), "--provider", "acme"}, exitUsage, `sallyport: document must not be empty`},
			{[]string{file("absent"), "--provider", "acme"}, exitFailed, `no such file`},
			{[]string{dir, "--provider", "acme"}, exitFailed, `is a directory`},
			{[]string{file("none.json"), "--provider", "github"}, exitFailed, `The installation has a provider with this slug`},
			{[]string{file("none.json"), "--extends", "githb"}, exitFailed, `The installation has no provider with this slug`},
			{[]string{file("none.json"), "--provider", "acme", "--base-url", "x"}, exitUsage, `sallyport: base url: The URL`},
			{[]string{"http://api.acme.com/api.json", "--provider", "acme"}, exitUsage, `sallyport: url: .*https`},
			{[]string{file("none.json")}, exitUsage, `--provider, or one that gets the actions with --extends`},
			{[]string{"x", "--provider", "a", "--extends", "b"}, exitUsage, `can't be used together`},
			{[]string{"x", "--provider", "a", "--activate", "--no-wait"}, exitUsage, `can't be used together`},
			{[]string{"x", "--provider", "a", "--yes"}, exitUsage, `--yes is for --activate`},
			{[]string{"x", "--provider", "a", "--source", "openapi"}, exitUsage, `Did you mean openapi3\?`},
		} {
			r := catalog(append([]string{"import"}, tt.args...)...)
			require.Equal(t, tt.code, r.code, "%v: %s%s", tt.args, r.out, r.stderr)
			require.Regexp(t, tt.want, r.stderr)
			require.Empty(t, r.out, tt.args)
		}
		failed := catalog("import", file("bad.yaml"), "--provider", "acme", "--json")
		require.Equal(t, exitFailed, failed.code)
		require.Equal(t, "failed", decode[importRow](t, failed.out).Status)
		require.Regexp(t, `failed .* 2:\d+: malformed YAML`, must(t, catalog("imports")))
		require.Contains(t, catalog("diff", "acme").stderr, "No import of acme is ready (")
		require.Contains(t, catalog("diff", "acmee").stderr, "There is no import of acmee. Did you mean acme?")

		r := in.call(t, command{stdin: crmDocument("api.acme.com"), args: []string{"catalog", "import", "-", "--extends",
			"github", "--include", "tag:contacts", "--activate", "--environment", "production"}})
		require.Contains(t, must(t, r), "is the active version of github: 1 added", "the provider's hosts stay")
		require.Regexp(t, `Operations +3: 1 action, 1 excluded, 1 left out`, r.out)
		must(t, catalog("remove", "github", "--yes"))

		r = in.call(t, command{stdin: "{", args: []string{"catalog", "import", "-", "--provider", "acme", "--environment",
			"production"}})
		require.Equal(t, exitFailed, r.code)
		require.Regexp(t, `(?m)^standard input:1:\d+: `, r.stderr)
	})
}

// A document is read although no server runs.
func TestCatalogImportWithoutAServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		catalog := in.catalogOf(t)
		dir := write(t, t.TempDir(), "api.json", crmDocument("api.acme.com"))
		waiting := must(t, catalog("import", filepath.Join(dir, "api.json"), "--provider", "other", "--no-wait"))
		require.Regexp(t, `Status +queued`, waiting)
		require.Contains(t, must(t, catalog("cancel", "other")), "is cancelled")
		require.Contains(t, must(t, catalog("import", filepath.Join(dir, "api.json"), "--provider", "acme", "--activate",
			"--yes")), "is the active version of acme: 2 added")
	})
}

// An interrupt ends the wait for an import, which goes on, and says how to see its outcome and how to end it.
func TestCatalogImportInterrupted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		catalog := in.catalogOf(t)
		dir := write(t, t.TempDir(), "api.json", crmDocument("api.acme.com"))
		// On a clock that stands still the command waits until it is interrupted.
		c := (remote{t, in.environ()}).startAt(clock.NewManual(clock.System().Now()), "catalog", "import",
			filepath.Join(dir, "api.json"), "--provider", "acme", "--environment", "production")
		await.Condition(t, "an import that waits", func() bool {
			return strings.Contains(must(t, catalog("imports", "--status", "queued")), "acme")
		})
		c.end()
		c.exits(exitFailed)
		require.Regexp(t, `(?m)^The import goes on when a server runs\. Its outcome: sallyport catalog imports imp_\w+ `+
			`--environment production\nTo end it: sallyport catalog cancel imp_`, c.stderr.String())
		must(t, catalog("cancel", "acme"))
	})
}

// A document can be fetched, and the import is of its URL.
func TestCatalogImportOfAURL(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api.json" {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write([]byte(crmDocument("api.acme.com")))
		}))
		await.Close(t, api)
		in.serve(t, clock.System())
		catalog := in.catalogOf(t)
		fetch := func(path string) result {
			return catalog("import", api.URL+path, "--provider", "acme", "--egress-allow=127.0.0.0/8", "--egress-allow-http")
		}
		require.Contains(t, must(t, fetch("/api.json")), api.URL+"/api.json")
		r := fetch("/other")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, api.URL+"/other: cannot fetch the document: the server responded with status 404\n")
	})
}

// A provider with more actions than a page of the API has is shown with as many as are wanted.
func TestCatalogShowReadsPages(t *testing.T) {
	t.Parallel()
	const pages = 3
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := r.URL.Query().Get("cursor")
		if page == "" {
			page = "0"
		}
		if next := page[0] - '0' + 1; next < pages {
			w.Header().Set("X-Next-Cursor", string('0'+next))
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"provider": "acme", "actions": []any{map[string]any{"provider": "acme",
			"action": "action_" + page, "http": map[string]any{"method": "GET", "path": "/\x1b[2J"}}}})
	}))
	await.Close(t, s)
	r := remote{t, []string{"SALLYPORT_SERVER=" + s.URL, "SALLYPORT_API_KEY=k"}}
	out := r.run("", "catalog", "show", "acme", "--limit", "2")
	require.Equal(t, 2, strings.Count(out.out, "acme/action_"))
	require.Contains(t, out.stderr, "There are more actions")
	require.NotContains(t, out.out, "\x1b", "no text of a server controls the terminal")
	require.Len(t, decode[providerDetail](t, r.do("catalog", "show", "acme", "--all", "--json")).Rows, pages)
}

// The names of types say what a person has to write.
func TestTypesOfInputs(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"type": "string"}`: "string", `{"type": "string", "format": "date-time"}`: "date-time",
		`{"type": ["integer", "null"]}`: "integer or null", `true`: "any", `{}`: "any", ``: "any",
		`{"type": "array", "items": {"type": "array", "items": {"type": "number"}}}`: "array of array of number",
		`{"enum": ["a", 1, null]}`: "a|1|null", `{"enum": [1,2,3,4,5,6,7,8]}`: "1|2|3|4|5|6|2 more", `{"const": "x"}`: "x",
		`{"anyOf": [{"type": "string"}, {"type": "object"}, {"type": "string"}]}`: "string or object",
		`{"type": 5, "items": 3}`: "any", strings.Repeat(`{"anyOf":[`, 50) + strings.Repeat("]}", 50): "any",
	} {
		require.Equal(t, want, typeOf(json.RawMessage(schema), 0), schema)
	}
	require.Equal(t, `How many. Default: 20`, describe(json.RawMessage(`{"description": "How\n many.", "default": 20}`)))
	long := describe(json.RawMessage(`{"description": "` + strings.Repeat("x", 5000) + `"}`))
	require.Equal(t, strings.Repeat("x", maxDescription)+"…", long)
}

// A question that is asked where no one can reply is an error that says how to confirm it.
func TestConfirmWithoutATerminal(t *testing.T) {
	t.Parallel()
	f, err := os.Open(write(t, t.TempDir(), "y", "y\n") + "/y")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	e := &env{process: process{stdin: f}}
	err = e.confirm(t.Context(), "All would go.", "Remove it?", "Confirm it with --yes.")
	require.Equal(t, usageError("All would go. Confirm it with --yes."), err)
}
