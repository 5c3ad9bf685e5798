package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	things = "/api/v1/things"
	prefix = "/api/v1"
)

// A query means what it says or is refused with all its validation errors: nothing in it is taken for absent,
// overlooked, or the first of several.
func TestQueries(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	for query, want := range map[string][]string{
		"limit=":                                {"query.limit empty"},
		"limit":                                 {"query.limit empty"},
		"limit=5&limit=5":                       {"query.limit single"},
		"limit=5&limit=":                        {"query.limit single"},
		"limit=x":                               {"query.limit type"},
		"limit=%2B5":                            {"query.limit type"},
		"limit=007":                             {"query.limit type"},
		"limit=-0":                              {"query.limit type"},
		"limit=1e2":                             {"query.limit type"},
		"limit=99999999999999999999":            {"query.limit type"},
		"limit=251":                             {"query.limit maximum"},
		"name=":                                 {"query.name empty"},
		"name=%ff":                              {"query.name text"},
		"name=a%00":                             {"query.name text"},
		"name=%":                                {"query.name encoding"},
		"name=%zz":                              {"query.name encoding"},
		"name=a;order=asc":                      {"query.name encoding"},
		"na%6De=%2":                             {"query.name encoding"},
		"na%me=a":                               {"query encoding"},
		";":                                     {"query encoding"},
		"=":                                     {"query. unknown_parameter"},
		"name=" + strings.Repeat("a", 256):      {"query.name max_length"},
		"order=":                                {"query.order empty"},
		"order=up":                              {"query.order enum"},
		"at=":                                   {"query.at empty"},
		"at=yesterday":                          {"query.at format"},
		"at=2026-01-02T3:04:05Z":                {"query.at format"},
		"tag=":                                  {"query.tag[0] empty"},
		"tag=a,,b&tag=":                         {"query.tag[1] empty", "query.tag[3] empty"},
		"tag=a,%ff":                             {"query.tag[1] text"},
		"tag=" + strings.Repeat("a,", 50) + "a": {"query.tag max_items"},
		"number=1,x,07,":                        {"query.number[1] type", "query.number[2] type", "query.number[3] empty"},
		"number=1,10":                           {"query.number[1] maximum"},
		"label=team=a":                          {"query.label type"},
		"label.=a":                              {"query.label. unknown_parameter"},
		"label[]=a":                             {"query.label. unknown_parameter"},
		"label.a]=b":                            {"query.label.a] unknown_parameter"},
		"label[a=b":                             {"query.label[a unknown_parameter"},
		"label[a][b]=c":                         {"query.label.a][b unknown_parameter"},
		"name.a=b&name[a]=b":                    {"query.name.a unknown_parameter", "query.name[a] unknown_parameter"},
		"labels.a=b":                            {"query.labels.a unknown_parameter"},
		"label.a=":                              {"query.label.a empty"},
		"label.a=b&label.a=c":                   {"query.label.a single"},
		"label.a=b&label[a]=b":                  {"query.label.a single"},
		"label.a=%ff":                           {"query.label.a text"},
		"label.a=" + strings.Repeat("a", 256):   {"query.label.a max_length"},
		"label.a=1&label.b=2&label.c=3":         {"query.label max_properties"},
		"other=1&limit=0&name=&at=x&tag=a%": {"query.tag encoding", "query.name empty", "query.other unknown_parameter",
			"query.limit minimum", "query.at format"},
	} {
		w := s.do(http.MethodGet, things+"?"+query, "")
		require.Equal(t, want, violations(t, w), query)
	}
	require.Equal(t, []string{"query.x unknown_parameter"}, violations(t, s.do(http.MethodGet, prefix+"/fail?x=1", "")))
	require.Equal(t, []string{"query.x unknown_parameter"}, violations(t, s.do(http.MethodPost, prefix+"/login?x", "")))
	for query, want := range map[string]string{
		"":                                 `{"limit":50,"name":"","at":null,"tag":null,"number":null}`,
		"&limit=250&&":                     `{"limit":250,"name":"","at":null,"tag":null,"number":null}`,
		"name=a,b+c%3B%26&tag=a,b&tag=%2C": "",
		"name=a,b+c%3B%26&tag=a,b&tag=c":   `{"limit":50,"name":"a,b c;&","at":null,"tag":["a","b","c"],"number":null}`,
		"label.team=a,b&label[stage.x]=%3D": `{"limit":50,"name":"","at":null,"tag":null,"number":null,` +
			`"label":{"team":"a,b","stage.x":"="}}`,
		"number=3&number=1,2&at=0001-01-01T00:00:00Z": `{"limit":50,"name":"","at":"0001-01-01T00:00:00.000Z","tag":null,` +
			`"number":[3,1,2]}`,
	} {
		w := s.do(http.MethodGet, things+"?"+query, "")
		if want == "" {
			violations(t, w)
			continue
		}
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.JSONEq(t, want, w.Body.String(), query)
	}
}

// An operation without a body refuses one that says something, with the validation errors of the query, instead of
// ignoring it. An empty body in any common form passes.
func TestUnreadBodies(t *testing.T) {
	t.Parallel()
	calls := 0
	s := newServer(t, func(context.Context) error { calls++; return nil })
	for _, body := range []string{`{"a":1}`, `[]`, `null`, `x`, `{"` + strings.Repeat("a", 1<<20) + `":1}`,
		strings.Repeat(" ", 1<<10)} {
		require.Equal(t, []string{"body no_body"}, violations(t, s.do(http.MethodGet, prefix+"/fail", body)))
		require.Equal(t, []string{"query.x unknown_parameter", "body no_body"},
			violations(t, s.do(http.MethodPost, prefix+"/login?x=1", body)))
	}
	require.Zero(t, calls)
	for _, body := range []string{"", "{}", " {}\r\n", "\n"} {
		require.Equal(t, http.StatusNoContent, s.do(http.MethodPost, prefix+"/login", body).Code, "%q", body)
	}
	require.Equal(t, 4, calls)
}

// No cache keeps a response of an operation, which would not know that API-Key is a credential.
func TestResponsesAreNotCached(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(context.Context) error { return nil })
	for _, w := range []*httptest.ResponseRecorder{
		s.do(http.MethodGet, things, ""), s.do(http.MethodGet, things+"?x=1", ""), s.do(http.MethodPost, things,
			`{"name":"a"}`),
		s.do(http.MethodPost, prefix+"/login", ""), s.do(http.MethodGet, things, "", "API-Key", "wrong"),
	} {
		require.Equal(t, []string{"no-store"}, w.Header().Values("Cache-Control"), w.Body)
	}
}

// The text of a refusal is bounded, for any size of the query.
func TestRefusedQueryIsBounded(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	for _, query := range []string{
		strings.Repeat("%&", 5000), strings.Repeat("number=x&", 5000), "number=" + strings.Repeat("x,", 5000),
		strings.Repeat("a", 60_000) + "=1", strings.Repeat("a", 60_000) + "=%",
	} {
		w := s.do(http.MethodGet, things+"?"+query, "")
		require.LessOrEqual(t, len(violations(t, w)), 100)
		require.Less(t, w.Body.Len(), 32<<10)
	}
}

// A body means what it says or is refused: null stands only where the schema has it, no member twice, and text is not
// changed.
func TestBodies(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	for body, want := range map[string][]string{
		`{"name":null}`:                              {"body.name not_null"},
		`{"name":"a","note":null}`:                   {"body.note not_null"},
		`{"name":"a","count":null}`:                  {"body.count not_null"},
		`{"name":"a","parts":null}`:                  {"body.parts not_null"},
		`{"name":"a","parts":[null,{"size":null}]}`:  {"body.parts[0] not_null", "body.parts[1].size not_null"},
		`{"name":"a","labels":null}`:                 {"body.labels not_null"},
		`{"name":"a","free":null}`:                   {"body.free not_null"},
		`{"name":"a","inner":{"words":["a",null]}}`:  {"body.inner.words[1] not_null"},
		`{"name":"a","nothing":null}`:                {"body.nothing unknown_field"},
		`null`:                                       {"body not_null"},
		`{"name":"a","name":"a"}`:                    {"body.name duplicate"},
		`{"name":"a","\u006eame":"b"}`:               {"body.name duplicate"},
		`{"name":"a","free":{"x":{"y":1,"y":2}}}`:    {"body.free.x.y duplicate"},
		`{"name":"a","parts":[{"size":1,"size":1}]}`: {"body.parts[0].size duplicate"},
		"{\"name\":\"\xff\"}":                        {"body.name text"},
		"{\"name\":\"a\",\"free\":{\"\xe9\":1}}":     {"body.free.\ufffd text"},
		`{"name":"\ud800"}`:                          {"body.name text"},
		`{"name":"\udc00\ud800"}`:                    {"body.name text"},
		`{"name":"\ud800\ud800\udc00"}`:              {"body.name text"},
		`{"name":"\\\ud800"}`:                        {"body.name text"},
		`{"name":"a","free":{"a":["\ud83d"]}}`:       {"body.free.a[0] text"},
		`{"name":"a"}{}`:                             {"body json"},
		`{"name":"a"} x`:                             {"body json"},
		`{"name":"a","count":10}`:                    {"body.count maximum"},
		`{"name":null,"count":10,"bogus":1}`: {"body.name not_null", "body.bogus unknown_field",
			"body.count maximum"},
	} {
		require.Equal(t, want, violations(t, s.do(http.MethodPost, things, body)), body)
	}
	require.Equal(t, []string{"query.loud empty", "body.note not_null", "body.count maximum"},
		violations(t, s.do(http.MethodPost, things+"?loud", `{"name":"a","note":null,"count":10}`)),
		"query, body and rules in one answer")
	require.Equal(t, []string{"query.loud single", "body required"},
		violations(t, s.do(http.MethodPost, things+"?loud=true&loud=true", "")))
	for body, want := range map[string]string{
		`{"name":"a","clear":null,"whole":null,"labels":{"x":null},"free":{"x":null,"y":[null]}}`: `{"name":"a",` +
			`"clear":{"Set":true,"Null":true,"Value":""}}`,
		" {\"name\":\"\\ud83d\\ude00\\ufffd\ufffd\\\\ud800\"}\n": `{"name":"😀��\\ud800","clear":{"Set":false,"Null":false,` +
			`"Value":""}}`,
		`{"name":"a","free":{"name":1,"Name":2}}`: `{"name":"a","clear":{"Set":false,"Null":false,"Value":""}}`,
	} {
		w := s.do(http.MethodPost, things, body)
		require.Equal(t, http.StatusCreated, w.Code, "%s: %s", body, w.Body)
		require.JSONEq(t, want, w.Body.String(), body)
	}
}

// The text of a refusal is bounded, for any depth and length of the body.
func TestRefusedBodyIsBounded(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	deep := strings.Repeat(`{"aaaaaaaaaaaaaaaaaaaa":`, 9000) + `null` + strings.Repeat("}", 9000)
	for _, body := range []string{
		`{"name":"a","parts":[` + strings.Repeat("null,", 100_000) + `null]}`,
		`{"name":"a","free":{` + strings.Repeat(`"a":1,`, 100_000) + `"a":1}}`,
		`{"name":"a","free":` + strings.ReplaceAll(deep, "null", `"\ud800"`) + `}`,
		`{"name":"a","free":{"` + strings.Repeat("a", 900_000) + `":"\ud800"}}`,
	} {
		w := s.do(http.MethodPost, things, body)
		got := violations(t, w)
		require.NotEmpty(t, got)
		require.LessOrEqual(t, len(got), 100)
		require.Less(t, w.Body.Len(), 32<<10)
	}
	require.Equal(t, http.StatusRequestEntityTooLarge, s.do(http.MethodPost, things, `{"name":null,"x":"`+
		strings.Repeat("a", 1<<20)+`"}`).Code)
}

// A name that is nearly one of the declared ones is refused with that one, at any depth and in the query, and so is one
// that stands a level too deep; one that is far from all is only refused. One request cannot have more than ten looked
// for.
func TestUnknownNamesAreExplained(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	messages := func(w *httptest.ResponseRecorder) (list []string) {
		for _, d := range envelopeOf(t, w).Error.Details {
			list = append(list, d.Location+": "+d.Message)
		}
		return list
	}
	const unknown, unknownParameter = "the field is unknown", "the parameter is unknown"
	require.Equal(t, []string{"body.Coun_t: " + unknown + ". Did you mean count?", "body.parts[0].sizes: " + unknown +
		". Did you mean size?", "body.elsewhere: " + unknown}, messages(s.do(http.MethodPost, things,
		`{"name":"a","Coun_t":1,"parts":[{"size":1,"sizes":1}],"elsewhere":1}`)))
	require.Equal(t, []string{"query.limits: " + unknownParameter + ". Did you mean limit?", "query.verbose: " +
		unknownParameter}, messages(s.do(http.MethodGet, things+"?limits=1&verbose=1", "")))
	require.Equal(t, []string{"body.inner.depth: " + unknown + ". Did you mean inner_depth, outside of inner?",
		"body.parts[0].depth: " + unknown}, messages(s.do(http.MethodPost, things,
		`{"name":"a","parts":[{"size":1,"depth":1}],"inner":{"depth":1}}`)))
	var body, query strings.Builder
	for i := range 30 {
		fmt.Fprintf(&body, `,"count%d":1`, i)
		fmt.Fprintf(&query, "&limit%d=1", i)
	}
	for _, w := range []*httptest.ResponseRecorder{s.do(http.MethodPost, things, `{"name":"a"`+body.String()+`}`),
		s.do(http.MethodGet, things+"?"+query.String(), "")} {
		list := messages(w)
		require.Len(t, list, 30)
		require.Equal(t, 10, strings.Count(strings.Join(list, "\n"), "Did you mean"))
	}
}
