package e2e_test

import (
	"bytes"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
	"sallyport/internal/reference"
)

func (w *world) get(path string) response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.base+path, http.NoBody)
	require.NoError(w.t, err)
	return w.send(r)
}

// The server publishes the document that the suites compare its responses with, for everyone to read.
func TestDocumentIsServed(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		a := w.get("/openapi.json").want(w, http.StatusOK)
		require.Equal(w.t, "application/json", a.header.Get("Content-Type"))
		text, err := reference.Document()
		require.NoError(w.t, err)
		var served, known map[string]any
		a.into(w, &served)
		response{body: text}.into(w, &known)
		info := members(served["info"])
		require.Equal(w.t, "test", info["version"])
		delete(info, "version")
		delete(members(known["info"]), "version")
		require.Equal(w.t, known, served)
		// Generated clients have the parameter of the inbound path under the name that it has always had.
		require.Contains(w.t, served["paths"], "/webhook/{connection_id}")
	})
}

// The document is OpenAPI 3.1 as its specification asks: every part that must be there is, every path parameter is
// declared, every operation has an id of its own, and security names schemes that exist.
func TestDocumentIsOpenAPI31(t *testing.T) {
	t.Parallel()
	root := published().root
	require.Regexp(t, `^3\.1\.\d+$`, root["openapi"])
	require.NotEmpty(t, at(root, "info", "title"))
	require.NotEmpty(t, at(root, "info", "version"))
	require.Subset(t, []string{"openapi", "info", "jsonSchemaDialect", "servers", "paths", "webhooks", "components",
		"security", "tags", "externalDocs"}, slices.Collect(maps.Keys(root)))
	servers, _ := root["servers"].([]any)
	require.Equal(t, prefix, at(servers[0], "url"))
	ids := map[string]bool{}
	for path, item := range members(root["paths"]) {
		require.True(t, strings.HasPrefix(path, "/"), path)
		for method, v := range members(item) {
			require.Contains(t, []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}, method)
			where := method + " " + path
			op := members(v)
			opID := text(op["operationId"])
			require.NotEmpty(t, opID, where)
			require.False(t, ids[opID], "%s: the id %s is taken", where, opID)
			ids[opID] = true
			parametersFit(t, where, path, op)
			responsesFit(t, where, op)
			requirements, _ := op["security"].([]any)
			for _, r := range requirements {
				for name := range members(r) {
					require.NotNil(t, at(root, "components", "securitySchemes", name), "%s: no security scheme %s", where, name)
				}
			}
		}
	}
	require.NotEmpty(t, ids)
}

func parametersFit(t *testing.T, where, path string, op map[string]any) {
	t.Helper()
	var inPath []string
	seen := map[string]bool{}
	list, _ := op["parameters"].([]any)
	for _, v := range list {
		p := published().resolve(v)
		name, in := text(p["name"]), text(p["in"])
		require.Contains(t, []string{"path", "query", "header", "cookie"}, in, where)
		require.NotEmpty(t, name, where)
		require.False(t, seen[in+name], "%s: parameter %s twice", where, name)
		seen[in+name] = true
		require.NotEqual(t, p["schema"] == nil, p["content"] == nil, "%s: parameter %s needs a schema or a content", where,
			name)
		if in == "path" {
			require.Equal(t, true, p["required"], "%s: path parameter %s", where, name)
			inPath = append(inPath, name)
		}
	}
	var inTemplate []string
	for _, m := range regexp.MustCompile(`\{([^}]+)\}`).FindAllStringSubmatch(path, -1) {
		inTemplate = append(inTemplate, m[1])
	}
	require.ElementsMatch(t, inTemplate, inPath, where)
}

func responsesFit(t *testing.T, where string, op map[string]any) {
	t.Helper()
	responses := members(op["responses"])
	require.NotEmpty(t, responses, where)
	for status, v := range responses {
		require.Regexp(t, `^([1-5](\d\d|XX)|default)$`, status, where)
		require.NotEmpty(t, published().resolve(v)["description"], "%s: %s", where, status)
	}
}

// Every schema in the document is a schema (JSON Schema 2020-12, the dialect of OpenAPI 3.1), every reference resolves,
// and every example and default is one of what its schema describes.
func TestDocumentSchemas(t *testing.T) {
	t.Parallel()
	testkit.NeedNoRace(t)
	meta, err := jsonschema.NewCompiler().Compile("https://json-schema.org/draft/2020-12/schema")
	require.NoError(t, err)
	schemas, examples := 0, 0
	walk(published().root, nil, func(names []string, node map[string]any) {
		if !isSchema(names) {
			return
		}
		schemas++
		require.NoError(t, meta.Validate(node), "%v", names)
		schema := published().schema(t, names...)
		values, _ := node["examples"].([]any)
		for _, key := range []string{"default", "example"} {
			if v, ok := node[key]; ok {
				values = append(values, v)
			}
		}
		for _, v := range values {
			examples++
			require.NoError(t, schema.Validate(v), "%v", names)
		}
	})
	require.Greater(t, schemas, 100)
	require.Greater(t, examples, 50)
}

// isSchema reports whether a schema lies where the names lead.
func isSchema(names []string) bool {
	if len(names) < 2 {
		return false
	}
	last, before := names[len(names)-1], names[len(names)-2]
	switch {
	case before == "schemas" && names[0] == "components" && len(names) == 3, before == "properties":
		return true
	case last == "items", last == "additionalProperties":
		return !slices.Contains([]string{"properties"}, before)
	case last == "schema":
		return before != "properties"
	default:
		return false
	}
}

// walk calls fn for every object below v.
func walk(v any, names []string, fn func(names []string, node map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		fn(names, v)
		for name, below := range v {
			if name != "examples" && name != "example" && name != "default" {
				walk(below, append(slices.Clone(names), name), fn)
			}
		}
	case []any:
		for i, below := range v {
			walk(below, append(slices.Clone(names), strconv.Itoa(i)), fn)
		}
	}
}

// docsFiles returns the paths of the files that the reference page loads.
func (w *world) docsFiles() []string {
	w.t.Helper()
	page := w.get("/docs").want(w, http.StatusOK)
	var paths []string
	for _, m := range regexp.MustCompile(`(?:src|href)="(/docs/[^"]*)"`).FindAllStringSubmatch(string(page.body), -1) {
		paths = append(paths, m[1])
	}
	return paths
}

// The reference page shows the document without a request to any other host: it loads only its own files, and its
// content policy permits nothing else. The viewer itself can load from elsewhere, so the policy and the browser's test
// cover it.
func TestDocsLoadNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		page := w.get("/docs").want(w, http.StatusOK)
		require.Equal(w.t, "text/html; charset=utf-8", page.header.Get("Content-Type"))
		require.NotContains(w.t, string(page.body), "<script>")
		require.NotContains(w.t, string(page.body), "<style")
		files := map[string]response{"/docs": page}
		for _, m := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(string(page.body), -1) {
			require.Regexp(w.t, `^(data:,|/openapi\.json|/docs/[^/]+)$`, m[1])
		}
		for _, path := range w.docsFiles() {
			files[path] = w.get(path).want(w, http.StatusOK)
			require.Regexp(w.t, `^text/(css|javascript); charset=utf-8$`, files[path].header.Get("Content-Type"))
		}
		for name, f := range files {
			require.Equal(w.t, "nosniff", f.header.Get("X-Content-Type-Options"), name)
			sources := map[string][]string{}
			for directive := range strings.SplitSeq(f.header.Get("Content-Security-Policy"), ";") {
				words := strings.Fields(directive)
				require.NotEmpty(w.t, words, name)
				sources[words[0]] = words[1:]
				require.NotContains(w.t, directive, "unsafe-eval")
				for _, source := range words[1:] {
					require.Contains(w.t, []string{"'none'", "'self'", "'unsafe-inline'", "data:"}, source, name)
				}
			}
			require.Equal(w.t, []string{"'none'"}, sources["default-src"], "what is not named is forbidden")
			require.Equal(w.t, []string{"'self'"}, sources["script-src"])
			require.Equal(w.t, []string{"'self'"}, sources["connect-src"])
			require.Equal(w.t, []string{"'none'"}, sources["frame-ancestors"])
			if !strings.HasPrefix(name, "/docs/scalar-") {
				require.Empty(w.t, loads(f.body), name)
			}
		}
	})
}

// loads returns the places of a page, a style sheet or a script that load something from another host.
func loads(content []byte) []string {
	var out []string
	for _, pattern := range []string{
		`(?i)<(script|link|img|iframe)[^>]*\s(src|href)=["']?(https?:)?//[^"' >]+`,
		`(?i)@import\s+(url\()?["']?(https?:)?//[^"')]+`,
		`(?i)url\(\s*["']?(https?:)?//[^"')]+`,
		`(?i)\b(importScripts|import)\(\s*["'](https?:)?//[^"']+`,
	} {
		for _, m := range regexp.MustCompile(pattern).FindAll(content, -1) {
			// The names of XML vocabularies look like addresses and are none.
			if !bytes.Contains(m, []byte("www.w3.org/")) {
				out = append(out, string(m))
			}
		}
	}
	return out
}
