package fulltext_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/fulltext"
	"sallyport/internal/platform/testkit/actioncorpus"
)

// search searches with memory that no other search has had.
func search(segments []*fulltext.Segment, text string, o fulltext.Options) []fulltext.Hit {
	return fulltext.NewSearcher().Search(segments, text, o)
}

// find returns the names of the documents that are found.
func find(t testing.TB, documents []fulltext.Document, text string) (names []string) {
	t.Helper()
	for _, hit := range search([]*fulltext.Segment{segmentOf(t, documents...)}, text, fulltext.Options{}) {
		names = append(names, documents[hit.Doc].Name)
	}
	return names
}

// The order is that which people expect, one reason at a time.
func TestOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why, text string
		documents []fulltext.Document
	}{
		{"all words before some", "merge branch", []fulltext.Document{
			{Name: "merge_branch"}, {Name: "merge_merge_merge"}, {Name: "branch_branch"}, {Name: "other"}, {Name: "another"}}},
		{"names before descriptions", "invoice", []fulltext.Document{
			{Name: "invoice_create"}, {Name: "customer_create", Description: "For an invoice: invoice, invoice."}}},
		{"titles before descriptions", "invoice", []fulltext.Document{
			{Name: "first", Title: "Invoice"}, {Name: "second", Description: "Invoice"}}},
		{"short names before long", "create issue", []fulltext.Document{
			{Name: "issues_create"}, {Name: "issues_create_comment"}, {Name: "issues_create_comment_reaction"}}},
		{"what a path is about", "issues", []fulltext.Document{
			{Name: "b", Path: "/repos/{owner}/{repo}/issues"}, {Name: "a", Path: "/repos/{owner}/issues/{number}/comments"}}},
		{"the kind", "delete file", []fulltext.Document{
			{Name: "files_one", Title: "File", Kind: "delete"}, {Name: "files_two", Title: "File", Kind: "create"}}},
		{"the provider", "github create issue", []fulltext.Document{
			{Name: "one", Title: "Create an issue", Provider: "github GitHub"},
			{Name: "two", Title: "Create an issue", Provider: "gitlab GitLab"}}},
		{"the word before its synonym", "remove member", []fulltext.Document{
			{Name: "remove_member"}, {Name: "delete_member"}}},
		{"the prior", "create issue", []fulltext.Document{
			{Name: "create_issue"}, {Name: "create_issue", Prior: -0.3}, {Name: "create_issue", Prior: -0.5}}},
		{"the number, if all else is equal", "create issue", []fulltext.Document{
			{Name: "create_issue"}, {Name: "create_issue"}}},
	} {
		hits := search([]*fulltext.Segment{segmentOf(t, c.documents...)}, c.text, fulltext.Options{})
		require.NotEmpty(t, hits, c.why)
		for i, hit := range hits {
			require.Equal(t, i, hit.Doc, c.why)
		}
	}
}

// A query finds what it means, in the words and the scripts in which people write.
func TestFinding(t *testing.T) {
	t.Parallel()
	documents := []fulltext.Document{
		{Name: "issues_create"},
		{Name: "send_message", Description: "<p>Posts to a [channel](https://example.com/zebra).</p>"},
		{Name: "repositories_list", Provider: "github GitHub"}, {Name: "webhooks_list"}, {Name: "oncall_current"},
		{Name: "创建问题", Title: "Crée un événement"}, {Name: "get_oauth2_token"}, {Name: "СОБЫТИЕ"},
		{Name: "die"},
	}
	for text, want := range map[string]string{
		"created issues":     "issues_create",
		"ISSUE":              "issues_create",
		"new ticket":         "issues_create",
		"iss":                "issues_create",
		"messge":             "send_message",
		"channels":           "send_message",
		"git hub":            "repositories_list",
		"GitHub":             "repositories_list",
		"repositry":          "repositories_list",
		"web hook":           "webhooks_list",
		"who is on call?":    "oncall_current",
		"问题":                 "创建问题",
		"建":                  "创建问题",
		"evenement":          "创建问题",
		"E\u0301VE\u0301NEM": "创建问题",
		"OAuth2":             "get_oauth2_token",
		"событие":            "СОБЫТИЕ",
		"соб":                "СОБЫТИЕ",
		"the in":             "",

		"eine neue Nachricht an den Kanal schicken": "send_message",
		"NACHRICHT":                "send_message",
		"envoyer un message":       "send_message",
		"ENVÍA un mensaje":         "send_message",
		"envi\u0301a":              "send_message",
		"repositorios":             "repositories_list",
		"Vorgang loeschen":         "issues_create",
		"mostrar los repositorios": "repositories_list",
		"the die is cast":          "die",
		"das":                      "",
		"die Nachricht":            "send_message",
		"zebra":                    "",
		"p":                        "",
		"xyzzy":                    "",
	} {
		found := find(t, documents, text)
		if want == "" {
			require.Empty(t, found, text)
			continue
		}
		require.NotEmpty(t, found, text)
		require.Equal(t, want, found[0], text)
	}
}

// A query has no syntax: operators of search engines are words or nothing.
func TestQueriesHaveNoSyntax(t *testing.T) {
	t.Parallel()
	documents := []fulltext.Document{{Name: "create_issue"}, {Name: "delete_issue"}, {Name: "other"}}
	want := find(t, documents, "create issue")
	for _, text := range []string{
		`"create issue"`, `+create +issue`, `create:issue`, `create^9 issue~2`, `create* issue?`, `(create issue)`,
		`create & issue | !`, "create\x00issue", "create \xff\xfe issue", `create' issue"; --`,
		`/create/ issue\`, `{create} [issue]`,
		"create\u202eissue", "create\r\n\tissue",
	} {
		require.Equal(t, want, find(t, documents, text), text)
	}
}

// Long and hostile queries are bounded, and words after the limits do not count.
func TestLongQueries(t *testing.T) {
	t.Parallel()
	documents := []fulltext.Document{{Name: "issues_create"}, {Name: "zebra"}}
	for _, text := range []string{
		strings.Repeat("a", 10<<10), strings.Repeat("create ", 10<<10), strings.Repeat("\u0301", 5<<10),
		strings.Repeat("创", 5<<10), strings.Repeat("\xf0", 10<<10), strings.Repeat("-", 10<<10), strings.Repeat("aB", 5<<10),
		strings.Repeat("ﷺ", 3<<10), strings.Repeat("ß", 5<<10), strings.Repeat("löschen créer crear ", 1<<10),
		strings.Repeat("\u0644\u0627", 3<<10), strings.Repeat("\u0e01\u0e33", 2<<10), strings.Repeat("한글", 2<<10),
		strings.Repeat("\U0001F468\u200d", 2<<10), strings.Repeat("क्षि ", 2<<10), strings.Repeat("\u202e\u2066", 2<<10),
	} {
		require.NotContains(t, find(t, documents, text), "zebra")
		require.NotContains(t, find(t, documents, text+" zebra"), "zebra")
	}
	var words []string
	for i := range 100 {
		words = append(words, fmt.Sprintf("word%d", i))
	}
	require.Contains(t, find(t, documents, strings.Join(words[:31], " ")+" zebra"), "zebra")
	require.NotContains(t, find(t, documents, strings.Join(words[:32], " ")+" zebra"), "zebra")
}

// Documents with any bytes can be added, and their limits keep a segment small.
func TestHostileDocuments(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x1 y2 z3 ", 1<<20)
	s := segmentOf(t, fulltext.Document{Name: long, Title: long, Provider: long, Tags: []string{long, long}, Path: long,
		Description: long, Kind: long, Prior: float32(math.NaN())},
		fulltext.Document{Name: "\xff\x00", Path: strings.Repeat("{", 1<<20), Description: strings.Repeat("<a", 1<<20),
			Prior: float32(math.Inf(-1))},
		fulltext.Document{Name: strings.Repeat("ab", 1<<20), Path: strings.Repeat("{}", 1<<20), Prior: 1e30})
	require.Less(t, s.Size(), 1<<10)
	d, err := fulltext.Decode(s.Append(nil))
	require.NoError(t, err)
	require.Len(t, search([]*fulltext.Segment{d}, "x1", fulltext.Options{}), 1)
}

// Options choose among documents and segments, and only documents that would be returned are asked for.
func TestOptions(t *testing.T) {
	t.Parallel()
	var documents []fulltext.Document
	for range 50 {
		documents = append(documents, fulltext.Document{Name: "issue"})
	}
	one, two := segmentOf(t, documents...), segmentOf(t, documents...)
	segments := []*fulltext.Segment{one, two}
	require.Len(t, search(segments, "issue", fulltext.Options{}), fulltext.DefaultLimit)
	require.Len(t, search(segments, "issue", fulltext.Options{Limit: 5000}), 100)

	asked := 0
	hits := search(segments, "issue", fulltext.Options{Limit: 2, Accept: func(segment, doc int) bool {
		asked++
		return segment == 1 && doc > 3
	}})
	require.Equal(t, []int{4, 5}, []int{hits[0].Doc, hits[1].Doc})
	require.Less(t, asked, 100)
	require.Empty(t, search(segments, "none", fulltext.Options{Accept: func(int, int) bool { panic("asked") }}))

	hits = search(segments, "issue", fulltext.Options{Limit: 1, Boosts: []float32{1, 1.5}})
	require.Equal(t, 1, hits[0].Segment)
	hits = search(segments, "issue", fulltext.Options{Limit: 100, Boosts: []float32{0}})
	require.Len(t, hits, 50)
	require.Equal(t, 1, hits[0].Segment)
	hits = search(segments, "issue", fulltext.Options{Limit: 100, Boosts: []float32{float32(math.NaN())}})
	require.Len(t, hits, 50)
}

// A function of the caller that panics leaves nothing behind for the next search.
func TestPanicOfAccept(t *testing.T) {
	t.Parallel()
	searcher := fulltext.NewSearcher()
	segments := []*fulltext.Segment{segmentOf(t, fulltext.Document{Name: "issue"}, fulltext.Document{Name: "issue"})}
	want := searcher.Search(segments, "issue", fulltext.Options{})
	for range 10 {
		require.Panics(t, func() {
			searcher.Search(segments, "issue", fulltext.Options{Accept: func(int, int) bool { panic("no") }})
		})
		require.Equal(t, want, searcher.Search(segments, "issue", fulltext.Options{}))
	}
}

// Searches at the same time do not disturb each other.
func TestConcurrentSearches(t *testing.T) {
	t.Parallel()
	searcher := fulltext.NewSearcher()
	segments := segmentsOf(t, readCorpus(t))
	table := actioncorpus.Queries()
	want := make([][]fulltext.Hit, len(table))
	for i, q := range table {
		want[i] = searcher.Search(segments, q.Text, fulltext.Options{})
	}
	got := make([][]fulltext.Hit, len(table))
	var wait sync.WaitGroup
	for i, q := range table {
		wait.Go(func() { got[i] = searcher.Search(segments, q.Text, fulltext.Options{}) })
	}
	wait.Wait()
	require.Equal(t, want, got)
}

// text has few different words, so that documents and queries have some in common.
func text(rt *rapid.T, label string) string {
	words := rapid.SliceOfN(rapid.SampledFrom([]string{"create", "creates", "issue", "list", "get", "message", "github",
		"webhook", "web", "hook", "calendar", "event", "the", "a", "创建", "问题"}), 0, 6).Draw(rt, label)
	return strings.Join(words, " ")
}

func documentsOf(rt *rapid.T) []fulltext.Document {
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) fulltext.Document {
		return fulltext.Document{Name: text(rt, "name"), Title: text(rt, "title"), Provider: text(rt, "provider"),
			Tags: []string{text(rt, "tag")}, Path: "/" + text(rt, "path"), Description: text(rt, "description"),
			Kind: text(rt, "kind"), Prior: rapid.Float32Range(-0.9, 1).Draw(rt, "prior")}
	}), 1, 30).Draw(rt, "documents")
}

// Scores do not depend on how documents are spread over segments; and limits and filters only leave out hits.
func TestSegmentsAreSearchedAsOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		documents, query := documentsOf(rt), text(rt, "query")
		whole := search([]*fulltext.Segment{segmentOf(t, documents...)}, query, fulltext.Options{Limit: 1000})

		var parts []*fulltext.Segment
		var firsts []int
		for at := 0; at < len(documents); {
			end := rapid.IntRange(at+1, len(documents)).Draw(rt, "end")
			parts, firsts = append(parts, segmentOf(t, documents[at:end]...)), append(firsts, at)
			at = end
		}
		spread := search(parts, query, fulltext.Options{Limit: 1000})
		require.Len(rt, spread, len(whole))
		for i := range whole {
			require.Equal(rt, whole[i].Doc, firsts[spread[i].Segment]+spread[i].Doc)
			require.InDelta(rt, whole[i].Score, spread[i].Score, 0)
		}

		limit := rapid.IntRange(1, 10).Draw(rt, "limit")
		first := search(parts, query, fulltext.Options{Limit: limit})
		require.True(rt, slices.Equal(spread[:min(limit, len(spread))], first))
		odd := func(_, doc int) bool { return doc%2 == 1 }
		some := search(parts, query, fulltext.Options{Limit: limit, Accept: odd})
		rest := slices.DeleteFunc(spread, func(h fulltext.Hit) bool { return h.Doc%2 == 0 })
		require.True(rt, slices.Equal(rest[:min(limit, len(rest))], some))
	})
}

// Any query over any documents returns hits in their order, with finite scores.
func FuzzSearch(f *testing.F) {
	f.Add("create an issue", "issues_create", "")
	f.Add("\xff\x00 创建", "创建", "e\u0301")
	f.Add("GitHub on-call", "gitHub", "x")
	searcher := fulltext.NewSearcher()
	f.Fuzz(func(t *testing.T, query, name, other string) {
		segment := segmentOf(t, fulltext.Document{Name: name, Description: other}, fulltext.Document{Name: other, Path: name})
		hits := searcher.Search([]*fulltext.Segment{segment, segment}, query, fulltext.Options{})
		require.True(t, slices.IsSortedFunc(hits, func(a, b fulltext.Hit) int {
			return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.Doc, b.Doc))
		}))
		for _, h := range hits {
			require.False(t, math.IsNaN(h.Score) || math.IsInf(h.Score, 0))
		}
	})
}
