package imports

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/actions/actiondiff"
)

// A version says what it changes, and access to credentials changes only with the digest of the preview that shows it.
func TestPreviewAndActivation(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		w.start(w.svc)
		first := w.wait(w.create("acme", document("api.acme.example", "GET /a get_a", "GET /b get_b", "POST /c add_c")))
		_, err := w.svc.Activate(t.Context(), w.a, first.ID, "")
		requireCode(t, apperr.CodeImportChanged, err) // a new provider sends credentials to new hosts
		first = w.activate(first)

		next := w.wait(w.create("acme", document("api.acme.example", "GET /a get_a", "DELETE /c add_c", "GET /d get_d")))
		_, preview, err := w.svc.Preview(t.Context(), w.a.Environment, next.ID)
		require.NoError(t, err)
		require.Equal(t, first.ID, preview.Base)
		require.Equal(t, map[ChangeKind]int{Added: 1, Removed: 1, RiskRaised: 1}, preview.Counts)
		require.Equal(t, 2, *preview.Breaking, "get_b is gone, and add_c does something else")
		require.False(t, preview.AccessChanged)
		changes, err := w.svc.ListChanges(t.Context(), w.a.Environment, next.ID, ChangeFilter{}, page.Request{Limit: 10,
			Ascending: true})
		require.NoError(t, err)
		require.Len(t, changes, 3)
		require.Equal(t, []any{"add_c", RiskRaised, true}, []any{changes[0].Action, changes[0].Kind, changes[0].Breaking})
		require.Equal(t, "POST /c", changes[0].Differences[0].From)
		require.Len(t, changes[0].Differences, changes[0].Count)
		require.Equal(t, actiondiff.Risk, changes[0].Differences[1].Kind)
		require.NotEmpty(t, changes[0].Differences[1].Reasons)
		changes, err = w.svc.ListChanges(t.Context(), w.a.Environment, next.ID,
			ChangeFilter{Kinds: []ChangeKind{Added, Removed}}, page.Request{Limit: 1, After: "get_b", Ascending: true})
		require.NoError(t, err)
		require.Equal(t, "get_d", changes[0].Action)
		for breaking, want := range map[bool][]string{true: {"add_c", "get_b"}, false: {"get_d"}} {
			changes, err = w.svc.ListChanges(t.Context(), w.a.Environment, next.ID, ChangeFilter{Breaking: &breaking},
				page.Request{Limit: 10, Ascending: true})
			require.NoError(t, err)
			require.Equal(t, want, namesOf(changes))
			changes, err = w.svc.ListChanges(t.Context(), w.a.Environment, next.ID, ChangeFilter{Breaking: &breaking},
				page.Request{Limit: 10, After: want[0]})
			require.NoError(t, err)
			require.Empty(t, changes, "nothing comes before the first")
		}

		// A preview that was taken before another activation is no longer the present one.
		between := w.activate(w.wait(w.create("acme", document("api.acme.example", "GET /z get_z"))))
		_, err = w.svc.Activate(t.Context(), w.a, next.ID, preview.Digest)
		requireCode(t, apperr.CodeImportChanged, err)
		next, err = w.svc.Activate(t.Context(), w.a, next.ID, "")
		require.NoError(t, err, "credentials go where they went")
		got, err := w.svc.Get(t.Context(), w.a.Environment, between.ID)
		require.NoError(t, err)
		require.Equal(t, Replaced, got.Status)

		// Back to the version before.
		got = w.activate(got)
		require.Equal(t, Active, got.Status)
		again, err := w.svc.Activate(t.Context(), w.a, got.ID, "")
		require.NoError(t, err)
		require.Equal(t, got, again, "activating the active one changes nothing")
		list, err := w.svc.List(t.Context(), w.a.Environment, Filter{Statuses: []Status{Active}}, page.Request{Limit: 10})
		require.NoError(t, err)
		require.Len(t, list, 1)
		_ = next
	})
}

func namesOf(changes []ActionChange) (out []string) {
	for i := range changes {
		out = append(out, changes[i].Action)
	}
	return out
}

// Differences are found in each of many actions, wherever their blocks are, and documents that are written in another
// order are compared by names.
func TestDifferencesOfManyActions(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		w.start(w.svc)
		const n = 3 * keptBlocks * blockActions
		var before, after []string
		for i := range n {
			before = append(before, fmt.Sprintf("GET /things/%d get_thing_%d", i, i))
			at, method := i*5%n, "GET" // another order, in which neighbours are far from each other
			if at%7 == 0 {
				method = "PATCH"
			}
			after = append(after, fmt.Sprintf("%s /things/%d get_thing_%d", method, at, at))
		}
		w.activate(w.wait(w.create("acme", document("api.acme.example", before...))))
		next := w.wait(w.create("acme", document("api.acme.example", after...)))
		is := true
		w.svc.maxComparing = -1 // nothing at a time
		_, preview, err := w.svc.Preview(t.Context(), w.a.Environment, next.ID)
		require.NoError(t, err)
		require.Nil(t, preview.Breaking)
		_, err = w.svc.ListChanges(t.Context(), w.a.Environment, next.ID, ChangeFilter{Breaking: &is},
			page.Request{Limit: n})
		requireCode(t, apperr.CodeUnavailable, err)
		w.svc.maxComparing = maxComparing
		_, preview, err = w.svc.Preview(t.Context(), w.a.Environment, next.ID)
		require.NoError(t, err)
		require.Equal(t, (n+6)/7, *preview.Breaking)
		changes, err := w.svc.ListChanges(t.Context(), w.a.Environment, next.ID, ChangeFilter{Breaking: &is},
			page.Request{Limit: n})
		require.NoError(t, err)
		require.Len(t, changes, (n+6)/7)
		for i := range changes {
			ch := &changes[i]
			require.Equal(t, []string{"GET " + ch.Before.Path, "PATCH " + ch.Before.Path},
				[]string{ch.Differences[0].From, ch.Differences[0].To})
		}
	})
}

// An import states headers and a probe that its document is without. Both are of the definition, so that a change of
// them is one of access; and the probe is an action that needs no input.
func TestConstants(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		w.start(w.svc)
		text := document("api.acme.example", "GET /me get_me", "GET /search get_search", "POST /you add_you")
		text = strings.Replace(text, `"get_search"`, `"get_search", "parameters": [{"name": "q", "in": "query",
			"required": true, "schema": {"type": "string"}}]`, 1)
		order := func(o Order) (Import, error) {
			o.Slug = "acme"
			return w.svc.Create(t.Context(), w.a, o, strings.NewReader(text))
		}
		for _, bad := range []Order{{Headers: []string{"Authorization: Bearer x"}}, {Headers: []string{"Cookie: a=b"}},
			{Headers: []string{"X-Api-Token: x"}}, {Headers: []string{"Host: x"}}, {Headers: []string{"X-A"}},
			{Headers: []string{"X-A: "}}, {Headers: []string{"X A: b"}}, {Headers: []string{"X-A: a\r\nX-B: b"}},
			{Headers: []string{"X-A: ${cred.token}"}}, {Headers: []string{"X-A: 1", "x-a: 2"}},
			{Headers: make([]string, MaxHeaders+1)}, {Probe: "me"}, {Probe: "/me?a=b"}, {Probe: "/{id}"}, {Probe: "/${x}"},
			{Probe: "/a b"}, {Probe: "/" + strings.Repeat("a", 300)}} {
			_, err := order(bad)
			requireCode(t, apperr.CodeValidation, err)
		}
		_, err := w.svc.Create(t.Context(), w.a, Order{Slug: "stripe", Extends: true, Headers: []string{"X-A: 1"},
			Probe: "/me"}, strings.NewReader(text))
		requireCode(t, apperr.CodeValidation, err)
		for path, want := range map[string]string{"/you": "GET /you is no action of the import",
			"/none": "GET /none is no action of the import", "/search": "needs inputs, which a test of a connection has none " +
				"of: q"} {
			m, err := order(Order{Probe: path})
			require.NoError(t, err)
			m = w.wait(m)
			require.Equal(t, FailedProvider, m.Failure.Code)
			require.Contains(t, m.Failure.Message, want)
		}

		plain, err := order(Order{})
		require.NoError(t, err)
		plain = w.activate(w.wait(plain))
		m, err := order(Order{Headers: []string{"acme-version:  2026-11-01 ", "X-Client: ours"}, Probe: "/me"})
		require.NoError(t, err)
		m = w.wait(m)
		require.Equal(t, Ready, m.Status, "%+v", m.Failure)
		require.Equal(t, []string{"Acme-Version: 2026-11-01", "X-Client: ours"}, m.Headers)
		require.Equal(t, m.Headers, m.Outcome.Access.Headers)
		_, preview, err := w.svc.Preview(t.Context(), w.a.Environment, m.ID)
		require.NoError(t, err)
		require.True(t, preview.AccessChanged)
		require.Empty(t, preview.BaseAccess.Headers)
		_, err = w.svc.Activate(t.Context(), w.a, m.ID, "")
		requireCode(t, apperr.CodeImportChanged, err)
		m = w.activate(m)
		require.Equal(t, plain.Slug, m.Slug)
		p, ok := w.svc.cfg.Definitions.Find(w.a.Environment, "acme")
		require.True(t, ok)
		require.Equal(t, "/me", p.Definition.Outbound.Health.Probes[0].Path)
		require.Len(t, p.Outbound.Probes("token"), 1)
		require.Equal(t, map[string]string{"Acme-Version": "2026-11-01", "X-Client": "ours"},
			p.Definition.Outbound.Request.Headers)

		// Everything else of a version is the same, so that another header alone is a change of access.
		m, err = order(Order{Headers: []string{"Acme-Version: 2026-12-01", "X-Client: ours"}, Probe: "/me"})
		require.NoError(t, err)
		_, preview, err = w.svc.Preview(t.Context(), w.a.Environment, w.wait(m).ID)
		require.NoError(t, err)
		require.True(t, preview.AccessChanged)
		require.Empty(t, preview.Counts)
	})
}
