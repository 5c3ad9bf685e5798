package verification

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Pointers resolve as RFC 6901 section 5 lists them, for its own example document.
func TestPointerRFC6901(t *testing.T) {
	t.Parallel()
	doc := []byte(`{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8}`)
	for pointer, want := range map[string]string{
		"/foo": `["bar", "baz"]`, "/foo/0": `"bar"`, "/": "0", "/a~1b": "1", "/c%d": "2", "/e^f": "3", "/g|h": "4",
		`/i\j`: "5", `/k"l`: "6", "/ ": "7", "/m~0n": "8",
	} {
		p, err := parsePointer(pointer)
		require.NoError(t, err)
		got, ok := p.lookup(doc)
		require.True(t, ok, pointer)
		require.Equal(t, want, string(got), pointer)
	}
	for _, pointer := range []string{"/foo/2", "/foo/-", "/foo/00", "/foo/01", "/foo/x", "/foo/0/0", "/missing", `/i\\j`,
		"/foo/99999999999999999999"} {
		p, err := parsePointer(pointer)
		require.NoError(t, err)
		_, ok := p.lookup(doc)
		require.False(t, ok, pointer)
	}
	for _, pointer := range []string{"", "foo", "/a~", "/a~2", "/~01~", "/\xff"} {
		_, err := parsePointer(pointer)
		require.Error(t, err, pointer)
	}
}

// Deep nesting ends in "nothing found", not in a crash.
func TestPointerDepth(t *testing.T) {
	t.Parallel()
	p, err := parsePointer("/0")
	require.NoError(t, err)
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	_, ok := p.lookup(nested(maxJSONDepth))
	require.True(t, ok)
	_, ok = p.lookup(nested(maxJSONDepth + 2))
	require.False(t, ok)
	_, ok = p.lookup([]byte(strings.Repeat("[", 1<<20)))
	require.False(t, ok)
}

// In any document the scanner finds what encoding/json finds, and accepts nothing that it refuses.
func FuzzPointer(f *testing.F) {
	for _, doc := range []string{
		`{"a":{"b":[1,2,{"c":"\u00e9\n"}]},"a":[true,false,null]}`, `[]`, `"x"`, `-1.5e+10`, `{"":{"":1}}`, `[1,]`,
		`{"a":01}`, "{\"a\":\"\x01\"}", `{"\u0061":1}`, ` { } `, `{"a":"\ud83d\ude00\ud800"}`, `nul`, `{"a" 1}`, `{"a":1}}`,
		`-`, `1.`, `1e`, `"\x"`, `"\u12"`,
	} {
		f.Add([]byte(doc), "/a/b/2/c")
		f.Add([]byte(doc), "/a")
		f.Add([]byte(doc), "/")
	}
	f.Fuzz(func(t *testing.T, doc []byte, text string) {
		p, err := parsePointer(text)
		if err != nil {
			return
		}
		raw, ok := p.lookup(doc)
		if ok && !json.Valid(doc) {
			t.Fatalf("found %q in what is not JSON", raw)
		}
		if !deep(doc) && IsJSON(doc) != json.Valid(doc) {
			t.Fatalf("is JSON: %v, to encoding/json %v", IsJSON(doc), json.Valid(doc))
		}
		if value, isText := p.text(doc); isText && !utf8.ValidString(value) {
			t.Fatalf("text is not UTF-8: %q", value)
		}
		if !utf8.Valid(doc) || strings.Contains(string(doc), `\u`) || deep(doc) {
			return // encoding/json replaces what is not Unicode, and nests deeper
		}
		var root any
		if json.Unmarshal(doc, &root) != nil {
			return
		}
		want, found := walk(root, p.refs)
		if ok != found {
			t.Fatalf("found %v, encoding/json %v", ok, found)
		}
		if !ok {
			return
		}
		var got any
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		require.Equal(t, want, got)
	})
}

// JSON is the same to the scanner as to encoding/json, and strings of any length and content end where they end.
func TestIsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SampledFrom([]string{`"`, `\\`, `\"`, `\u00e9`, `\u12`, "\x00", "\x1f", " ", "!", "#", "[", "]", "{",
			"}", ":", ",", "a", "xxxxxxxx", "é", "\x7f", "\x80", "\xa2", "\xdc", "\xff", "-1.5e3", "01", "true", "nul", "\n",
			`"a":`})
		text := []byte(strings.Join(rapid.SliceOfN(pieces, 0, 12).Draw(t, "pieces"), ""))
		if rapid.Bool().Draw(t, "in a string") {
			text = append(append([]byte(`{"k":"`), text...), `"}`...)
		}
		require.Equal(t, json.Valid(text), IsJSON(text), "%q", text)
	})
	for n := range 40 {
		for c := range 256 {
			text := append([]byte(strings.Repeat("\xff", n)), byte(c))
			text = append(text, strings.Repeat("z", 9)...)
			want := n
			if c >= ' ' && c != '"' && c != '\\' {
				want = len(text)
			}
			require.Equal(t, want, plainText(text), "%q", text)
		}
	}
}

// walk resolves reference tokens in a decoded document.
func walk(value any, refs []string) (any, bool) {
	for _, ref := range refs {
		switch v := value.(type) {
		case map[string]any:
			inner, ok := v[ref]
			if !ok {
				return nil, false
			}
			value = inner
		case []any:
			i, err := strconv.Atoi(ref)
			if err != nil || strconv.Itoa(i) != ref || i < 0 || i >= len(v) {
				return nil, false
			}
			value = v[i]
		default:
			return nil, false
		}
	}
	return value, true
}

func deep(doc []byte) bool {
	return strings.Count(string(doc), "[")+strings.Count(string(doc), "{") > maxJSONDepth
}
