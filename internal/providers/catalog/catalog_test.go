package catalog_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/actionindex"
	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/catalog"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/imports"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/risk"
)

const env = id.Environment("env_x")

// world has the definitions that ship, an import that adds actions to GitHub, and provider configurations.
type world struct {
	*registry.Registry
	added   map[string][]*actions.Action // by the id of an import
	version map[string]*imports.Version
	known   map[string]*configs.Config
	failing bool
	// gone is true of imports that are deleted between a search and the reading of what it found.
	gone bool
	// reads counts the actions that were read.
	reads int
	svc   *catalog.Service
}

func newWorld(t *testing.T) *world {
	t.Helper()
	builtin, err := registry.Builtin()
	require.NoError(t, err)
	w := &world{Registry: builtin, added: map[string][]*actions.Action{}, version: map[string]*imports.Version{},
		known: map[string]*configs.Config{}}
	w.svc = catalog.New(catalog.Config{Definitions: w, Imports: w, Configs: w, Logger: slog.New(slog.DiscardHandler)})
	return w
}

// A mode says whether the provider configuration needs an OAuth client, and to which hosts its secrets go only if it
// lists them: none of a definition that ships, unless each connection names its host.
func TestOAuthClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := func(key, mode string) *catalog.OAuthClient {
		p, _, err := w.svc.Get(t.Context(), env, key)
		require.NoError(t, err)
		return p.OAuthClient(mode)
	}
	require.Nil(t, client("github", "token"))
	require.Nil(t, client("github", "nothing"))
	require.Equal(t, &catalog.OAuthClient{}, client("github", "oauth2"))
	require.Equal(t, &catalog.OAuthClient{}, client("gitlab", "oauth2"), "the default is gitlab.com")
	require.Equal(t, &catalog.OAuthClient{}, client("zendesk", "oauth2"), "the host has a fixed end")
	require.Equal(t, &catalog.OAuthClient{HostsRequired: true}, client("http", "oauth2"))
	w.known["github"] = &configs.Config{Key: "github", Provider: "github", ClientID: "me"}
	require.True(t, client("github", "oauth2").Configured)
}

// Versions implements catalog.Definitions.
func (w *world) Versions(id.Environment) map[string]*imports.Version { return w.version }

var errUnreadable = errors.New("the parts are gone")

// Index implements catalog.Imports.
func (w *world) Index(_ context.Context, _ id.Environment, importID string) (*actionindex.Index, error) {
	if w.failing {
		return nil, errUnreadable
	}
	b := actionindex.NewBuilder("github", "GitHub")
	for _, a := range w.added[importID] {
		text, err := a.Encode()
		if err != nil {
			return nil, err
		}
		s := a.Summarize(text)
		b.Add(a, &s)
	}
	return b.Build()
}

// Action implements catalog.Imports.
func (w *world) Action(_ context.Context, _ id.Environment, importID string, number int) (*actions.Action, error) {
	w.reads++
	if w.gone {
		return nil, apperr.NotFound("import")
	}
	return w.added[importID][number], nil
}

// Resolve implements catalog.Configs.
func (w *world) Resolve(_ context.Context, _ id.Environment, key string) (*configs.Config, bool, error) {
	if c := w.known[key]; c != nil {
		return c, true, nil
	}
	_, ok := w.Get(key)
	return &configs.Config{Key: key, Provider: key}, ok, nil
}

// Known implements catalog.Configs.
func (w *world) Known(context.Context, id.Environment) (map[string]*configs.Config, error) {
	return w.known, nil
}

// add makes an import of actions for GitHub active.
func (w *world) add(names ...string) {
	for _, name := range names {
		w.added["imp_1"] = append(w.added["imp_1"], &actions.Action{Name: name, Title: name, Method: "DELETE",
			Path: "/imported/" + name, Input: []byte(`{"type":"object"}`), Call: risk.Call{Method: "DELETE", Path: "/" + name}})
	}
	w.version["github"] = &imports.Version{Import: "imp_1", Slug: "github", Actions: len(w.added["imp_1"])}
}

func names(list []catalog.Summary) (out []string) {
	for i := range list {
		out = append(out, list[i].Name)
	}
	return out
}

// A list and the provider itself count the same actions: one that an import and a definition both have once.
func TestActionsAreCountedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	github, _ := w.Get("github")
	counts := func() (list, detail int) {
		all, err := w.svc.List(t.Context(), env, catalog.Filter{Search: "github"})
		require.NoError(t, err)
		require.Len(t, all, 1)
		p, set, err := w.svc.Get(t.Context(), env, "github")
		require.NoError(t, err)
		page, err := w.svc.Page(t.Context(), set, &catalog.Conditions{}, "", true, 1000)
		require.NoError(t, err)
		require.Len(t, page, p.Actions)
		return all[0].Actions, p.Actions
	}
	w.failing = true
	w.add("zap", "create_issue", "delete_file")
	list, detail := counts()
	require.Equal(t, []int{len(github.Actions), len(github.Actions)}, []int{list, detail}, "the import cannot be read")
	w.failing = false
	for range 2 {
		list, detail = counts()
		require.Equal(t, []int{len(github.Actions) + 1, len(github.Actions) + 1}, []int{list, detail})
	}
}

// A query that names a provider finds that provider's actions first, also where another one has all of its words.
func TestNamedProviderComesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("stripe_refund")
	found, err := w.svc.SearchAll(t.Context(), env, nil, "stripe refund", &catalog.Conditions{})
	require.NoError(t, err)
	require.Equal(t, "stripe", found[0].Key, names(found))
	require.Contains(t, names(found), "stripe_refund")
	w.known["pay-eu"] = &configs.Config{Key: "pay-eu", Provider: "stripe"}
	found, err = w.svc.SearchAll(t.Context(), env, nil, "pay-eu refund", &catalog.Conditions{})
	require.NoError(t, err)
	require.Equal(t, "pay-eu", found[0].Key, "the key of a configuration is a name, too")
	found, err = w.svc.SearchAll(t.Context(), env, nil, "eine Zahlung bei Stripe erstatten", &catalog.Conditions{})
	require.NoError(t, err)
	require.Equal(t, "create_refund", found[0].Name, names(found))
}

// An action that a search has found and that is gone when it is read is left out, and the rest stays.
func TestActionsThatAreGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("zap_issue")
	found, err := w.svc.SearchAll(t.Context(), env, []string{"github"}, "issue", &catalog.Conditions{})
	require.NoError(t, err)
	require.Contains(t, names(found), "zap_issue")
	w.gone = true
	rest, err := w.svc.FindAll(t.Context(), env, found)
	require.NoError(t, err)
	require.Len(t, rest, len(found)-1)
	w.gone = false
	all, err := w.svc.FindAll(t.Context(), env, found)
	require.NoError(t, err)
	require.Len(t, all, len(found))
	w.version = nil
	found[0].Key = "nothing"
	rest, err = w.svc.FindAll(t.Context(), env, found)
	require.NoError(t, err)
	require.NotEmpty(t, rest)
}

// An action of an import is read once, so that calls do not wait for the database. A very large one, which would take
// the memory of many, is read each time.
func TestActionsOfImportsAreReadOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("zap", "large")
	w.added["imp_1"][1].Output = []byte(`"` + strings.Repeat("x", 40<<10) + `"`)
	find := func(name string) (reads int) {
		for range 3 {
			before := w.reads
			a, err := w.svc.Find(t.Context(), env, "github", name)
			require.NoError(t, err)
			require.Equal(t, name, a.Name)
			reads += w.reads - before
		}
		return reads
	}
	require.Equal(t, []int{1, 3}, []int{find("zap"), find("large")})
	require.Zero(t, find("zap"))
	w.added["imp_2"] = w.added["imp_1"]
	w.version["github"] = &imports.Version{Import: "imp_2", Slug: "github", Actions: 2}
	require.Equal(t, 1, find("zap"))
	w.version = nil
	_, err := w.svc.Find(t.Context(), env, "github", "zap")
	require.True(t, apperr.Is(err, apperr.CodeActionNotFound), "%v", err)
}

// Pages of a provider in both orders have each action once, those of an import among those that ship; and where both
// have one of a name, the one that people have checked.
func TestPagesOfActions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("zap", "aardvark", "create_issue")
	_, set, err := w.svc.Get(t.Context(), env, "github")
	require.NoError(t, err)
	for _, ascending := range []bool{true, false} {
		var got []string
		for after := ""; ; {
			page, err := w.svc.Page(t.Context(), set, &catalog.Conditions{}, after, ascending, 7)
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			got = append(got, names(page)...)
			after = got[len(got)-1]
		}
		p, ok := w.Get("github")
		require.True(t, ok)
		want := []string{"zap", "aardvark"}
		for _, a := range p.Actions {
			want = append(want, a.Name)
		}
		slices.Sort(want)
		if !ascending {
			slices.Reverse(want)
		}
		require.Equal(t, want, got)
	}
	a, err := w.svc.Find(t.Context(), env, "github", "create_issue")
	require.NoError(t, err)
	require.Equal(t, "POST", a.Method, "the action that ships")
	require.NotEqual(t, "imp_1", a.Version)
	a, err = w.svc.Find(t.Context(), env, "github", "zap")
	require.NoError(t, err)
	require.Equal(t, "imp_1", a.Version)
	provider, _, err := w.svc.Get(t.Context(), env, "github")
	require.NoError(t, err)
	require.Equal(t, provider.Sum()+"-imp_1", provider.Version(), "both the definition and the import can change")
	all, err := w.svc.Page(t.Context(), set, &catalog.Conditions{}, "", true, 1000)
	require.NoError(t, err)
	require.Len(t, all, provider.Actions)
}

// Searches find the action that people mean among those of all providers, as each provider configuration has it; no
// text is an error.
func TestSearch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.known["github-eu"] = &configs.Config{Key: "github-eu", Provider: "github", Exclude: []string{"delete_*"},
		Risk: []configs.RiskOverride{{Action: "create_issue", Level: risk.Critical}}}
	for text, want := range map[string][2]string{
		"create an issue": {"github", "create_issue"}, "send a message in slack": {"slack", "chat_post_message"},
		"refund a payment": {"stripe", "create_refund"}, "list customers": {"stripe", "list_customers"},
		"merge a pull request":        {"github", "merge_pull_request"},
		"invite someone to a channel": {"slack", "conversations_invite"},
	} {
		found, err := w.svc.SearchAll(t.Context(), env, nil, text, &catalog.Conditions{})
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(found[:min(5, len(found))], func(s catalog.Summary) bool {
			return s.Key == want[0] && s.Name == want[1]
		}), "%s: %v", text, names(found[:min(5, len(found))]))
	}
	for _, text := range []string{"", "\x00", "AND OR NOT \"*", "\xff\xfe", "課題を作成", "создать задачу", "🙂",
		strings.Repeat("0 ", 5<<10)} {
		_, err := w.svc.SearchAll(t.Context(), env, nil, text, &catalog.Conditions{})
		require.NoError(t, err)
	}
	found, err := w.svc.SearchAll(t.Context(), env, []string{"github-eu"}, "create issue",
		&catalog.Conditions{MaxRisk: risk.High})
	require.NoError(t, err)
	require.NotContains(t, names(found), "create_issue", "it is critical there")
	found, err = w.svc.SearchAll(t.Context(), env, []string{"github-eu"}, "delete file", &catalog.Conditions{})
	require.NoError(t, err)
	require.NotContains(t, names(found), "delete_file")
	found, err = w.svc.SearchAll(t.Context(), env, nil, "", &catalog.Conditions{Flags: []risk.Flag{risk.MovesMoney}})
	require.NoError(t, err)
	require.NotEmpty(t, found)
	for _, s := range found {
		require.Contains(t, s.Risk.Flags, risk.MovesMoney)
	}
}

// An import that cannot be read takes its own actions out of the catalog, and nothing else.
func TestUnreadableImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("zap")
	w.failing = true
	list, err := w.svc.List(t.Context(), env, catalog.Filter{Search: "git"})
	require.NoError(t, err)
	require.NotEmpty(t, list)
	_, err = w.svc.Find(t.Context(), env, "github", "create_issue")
	require.NoError(t, err)
	_, err = w.svc.Find(t.Context(), env, "github", "zap")
	require.True(t, apperr.Is(err, apperr.CodeActionNotFound))
	_, err = w.svc.SearchAll(t.Context(), env, nil, "issue", &catalog.Conditions{})
	require.NoError(t, err)
}

// A mistyped name leads to the one that was meant: another case, a slip, or the name of the tool.
func TestSuggestions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for key, want := range map[string]string{"gihtub": "github", "GitHub": "github"} {
		_, _, err := w.svc.Get(t.Context(), env, key)
		require.True(t, apperr.Is(err, apperr.CodeProviderNotFound))
		require.ErrorContains(t, err, "Did you mean "+want+"?")
	}
	for name, want := range map[string]string{"create_isue": "create_issue", "Create_Issue": "create_issue",
		"github__create_issue": "create_issue"} {
		_, err := w.svc.Find(t.Context(), env, "github", name)
		require.True(t, apperr.Is(err, apperr.CodeActionNotFound))
		require.ErrorContains(t, err, "Did you mean "+want+"?")
	}
}

// Filters of providers are by words, category, mode of authentication and origin.
func TestListProviders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.known["mine"] = &configs.Config{Key: "mine", Provider: "stripe"}
	list, err := w.svc.List(t.Context(), env, catalog.Filter{Search: "STRIPE"})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, []string{"mine", "stripe"}, list[0].Keys)
	require.True(t, list[0].Configured)
	require.Equal(t, catalog.Builtin, list[0].Origin)
	for _, f := range []catalog.Filter{{Origins: []catalog.Origin{catalog.OpenAPI}}, {Search: "no-such-provider"},
		{AuthModes: []string{"smoke_signals"}}} {
		list, err := w.svc.List(t.Context(), env, f)
		require.NoError(t, err)
		require.Empty(t, list)
	}
	list, err = w.svc.List(t.Context(), env, catalog.Filter{AuthModes: []string{"aws_sigv4"}})
	require.NoError(t, err)
	require.Equal(t, "aws", list[0].Definition.Slug)
}
