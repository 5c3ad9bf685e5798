package jsonindex_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/jsonindex"
	"sallyport/internal/platform/longtext"
)

// decode builds what encoding/json would, from the index alone.
func decode(v jsonindex.Value) any {
	switch v.Kind() {
	case jsonindex.Array:
		list := []any{}
		for item := range v.Items() {
			list = append(list, decode(item))
		}
		return list
	case jsonindex.Object:
		members := map[string]any{}
		for name, value := range v.Members() {
			members[name] = decode(value)
		}
		return members
	case jsonindex.String:
		return v.String()
	case jsonindex.Number:
		return json.Number(v.Raw())
	case jsonindex.Bool:
		return v.Bool()
	default:
		return nil
	}
}

// reference decodes with the standard library.
func reference(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("the standard library: %w", err)
	}
	if d.More() {
		return nil, errors.New("more")
	}
	return v, nil
}

// The index reads exactly what the standard library reads, and refuses what it refuses.
func FuzzParse(f *testing.F) {
	for _, text := range []string{`{"a":[1,-0.5e+10,true,false,null,"x\u00e9\n"],"b":{"a":{}},"a":[]}`, `[]`, `""`,
		`{"a":{"b":{"c":[{},{"d":"e"}]}},"f":[[1,[2]]]}`,
		`0`, ` 1 `,
		"\ufeff{}", `{"a":1,}`, `[1,]`, `01`, `1.`, `-`, `"\x"`, `"\u12"`, "\"\x01\"", "\"\xff\"", `{"a" 1}`, `{a:1}`, `nul`,
		`[[[[[[`, `{"\u0061":1}`, `"\ud800"`, `1 2`, ``, `tru`, `"`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		x, err := jsonindex.Parse(text, 100)
		requireSameInPages(t, text, x, err)
		if !json.Valid(bytes.TrimPrefix(text, []byte("\ufeff"))) {
			require.Error(t, err)
			return
		}
		if err != nil {
			require.Regexp(t, "not UTF-8|within each other", err)
			return
		}
		want, wantErr := reference(bytes.TrimPrefix(text, []byte("\ufeff")))
		require.NoError(t, wantErr)
		require.Equal(t, want, decode(x.Root()))
	})
}

// requireSameInPages checks that a text is read in the same way where a page of it ends in its middle.
func requireSameInPages(t *testing.T, text []byte, want *jsonindex.Index, wantErr error) {
	t.Helper()
	const page = 64 << 10
	mark := ""
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		mark, text = "\ufeff", text[len("\ufeff"):]
	}
	padding := strings.Repeat("\n", page-len(mark)-len(text)/2)
	var long longtext.Text
	_, _ = long.Write([]byte(mark + padding)) // it never fails
	_, _ = long.Write(text)
	for shut := -1; shut < 3; shut++ {
		x, err := jsonindex.ParseShut(&long, 100, shut)
		if wantErr == nil {
			require.NoError(t, err)
			require.Equal(t, decode(want.Root()), decode(x.Root()))
			require.Equal(t, want.Root().Raw(), x.Root().Raw())
			requireSameValues(t, want.Root(), x.Root(), len(padding), map[uint32]bool{})
			continue
		}
		var syntax, wantSyntax *jsonindex.SyntaxError
		require.ErrorAs(t, err, &syntax)
		require.ErrorAs(t, wantErr, &wantSyntax)
		require.Equal(t, jsonindex.SyntaxError{Line: wantSyntax.Line + len(padding), Column: wantSyntax.Column,
			Message: wantSyntax.Message}, *syntax)
	}
}

// requireSameValues compares two values and all in them, of which the second is some lines later, and checks that no
// two values have the same id.
func requireSameValues(t *testing.T, want, got jsonindex.Value, later int, ids map[uint32]bool) {
	t.Helper()
	require.Equal(t, want.Kind(), got.Kind())
	require.Equal(t, want.Raw(), got.Raw())
	line, column := want.Place()
	gotLine, gotColumn := got.Place()
	require.Equal(t, [2]int{line + later, column}, [2]int{gotLine, gotColumn})
	require.False(t, ids[got.ID()])
	ids[got.ID()] = true
	for name := range want.Members() {
		require.Equal(t, want.Get(name).Raw(), got.Get(name).Raw())
		again := got.Get(name)
		require.Equal(t, again.ID(), got.Get(name).ID())
	}
	var values []jsonindex.Value
	for _, v := range want.Members() {
		values = append(values, v)
	}
	for v := range want.Items() {
		values = append(values, v)
	}
	for _, v := range got.Members() {
		requireSameValues(t, values[0], v, later, ids)
		values = values[1:]
	}
	for v := range got.Items() {
		requireSameValues(t, values[0], v, later, ids)
		values = values[1:]
	}
	require.Empty(t, values)
}

// Errors name the place.
func TestErrorsNameThePlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{\n \"a\": 1,\n \"b\": tru\n}": "line 3, column 7: expected a value",
		"[1 2]":                         "line 1, column 4: expected a comma or the end of an array",
		"{\"a\":1 \"b\":2}":             "line 1, column 8: expected a comma or the end of an object",
		"{\n1:2}":                       "line 2, column 1: expected the name of a member in quotes",
		"{\"a\"}":                       "line 1, column 5: expected a colon after the name of a member",
		"\"a\nb\"":                      "line 1, column 3: a control character in a string",
		"[\"a":                          "line 1, column 2: a string without an end",
		"[\n\"\xff\"]":                  "line 2, column 2: the text is not UTF-8",
		"{} {}":                         "line 1, column 4: unexpected text after the end of the document",
		"":                              "line 1, column 1: the document ends in the middle of a value",
		"[[[[1]]]]":                     "line 1, column 4: more than 3 arrays and objects within each other",
		"[1.]":                          "line 1, column 2: malformed number",
		`["\q"]`:                        "line 1, column 3: malformed escape in a string",
	} {
		_, err := jsonindex.Parse([]byte(text), 3)
		var syntax *jsonindex.SyntaxError
		require.ErrorAs(t, err, &syntax, text)
		require.EqualError(t, err, want)
	}
}

// A value that is not there is absent at every further step, and members of large objects are found as those of small
// ones.
func TestLookUp(t *testing.T) {
	t.Parallel()
	var large strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&large, `"m%d":{"n":%d},`, i, i)
	}
	x, err := jsonindex.Parse([]byte(`{"paths":{"/a~b":[{"x":"1"},{"x":"2"}]},"d":1,"d":2,"large":{`+large.String()+
		`"m7":"again"}}`), 10)
	require.NoError(t, err)
	root := x.Root()
	require.Equal(t, "2", root.Pointer("/paths/~1a~0b/1/x").String())
	for _, none := range []string{"/paths/~1a~0b/2", "/paths/~1a~0b/01", "/paths/~1a~0b/-", "paths", "/d/x", "/paths//"} {
		require.False(t, root.Pointer(none).Exists(), none)
	}
	require.Equal(t, jsonindex.Absent, root.Path("no", "such", "path").Get("x").Kind())
	n, ok := root.Get("d").Int()
	require.True(t, ok)
	require.EqualValues(t, 2, n, "the last one counts")
	n, _ = root.Path("large", "m999", "n").Int()
	require.EqualValues(t, 999, n)
	require.Equal(t, "again", root.Path("large", "m7").String())
	require.False(t, root.Path("large", "none").Exists())
	quoted, err := jsonindex.Parse([]byte(`{"a":"b","c":1,"":2}`), 10)
	require.NoError(t, err)
	require.False(t, quoted.Root().Get(`a":"b`).Exists(), "a name ends where its quotation mark is")
	require.Equal(t, "2", string(quoted.Root().Get("").Raw()))
	require.Equal(t, root.Path("large", "m1").ID(), root.Pointer("/large/m1").ID())
	line, column := root.Get("d").Place()
	require.Equal(t, 1, line)
	require.Equal(t, `2`, string(root.Get("d").Raw()))
	require.Positive(t, column)
}

func BenchmarkParse(b *testing.B) {
	const item = `{"name":"a description of something","type":["object","null"],"n":12345},`
	text := []byte("[" + strings.Repeat(item, 10_000) + "{}]")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := jsonindex.Parse(text, 100); err != nil {
			b.Fatal(err)
		}
	}
}
