package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/operator"
	"sallyport/internal/platform/clock"
)

// offline calls a command that has no data folder and no environment.
func offline(t *testing.T, args ...string) result {
	t.Helper()
	return call(command{ctx: t.Context(), clock: clock.System(), args: args},
		[]string{"SALLYPORT_DATA=" + filepath.Join(t.TempDir(), "none")})
}

// acme is a good definition.
const acme = `schema: 1
slug: acme
display_name: Acme
categories: [crm]
docs_url: https://acme.example/docs
webhooks:
  setup: Paste the URL.
  scheme: hmac
  algorithm: sha256
  secret: {decode: utf8}
  signature: [{from: "header:x-acme-signature", encoding: hex}]
  signed: "{body}"
  event:
    type: ["{json:/type}"]
    id: ["json:/id"]
`

// write puts files into a folder and returns its path.
func write(t *testing.T, dir string, files ...string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for file := range slices.Chunk(files, 2) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file[0]), []byte(file[1]), 0o600))
	}
	return dir
}

// The providers are listed and shown without data or network, for people and for programs alike.
func TestProvidersListAndShow(t *testing.T) {
	t.Parallel()
	r := offline(t, "providers", "list")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `(?m)^PROVIDER +NAME +CATEGORIES +SCHEME +HANDSHAKES +GRADE +SOURCE +AUTH$`, r.out)
	require.Regexp(t, `(?m)^github +GitHub +source-control,developer-tools +hmac sha256 +none +vector +builtin +`+
		`oauth2,token,github_app$`, r.out)

	list := decode[[]operator.ProviderSummary](t, offline(t, "providers", "list", "--json").out)
	require.Len(t, list, strings.Count(r.out, "\n")-1)

	r = offline(t, "providers", "show", "github")
	require.Equal(t, exitOK, r.code, r.stderr)
	for _, line := range []string{
		"GitHub (github)", "Scheme          hmac sha256", "Proof in        header:x-hub-signature-256",
		"Signed          {body}", "Age limit       none", "Id              header:x-github-delivery (not signed)",
		"Removed         from the body: nothing",
		"Grade           vector", "Set-up",
	} {
		require.Contains(t, r.out, line+"\n")
	}
	require.Contains(t, r.out, "\n  In the repository, organization or app settings")
	one := decode[operator.ProviderSummary](t, offline(t, "providers", "show", "github", "--json").out)
	require.Contains(t, list, one)

	r = offline(t, "providers", "show", "shopify")
	require.Contains(t, r.out, "\n                / becomes a dot\n")
	require.Contains(t, r.out, "\nKnown types\n")
	require.Contains(t, r.out, "\n  orders.create  (orders/create)\n")
	require.Contains(t, offline(t, "providers", "show", "gitlab").out, "Push Hook becomes push")
	require.Contains(t, offline(t, "providers", "show", "mailgun").out,
		"; used once: json:/signature/token or form:token\n")

	r = offline(t, "providers", "show", "nobody")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "there is no provider \"nobody\"; `sallyport providers list`")
}

// The folder's definitions are in the list, and errors in them stop it, all reported together.
func TestProvidersOfTheFolder(t *testing.T) {
	t.Parallel()
	dir := write(t, filepath.Join(t.TempDir(), "definitions"), "acme.yaml", acme)
	r := offline(t, "providers", "list", "--providers-dir", dir)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `(?m)^acme +Acme +crm +hmac sha256 +none +folder$`, r.out)
	require.Contains(t, offline(t, "providers", "show", "acme", "--providers-dir", dir).out, "Definition      folder\n")
	write(t, dir, "b.yaml", "x", "c.yml", "")
	r = offline(t, "providers", "list", "--providers-dir", dir)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, filepath.Join(dir, "b.yaml")+": must be a mapping\n"+filepath.Join(dir, "c.yml")+
		": must end in .yaml\n")
}

// A definition cannot take the slug of one that ships by mistake; what is to ship may have it, and needs evidence.
func TestProvidersLintShipping(t *testing.T) {
	t.Parallel()
	github := strings.Replace(acme, "slug: acme", "slug: github", 1)
	dir := write(t, t.TempDir(), "github.yaml", github)
	require.Contains(t, offline(t, "providers", "lint", dir).out,
		"github.yaml:2: slug: is that of a definition that ships")
	require.Equal(t, filepath.Join(dir, "github.yaml")+
		": evidence: must name the evidence of the definition, because it is a built-in one\n", offline(t, "providers",
		"lint",
		"--shipping", dir).out)
	write(t, dir, "github.yaml", github+"replaces_builtin: true\n")
	require.Equal(t, exitOK, offline(t, "providers", "lint", dir).code)
	require.Contains(t, offline(t, "providers", "lint", "--shipping", dir).out,
		"github.yaml:16: replaces_builtin: has no meaning in a definition that ships")
	require.Equal(t, exitOK, offline(t, "providers", "lint", "--shipping", filepath.Join("..", "..", "definitions")).code)
}

// Lint names every problem of every file with its place and field, in one run, and exits with 1; without problems it
// exits with 0.
func TestProvidersLint(t *testing.T) {
	t.Parallel()
	dir := write(t, filepath.Join(t.TempDir(), "definitions"), "acme.yaml", acme)
	r := offline(t, "providers", "lint", dir)
	require.Equal(t, result{code: exitOK, stderr: "definitions: 1, errors: 0\n"}, r)

	write(t, dir, "b.yaml", strings.Replace(acme, "encoding: hex", "encoding: hexadecimal", 1), "c.yml", acme,
		"ignored.txt", "x", "d.yaml", "schema: 1\nsulg: d\nwebhooks: {setup: [a], algoritm: x}\n")
	want := []string{
		dir + "/b.yaml:2: slug: must be the file's name without .yaml",
		dir + "/b.yaml:11: webhooks.signature[0].encoding: must be hex, base64 or base64url",
		dir + "/c.yml: must end in .yaml",
		dir + "/d.yaml:2: sulg: is not a field of the format. Did you mean slug?",
		dir + "/d.yaml:3: webhooks.setup: must be text",
		dir + "/d.yaml:3: webhooks.algoritm: is not a field of the format. Did you mean algorithm?",
	}
	r = offline(t, "providers", "lint", dir)
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "definitions: 4, errors: 6\n", r.stderr)
	lines := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	require.Len(t, lines, len(want), r.out)
	for i := range want {
		require.True(t, strings.HasPrefix(lines[i], want[i]), "%s\n%s", lines[i], want[i])
	}

	r = offline(t, "providers", "lint", "--json", filepath.Join(dir, "b.yaml"), filepath.Join(dir, "acme.yaml"))
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, []operator.ProviderProblem{
		{File: filepath.Join(dir, "b.yaml"), Line: 2, Field: "slug", Message: "must be the file's name without .yaml"},
		{File: filepath.Join(dir, "b.yaml"), Line: 11, Field: "webhooks.signature[0].encoding",
			Message: "must be hex, base64 or base64url"},
	}, decode[[]operator.ProviderProblem](t, r.out))
	require.Equal(t, "[]\n", offline(t, "providers", "lint", "--json", filepath.Join(dir, "acme.yaml")).out)
}

// A file that lint cannot read is an error and never silence.
func TestProvidersLintNothing(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, tt := range []struct{ path, want string }{
		{filepath.Join(empty, "none.yaml"), "none.yaml does not exist"},
		{empty, "holds no definition"},
	} {
		r := offline(t, "providers", "lint", tt.path)
		require.Equal(t, exitFailed, r.code)
		require.Empty(t, r.out)
		require.Contains(t, r.stderr, tt.want)
	}
	r := offline(t, "providers", "lint", filepath.Join(write(t, empty, "notes.txt", "x"), "notes.txt"))
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.out, "notes.txt: is no .yaml file\n")
	require.Equal(t, exitUsage, offline(t, "providers", "lint").code)
}

// A definition by another person cannot control the terminal of the one who checks it.
func TestProvidersLintShowsNoControlCharacters(t *testing.T) {
	t.Parallel()
	dir := write(t, t.TempDir(), "acme.yaml", acme+"\"a\\e[31mb\": 1\n")
	r := offline(t, "providers", "lint", dir)
	require.Equal(t, exitFailed, r.code)
	require.NotContains(t, r.out, "\x1b")
	require.Contains(t, r.out, ": a…: is not a field", "a name that no field has is cut where it stops being one")
}

// acting is acme with actions, which TestProvidersLintDocument compares with a document.
const acting = `schema: 1
slug: acme
display_name: Acme
categories: [crm]
docs_url: https://acme.example/docs
base_url: https://api.acme.example
allowed_hosts: [api.acme.example]
auth: [{mode: bearer}]
actions:
  inline:
    list_things:
      title: List things
      method: GET
      path: /things
      input:
        state: {type: string, enum: [open, gone], description: The state.}
    get_thing:
      title: Get a thing
      method: GET
      path: /things/{thing}
      input:
        thing: {type: string, description: The thing.}
`

// Actions are compared with the documents that are given, offline. A difference is an error of the action's line; a
// document that cannot be read, or that belongs to no definition, is an error of the command.
func TestProvidersLintDocument(t *testing.T) {
	t.Parallel()
	dir := write(t, filepath.Join(t.TempDir(), "definitions"), "acme.yaml", acting)
	document := filepath.Join(write(t, t.TempDir(), "api.yaml", `openapi: 3.0.3
info: {title: Acme, version: "1"}
paths:
  /things:
    get:
      parameters: [{name: state, in: query, schema: {type: string, enum: [open, closed]}}]
      responses: {"200": {description: The things.}}
`, "empty.yaml", "", "bad.json", "{\n\"openapi\": 3,,}"), "api.yaml")
	require.Equal(t, exitOK, offline(t, "providers", "lint", dir).code)
	r := offline(t, "providers", "lint", dir, "--document", "acme="+document)
	require.Equal(t, exitFailed, r.code)
	file := filepath.Join(dir, "acme.yaml")
	require.Equal(t, file+":16: actions.inline.list_things.input.state: has the value gone, and in the document there "+
		"are open, closed\n"+
		file+":17: actions.inline.get_thing: is GET /things/{thing}, which the document does not have\n", r.out)
	require.Equal(t, "definitions: 1, errors: 2\n", r.stderr)
	found := decode[[]operator.ProviderProblem](t, offline(t, "providers", "lint", dir, "--json", "--document",
		"acme="+document).out)
	require.Len(t, found, 2)
	require.Equal(t, 17, found[1].Line)

	for _, tt := range []struct{ given, want string }{
		{"other=" + document, "api.yaml is a document for other, and no definition of that slug is checked"},
		{"acme=" + filepath.Join(dir, "gone.yaml"), "gone.yaml does not exist"},
		{"acme=" + filepath.Join(filepath.Dir(document), "bad.json"), "bad.json: line 2, column"},
		{"acme=" + filepath.Join(filepath.Dir(document), "empty.yaml"), "empty.yaml: "},
		{"acme=" + dir, "is a directory"},
	} {
		r := offline(t, "providers", "lint", dir, "--document", tt.given)
		require.Equal(t, exitFailed, r.code, tt.given)
		require.Contains(t, r.stderr, tt.want)
		require.Empty(t, r.out)
	}
	require.Equal(t, exitUsage, offline(t, "providers", "lint", dir, "--document", document).code)
}
