package registry_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/risk"
)

// shippedActions returns the actions of the built-in definitions by their providers.
func shippedActions(t *testing.T) map[string][]*actions.Action {
	t.Helper()
	loaded, err := registry.Builtin()
	require.NoError(t, err)
	out := map[string][]*actions.Action{}
	for _, p := range loaded.List() {
		if len(p.Actions) > 0 {
			out[p.Definition.Slug] = p.Actions
		}
	}
	return out
}

// The actions that ship are complete: schemas that a validator reads, words for people, and names that tools can have.
func TestShippedActions(t *testing.T) {
	t.Parallel()
	tools := map[string]bool{}
	for slug, list := range shippedActions(t) {
		for _, a := range list {
			name := slug + "/" + a.Name
			require.NotEmpty(t, a.Tags, name)
			require.NotEmpty(t, a.DocsURL, name)
			compileSchema(t, a.Input)
			if a.Output != nil {
				compileSchema(t, a.Output)
			}
			require.Less(t, len(a.Input)+len(a.Output), 8<<10, name)
			tool := actions.ToolName(slug, a.Name, a.Method, a.Path)
			require.Equal(t, strings.ReplaceAll(slug, "-", "_")+"__"+a.Name, tool, "it is short enough as it is")
			require.False(t, tools[tool], tool)
			tools[tool] = true
			var input struct {
				Properties map[string]struct {
					Description string
					Default     json.RawMessage
				}
			}
			require.NoError(t, json.Unmarshal(a.Input, &input))
			require.Len(t, input.Properties, len(a.Parameters), name)
			for property, in := range input.Properties {
				require.NotEmpty(t, in.Description, "%s %s", name, property)
				require.True(t, strings.HasSuffix(in.Description, "."), "%s %s ends like a sentence", name, property)
			}
		}
	}
	require.Greater(t, len(tools), 100)
}

// No action that destroys, moves money, reaches people, changes access or runs code is as low as one that reads, and
// money that is moved is a reason for the highest levels. All that ships is judged by people, except for what GET and
// HEAD read.
func TestShippedRisks(t *testing.T) {
	t.Parallel()
	levels, flags := map[string]risk.Level{}, map[string][]risk.Flag{}
	for slug, list := range shippedActions(t) {
		for _, a := range list {
			name := slug + "/" + a.Name
			of := risk.Assess(&a.Call)
			levels[name], flags[name] = of.Level, of.Flags
			reads := a.Call.Method == http.MethodGet || a.Call.Method == http.MethodHead
			if !reads {
				require.NotNil(t, a.Call.Definition, name)
				require.NotEmpty(t, a.Call.Definition.Operation, name)
				require.Equal(t, risk.FromDefinition, of.Source, name)
			}
			if of.Level == risk.Low {
				require.Equal(t, risk.Read, of.Operation, name)
				for _, f := range []risk.Flag{risk.Destructive, risk.MovesMoney, risk.ChangesAccess, risk.RunsCode,
					risk.NotifiesPeople} {
					require.NotContains(t, of.Flags, f, name)
				}
			}
			require.Equal(t, of.Operation == risk.Read, of.Level == risk.Low, name)
			if of.Operation == risk.Delete || a.Call.Definition != nil && slices.Contains(a.Call.Definition.Flags,
				risk.MovesMoney) {
				require.False(t, risk.High.Above(of.Level), name)
			}
		}
	}
	for name, want := range map[string]risk.Level{
		"stripe/create_refund": risk.Critical, "stripe/create_payout": risk.Critical,
		"stripe/confirm_payment_intent": risk.Critical,
		"stripe/delete_customer":        risk.High, "github/merge_pull_request": risk.High,
		"github/delete_file":      risk.High,
		"github/add_collaborator": risk.High, "slack/chat_post_message": risk.Medium, "slack/conversations_list": risk.Low,
		"slack/auth_test": risk.Low, "http/get": risk.Low, "http/post": risk.Medium, "http/delete": risk.High,
	} {
		require.Equal(t, want, levels[name], name)
	}
	require.Empty(t, flags["http/post"], "what it does is not known")
}

// Parts of an API that are at hosts of their own are called there, and others at the provider's base URL.
func TestShippedBaseURLs(t *testing.T) {
	t.Parallel()
	hosts := map[string]string{"gmail": "https://gmail.googleapis.com", "sheets": "https://sheets.googleapis.com",
		"calendar": "", "drive": ""}
	seen := map[string]bool{}
	for slug, list := range shippedActions(t) {
		for _, a := range list {
			switch slug {
			case "google":
				product, _, _ := strings.Cut(a.Name, "_")
				require.Contains(t, hosts, product)
				require.Equal(t, hosts[product], a.BaseURL, a.Name)
				require.Equal(t, []string{product}, a.Tags, a.Name)
				seen[product] = true
			case "shopify":
				require.Equal(t, "https://${config.shop}.myshopify.com/admin/api/${config.api_version}", a.BaseURL, a.Name)
			default:
				require.Empty(t, a.BaseURL, slug+"/"+a.Name)
			}
		}
	}
	require.Len(t, seen, len(hosts))
}

// A call that is no action of the definition gets the risk that its rules state.
func TestShippedRules(t *testing.T) {
	t.Parallel()
	loaded, err := registry.Builtin()
	require.NoError(t, err)
	stripe, _ := loaded.Get("stripe")
	transfer := &actions.Action{Method: "POST", Path: "/v1/transfers"}
	stripe.Rules.Complete(transfer)
	require.Equal(t, risk.Critical, risk.Assess(&transfer.Call).Level)
	require.Equal(t, "Idempotency-Key", transfer.Idempotency.Header)
}

// The path of a call to any HTTP API keeps its slashes, and headers of credentials are no inputs.
func TestActionsOfAnyAPI(t *testing.T) {
	t.Parallel()
	list := shippedActions(t)["http"]
	var names []string
	for _, a := range list {
		names = append(names, a.Name)
		require.Equal(t, actions.Parameter{Property: "path", Name: "path", Place: actions.InPath, Reserved: true},
			a.Parameters[0])
		schema := compileSchema(t, a.Input)
		valid := func(text string) bool {
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			require.NoError(t, err)
			return schema.Validate(v) == nil
		}
		require.True(t, valid(`{"path":"users/42","query":{"q":"a","n":[1,2]},"headers":{"X-Request-Id":"1"}}`))
		for _, wrong := range []string{`{}`, `{"path":""}`, `{"path":"/users"}`,
			`{"path":"a","headers":{"AUTHORIZATION":"x"}}`,
			`{"path":"a","headers":{"X-Http-Method-Override":"DELETE"}}`, `{"path":"a","query":{"_method":"DELETE"}}`,
			`{"path":"a","query":{"a":{}}}`, `{"path":"a","other":1}`} {
			require.False(t, valid(wrong), wrong)
		}
	}
	require.Equal(t, []string{"get", "head", "post", "put", "patch", "delete"}, names)
}

// fact is what a provider's own sources say about a parameter.
type fact struct {
	required bool
	kinds    []string
	enum     []string
}

// readFacts reads a table of facts: of each operation, its parameters by place and name.
func readFacts(t *testing.T, slug string) map[string]map[string]fact {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "facts", slug+".txt"))
	require.NoError(t, err)
	out, current := map[string]map[string]fact{}, map[string]fact{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case line[0] == '#':
		case line[0] != ' ':
			current = map[string]fact{}
			out[anyNames(strings.TrimSpace(line))] = current
		default:
			name, required := strings.CutSuffix(fields[1], "*")
			f := fact{required: required}
			for kind := range strings.SplitSeq(fields[2], "|") {
				if values, isEnum := strings.CutPrefix(kind, "enum="); isEnum {
					f.enum = strings.Split(values, ",")
					kind = "string"
				}
				f.kinds = append(f.kinds, kind)
			}
			current[fields[0]+" "+name] = f
		}
	}
	require.NotEmpty(t, out)
	return out
}

// anyNames makes paths comparable whose parameters have other names.
func anyNames(path string) string {
	return regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, "{}")
}

// readExceptions reads where the actions of a provider differ from its table, and why.
func readExceptions(t *testing.T, slug string) map[string]string {
	t.Helper()
	out := map[string]string{}
	text, err := os.ReadFile(filepath.Join("testdata", "facts", slug+".exceptions"))
	if errors.Is(err, fs.ErrNotExist) {
		return out
	}
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if line[0] == '#' {
			continue
		}
		key, reason, found := strings.Cut(strings.TrimSpace(line), ": ")
		require.True(t, found, "%s: %q has no reason", slug, line)
		out[key] = reason
	}
	return out
}

// slugsWithFacts returns the providers of whose operations there is a table.
func slugsWithFacts(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "facts", "*.txt"))
	require.NoError(t, err)
	var out []string
	for _, file := range files {
		out = append(out, strings.TrimSuffix(filepath.Base(file), ".txt"))
	}
	return out
}

// The actions have the methods, paths, parameters, types and values that the providers' own documents and packages
// have: what is sent exists, and what is needed is required. Where they differ, a file next to the table says why.
func TestShippedActionsAgreeWithProviders(t *testing.T) {
	t.Parallel()
	shipped := shippedActions(t)
	for _, slug := range slugsWithFacts(t) {
		t.Run(slug, func(t *testing.T) {
			t.Parallel()
			require.NotEmpty(t, shipped[slug])
			agreement{facts: readFacts(t, slug), known: readExceptions(t, slug), used: map[string]bool{}}.
				check(t, shipped[slug])
		})
	}
}

// agreement compares the actions of a provider with its table.
type agreement struct {
	facts map[string]map[string]fact
	known map[string]string
	used  map[string]bool
}

// except reports whether a difference is a known one.
func (g agreement) except(parts ...string) bool {
	key := strings.Join(parts, " ")
	g.used[key] = true
	return g.known[key] != ""
}

func (g agreement) check(t *testing.T, list []*actions.Action) {
	t.Helper()
	compared := 0
	for _, a := range list {
		operation, found := g.facts[a.Method+" "+anyNames(a.Path)]
		if !found {
			require.True(t, g.except(a.Name), "%s is not in the table", a.Name)
			continue
		}
		compared++
		g.compare(t, a, operation)
	}
	require.Greater(t, compared, len(list)/2, "most actions are in the table")
	for key := range g.known {
		require.True(t, g.used[key], "%s is no exception any more", key)
	}
}

// compare compares one action with the facts about its operation.
func (g agreement) compare(t *testing.T, a *actions.Action, operation map[string]fact) {
	t.Helper()
	var input struct {
		Properties map[string]struct {
			Type       any
			Enum       []any
			Properties map[string]struct{ Type any }
		}
		Required []string
	}
	require.NoError(t, json.Unmarshal(a.Input, &input))
	ours := map[string]bool{}
	for _, p := range a.Parameters {
		key, at := string(p.Place)+" "+p.Name, a.Name+" "+string(p.Place)+" "+p.Name
		ours[key] = true
		f, exists := operation[key]
		if !exists {
			require.True(t, g.except(a.Name, key), "%s does not exist there", at)
			continue
		}
		if required := slices.Contains(input.Required, p.Property); required != f.required {
			require.True(t, g.except(a.Name, "required", p.Name), "%s: required %v there", at, f.required)
		}
		in := input.Properties[p.Property]
		for member, m := range in.Properties {
			of, exists := operation[key+"."+member]
			if !exists && !hasMembers(operation, key) {
				break // the table does not say which members there are
			}
			require.True(t, exists || g.except(a.Name, key+"."+member), "%s.%s does not exist there", at, member)
			for _, kind := range kindsOf(m.Type) {
				require.True(t, !exists || slices.Contains(of.kinds, kind) || g.except(a.Name, "type", p.Name+"."+member),
					"%s.%s is a %s here and one of %v there", at, member, kind, of.kinds)
			}
		}
		for _, kind := range kindsOf(in.Type) {
			require.True(t, slices.Contains(f.kinds, kind) || g.except(a.Name, "type", p.Name),
				"%s is a %s here and one of %v there", at, kind, f.kinds)
		}
		for _, value := range in.Enum {
			if text, isText := value.(string); isText && f.enum != nil {
				require.True(t, slices.Contains(f.enum, text) || g.except(a.Name, "value", p.Name, text),
					"%s does not have the value %s there", at, text)
			}
		}
	}
	for key, f := range operation {
		if strings.Contains(key, ".") && strings.HasPrefix(key, "body ") {
			continue
		}
		require.True(t, !f.required || ours[key] || g.except(a.Name, "needs", key), "%s needs %s", a.Name, key)
	}
}

// hasMembers reports whether a table has members of a parameter that is an object.
func hasMembers(operation map[string]fact, key string) bool {
	for other := range operation {
		if strings.HasPrefix(other, key+".") {
			return true
		}
	}
	return false
}

// kindsOf returns the types of a schema; integers are numbers.
func kindsOf(kind any) []string {
	var out []string
	switch k := kind.(type) {
	case string:
		out = append(out, k)
	case []any:
		for _, one := range k {
			if text, isText := one.(string); isText {
				out = append(out, text)
			}
		}
	}
	for i := range out {
		if out[i] == "integer" {
			out[i] = "number"
		}
	}
	return out
}
