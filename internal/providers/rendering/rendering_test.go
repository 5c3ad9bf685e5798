package rendering_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/rendering"
)

func parse(t require.TestingT, text string) rendering.Input {
	in, err := rendering.ParseInput([]byte(text))
	require.NoError(t, err)
	return in
}

func render(t require.TestingT, a *actions.Action, input string) outbound.Outgoing {
	out, err := rendering.Render(a, parse(t, input))
	require.NoError(t, err)
	return out
}

// get is an action with one parameter x.
func get(p actions.Parameter, at string) *actions.Action {
	p.Property = "x"
	if p.Name == "" {
		p.Name = "x"
	}
	return &actions.Action{Name: "get", Method: http.MethodGet, Path: at, Parameters: []actions.Parameter{p}}
}

// The styles write arrays and objects as the table of examples of OpenAPI 3.1 (section 4.8.12.4) has them.
func TestStyles(t *testing.T) {
	t.Parallel()
	const array, object = `{"x":["blue","black","brown"]}`, `{"x":{"R":100,"G":200,"B":150}}`
	for _, c := range []struct {
		place   actions.Place
		style   string
		explode bool
		input   string
		want    string
	}{
		{actions.InPath, "", false, `{"x":"blue"}`, "/c/blue"},
		{actions.InPath, "simple", false, array, "/c/blue,black,brown"},
		{actions.InPath, "simple", true, array, "/c/blue,black,brown"},
		{actions.InPath, "simple", false, object, "/c/R,100,G,200,B,150"},
		{actions.InPath, "simple", true, object, "/c/R=100,G=200,B=150"},
		{actions.InPath, "label", false, `{"x":"blue"}`, "/c/.blue"},
		{actions.InPath, "label", false, array, "/c/.blue,black,brown"},
		{actions.InPath, "label", true, array, "/c/.blue.black.brown"},
		{actions.InPath, "label", true, object, "/c/.R=100.G=200.B=150"},
		{actions.InPath, "matrix", false, `{"x":"blue"}`, "/c/;x=blue"},
		{actions.InPath, "matrix", false, array, "/c/;x=blue,black,brown"},
		{actions.InPath, "matrix", true, array, "/c/;x=blue;x=black;x=brown"},
		{actions.InPath, "matrix", true, object, "/c/;R=100;G=200;B=150"},
		{actions.InQuery, "form", true, `{"x":""}`, "x="},
		{actions.InQuery, "form", true, `{"x":true}`, "x=true"},
		{actions.InQuery, "form", true, array, "x=blue&x=black&x=brown"},
		{actions.InQuery, "form", false, array, "x=blue,black,brown"},
		{actions.InQuery, "form", true, object, "B=150&G=200&R=100"},
		{actions.InQuery, "form", false, object, "x=R,100,G,200,B,150"},
		{actions.InQuery, "spaceDelimited", false, array, "x=blue+black+brown"},
		{actions.InQuery, "pipeDelimited", false, array, "x=blue|black|brown"},
		{actions.InQuery, "deepObject", true, object, "x[B]=150&x[G]=200&x[R]=100"},
		{actions.InQuery, "deepObject", true, `{"x":{"a":{"b":[1,{"c":null}]}}}`, "x[a][b][0]=1&x[a][b][1][c]="},
		{actions.InQuery, "form", true, `{"x":null}`, ""},
		{actions.InHeader, "simple", false, array, "blue,black,brown"},
		{actions.InHeader, "simple", true, object, "R=100,G=200,B=150"},
	} {
		name := string(c.place) + " " + c.style + " " + c.input
		p := actions.Parameter{Place: c.place, Style: c.style, Explode: c.explode}
		out := render(t, get(p, "/c/{x}"[:3+3*placed(c.place)]), c.input)
		switch c.place {
		case actions.InPath:
			require.Equal(t, c.want, out.Path, name)
		case actions.InQuery:
			plain, err := url.QueryUnescape(strings.ReplaceAll(out.Query.Encode(), "+", "%2B"))
			require.NoError(t, err)
			require.Equal(t, c.want, plain, name)
		default:
			require.Equal(t, c.want, out.Header.Get("X"), name)
		}
	}
	require.Equal(t, url.Values{"x": {`{"a":[1]}`}},
		render(t, get(actions.Parameter{Place: actions.InQuery, JSON: true}, "/"), `{"x":{"a":[1]}}`).Query)
	headers := render(t, get(actions.Parameter{Place: actions.InHeader, Style: "form", Explode: true}, "/"),
		`{"x":{"X-One":"1","X-Two":2}}`).Header
	require.Equal(t, http.Header{"X-One": {"1"}, "X-Two": {"2"}}, headers)
}

func placed(p actions.Place) int {
	if p == actions.InPath {
		return 1
	}
	return 0
}

// Any value in a path stays in its segment: the path that is sent has the segments of the template, and
// the value comes out of it as it went in. A value that cannot do so is refused.
func TestPathKeepsValues(t *testing.T) {
	t.Parallel()
	action := &actions.Action{Name: "get", Method: http.MethodGet, Path: "/repos/{owner}/files/{file}",
		Parameters: []actions.Parameter{{Property: "owner", Name: "owner", Place: actions.InPath},
			{Property: "file", Name: "file", Place: actions.InPath, Reserved: true}}}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"..", ".", "", "a/../b", "%2e%2e", "..%2f",
			`..\`, "//h", "a;b", "?q", "#f", "a,b", "%", "\x00", "{x}"}))
		owner, file := text.Draw(t, "owner"), text.Draw(t, "file")
		input, err := json.Marshal(map[string]string{"owner": owner, "file": file})
		require.NoError(t, err)
		in, err := rendering.ParseInput(input)
		require.NoError(t, err)
		out, err := rendering.Render(action, in)
		bad := func(s string) bool { return s == "" || s == "." || s == ".." }
		refused := bad(owner)
		for segment := range strings.SplitSeq(file, "/") {
			refused = refused || bad(segment)
		}
		if refused {
			var wrong *rendering.InputError
			require.ErrorAs(t, err, &wrong)
			require.Contains(t, []string{"owner", "file"}, wrong.Property)
			return
		}
		require.NoError(t, err)
		segments := strings.Split(out.Path, "/")
		require.Equal(t, []string{"", "repos"}, segments[:2])
		require.Equal(t, "files", segments[3])
		got, err := url.PathUnescape(segments[2])
		require.NoError(t, err)
		valid := strings.ToValidUTF8(owner, "\ufffd")
		require.Equal(t, valid, got)
		rest, err := url.PathUnescape(strings.Join(segments[4:], "/"))
		require.NoError(t, err)
		require.Equal(t, strings.ToValidUTF8(file, "\ufffd"), rest)
		require.Equal(t, path.Clean(out.Path), out.Path)
	})
}

// body is an action with the members a, b and c in a body of a type.
func body(kind string) *actions.Action {
	a := &actions.Action{Name: "create", Method: http.MethodPost, Path: "/things", Body: actions.Body{ContentType: kind}}
	for _, name := range []string{"a", "b", "c"} {
		a.Parameters = append(a.Parameters, actions.Parameter{Property: name, Name: name + name, Place: actions.InBody,
			Style: "deepObject", Explode: true})
	}
	return a
}

// A body of JSON has the members by their names in the request, with their values as they were given: no digit of a
// number is lost.
func TestJSONBody(t *testing.T) {
	t.Parallel()
	out := render(t, body("application/json"), `{"b": {"x" : 12345678901234567890.10}, "a": null}`)
	require.Equal(t, `{"aa":null,"bb":{"x" : 12345678901234567890.10}}`, string(out.Body))
	require.Equal(t, "application/json", out.Header.Get("Content-Type"))
	out = render(t, body("application/vnd.acme+json"), `{"a":"1"}`)
	require.Equal(t, "application/vnd.acme+json", out.Header.Get("Content-Type"))
	out = render(t, body("application/json"), `{}`)
	require.Empty(t, out.Body)
	require.Empty(t, out.Header.Get("Content-Type"))
	needed := body("application/json")
	needed.Body.Required = true
	require.Equal(t, `{}`, string(render(t, needed, `{}`).Body))
}

// A form writes what a form can: nested values in brackets, null as an empty value.
func TestFormBody(t *testing.T) {
	t.Parallel()
	out := render(t, body("application/x-www-form-urlencoded"), `{"a":"x y","b":{"k":[1,true]},"c":null}`)
	values, err := url.ParseQuery(string(out.Body))
	require.NoError(t, err)
	require.Equal(t, url.Values{"aa": {"x y"}, "bb[k][0]": {"1"}, "bb[k][1]": {"true"}, "cc": {""}}, values)
}

// A multipart body is read by another reader: texts, files with their names and types, and JSON.
func TestMultipartBody(t *testing.T) {
	t.Parallel()
	content := base64.StdEncoding.EncodeToString([]byte("\x00\xff bytes"))
	out := render(t, body("multipart/form-data"), `{"a":"text","b":{"base64":"`+content+
		`","filename":"a\"b.png","content_type":"image/png"},"c":{"k":1}}`)
	kind, params, err := mime.ParseMediaType(out.Header.Get("Content-Type"))
	require.NoError(t, err)
	require.Equal(t, "multipart/form-data", kind)
	form, err := multipart.NewReader(bytes.NewReader(out.Body), params["boundary"]).ReadForm(1 << 20)
	require.NoError(t, err)
	require.Equal(t, []string{"text"}, form.Value["aa"])
	require.Equal(t, []string{`{"k":1}`}, form.Value["cc"])
	file := form.File["bb"][0]
	require.Equal(t, `a%22b.png`, file.Filename)
	require.Equal(t, "image/png", file.Header.Get("Content-Type"))
	opened, err := file.Open()
	require.NoError(t, err)
	read, err := io.ReadAll(opened)
	require.NoError(t, err)
	require.Equal(t, "\x00\xff bytes", string(read))
}

// A value that is the whole body is sent as it is: JSON, text, or the bytes of a file.
func TestWholeBody(t *testing.T) {
	t.Parallel()
	whole := func(kind string) *actions.Action {
		return &actions.Action{Name: "put", Method: http.MethodPut, Path: "/x", Body: actions.Body{ContentType: kind},
			Parameters: []actions.Parameter{{Property: "body", Name: "body", Place: actions.AsBody}}}
	}
	require.Equal(t, `[1, 2.50]`, string(render(t, whole("application/json"), `{"body":[1, 2.50]}`).Body))
	require.Equal(t, "plain\n", string(render(t, whole("text/plain"), `{"body":"plain\n"}`).Body))
	require.Equal(t, "a=1&b=x+y", string(render(t, whole("application/x-www-form-urlencoded"),
		`{"body":{"b":"x y","a":1}}`).Body))
	out := render(t, whole("application/octet-stream"), `{"body":{"base64":"aGk=","content_type":"image/gif"}}`)
	require.Equal(t, "hi", string(out.Body))
	require.Equal(t, "image/gif", out.Header.Get("Content-Type"))
	_, err := rendering.Render(whole("application/octet-stream"), parse(t, `{"body":{"base64":"&&&"}}`))
	require.EqualError(t, err, "body.base64 must be base64 (RFC 4648, section 4)")
	_, err = rendering.Render(whole("application/octet-stream"), parse(t, `{"body":{"base64":"aGk=","content_type":"a"}}`))
	require.EqualError(t, err, "body.content_type must be a media type such as image/png")
	large := base64.StdEncoding.EncodeToString(make([]byte, rendering.MaxFileBytes+1))
	_, err = rendering.Render(whole("application/octet-stream"), parse(t, `{"body":{"base64":"`+large+`"}}`))
	require.EqualError(t, err, "body.base64 is larger than 10 MiB")
}

// An operation of GraphQL is sent with the members as its variables.
func TestGraphQLBody(t *testing.T) {
	t.Parallel()
	a := body("application/json")
	a.Body.GraphQL = `mutation M($aa: String!) { m(a: $aa) { id } }`
	require.JSONEq(t, `{"query":"mutation M($aa: String!) { m(a: $aa) { id } }","variables":{"aa":"x"}}`,
		string(render(t, a, `{"a":"x"}`).Body))
}

// A query that a document wrote into the path is part of the query, and a fragment is not sent.
func TestPathWithQuery(t *testing.T) {
	t.Parallel()
	a := get(actions.Parameter{Place: actions.InQuery, Explode: true}, "/?Action=ListUsers#list")
	out := render(t, a, `{"x":1}`)
	require.Equal(t, "/", out.Path)
	require.Equal(t, url.Values{"Action": {"ListUsers"}, "x": {"1"}}, out.Query)
	_, err := rendering.Render(get(actions.Parameter{Place: actions.InPath}, "/a/{x}"), parse(t, `{}`))
	require.EqualError(t, err, "x must be given, because it is in the path")
	_, err = rendering.Render(get(actions.Parameter{Place: actions.InPath}, "/a/{x}"), parse(t, `{"x":null}`))
	require.EqualError(t, err, "x must not be null, because it is in the path")
	_, err = rendering.Render(get(actions.Parameter{Place: actions.InPath}, "/a/.{x}"), parse(t, `{"x":"."}`))
	require.Error(t, err)
}

// An input that programs read in different ways is refused, with its place.
func TestAmbiguousInputs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[]`: " must be an object", `{`: " must be valid JSON", `{"a":1,"a":2}`: "a is given twice",
		`{"a":[{"b":1,"b":2}]}`:                        "a[0].b is given twice",
		`{"a":1e1000}`:                                 "a is a number with too many digits",
		`{"a":` + strings.Repeat("1", 1001) + `}`:      "a is a number with too many digits",
		strings.Repeat(`{"a":`, 200):                   " must be valid JSON",
		"{\"a\":\"\xff\"}":                             " must be valid JSON",
		`{"a":1} {}`:                                   " must be valid JSON",
		`{"a":{"\u0062":1,"b":2}}`:                     "a.b is given twice",
		`{"deep":{"er":[0,1,{"and":{"so":1E+00999}}]}`: " must be valid JSON",
	} {
		_, err := rendering.ParseInput([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
	parse(t, `{"a":1e999,"b":-0.5E-0007,"c":12345678901234567890}`)
}

// No input makes the renderer panic or leave the path, and an error has no value of it.
func FuzzInput(f *testing.F) {
	f.Add(`{"owner":"a","file":"b/c"}`)
	f.Add(`{"owner":"..","file":{"base64":"aGk="}}`)
	f.Add(`{"owner":["a","b"],"file":{"x":{"y":null}},"body":1e999}`)
	action := &actions.Action{Name: "a", Method: http.MethodPost, Path: "/{owner}/{file}",
		Body: actions.Body{ContentType: "multipart/form-data"},
		Parameters: []actions.Parameter{{Property: "owner", Name: "owner", Place: actions.InPath},
			{Property: "file", Name: "file", Place: actions.InPath, Style: "matrix", Explode: true},
			{Property: "body", Name: "body", Place: actions.InBody}}}
	f.Fuzz(func(t *testing.T, text string) {
		in, err := rendering.ParseInput([]byte(text))
		if err != nil {
			return
		}
		out, err := rendering.Render(action, in)
		if err != nil {
			return
		}
		require.Equal(t, path.Clean(out.Path), out.Path)
		require.Equal(t, 2, strings.Count(out.Path, "/"))
	})
}

// An input with very many values is refused before anything reads it as values in memory.
func TestTooManyValues(t *testing.T) {
	t.Parallel()
	_, err := rendering.ParseInput([]byte(`{"a":[` + strings.Repeat("0,", 200_000) + `0]}`))
	var wrong *rendering.InputError
	require.ErrorAs(t, err, &wrong)
	require.Contains(t, wrong.Message, "at most 200000 values")
	_, err = rendering.ParseInput([]byte(`{"a":[` + strings.Repeat("0,", 190_000) + `0]}`))
	require.NoError(t, err)
}
