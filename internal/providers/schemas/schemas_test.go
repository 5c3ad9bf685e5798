package schemas_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/schemas"
)

func check(t *testing.T, schema, value string) []apperr.Detail {
	t.Helper()
	s, err := schemas.Compile([]byte(schema))
	require.NoError(t, err)
	faults, err := s.Check("input", []byte(value))
	require.NoError(t, err)
	return faults
}

// All errors come together, each at its place and with its keyword, and none has a part of the value.
func TestAllFaults(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","required":["title","owner"],"additionalProperties":false,"properties":{
		"title":{"type":"string","minLength":1,"maxLength":5},"owner":{"type":"string"},
		"mail":{"type":"string","format":"email"},
		"labels":{"type":"array","maxItems":2,"uniqueItems":true,"items":{"type":"string","pattern":"^[a-z]+$"}},
		"state":{"enum":["open","closed"]},"count":{"type":"integer","minimum":1,"multipleOf":2},
		"either":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]},
		"nested":{"type":"object","properties":{"at":{"type":"string","format":"date-time"}}}}}`
	faults := check(t, schema, `{"title":"secret-title","mail":"secret","labels":["secret1","ok","ok"],"state":"secret",
		"count":-1,"either":{"secret":1},"nested":{"at":"secret"},"extra":"secret"}`)
	got := map[string]string{}
	for _, f := range faults {
		require.NotContains(t, f.Message, "secret")
		got[f.Location+" "+f.Rule] = f.Message
	}
	require.Equal(t, map[string]string{
		"input.owner required":              "is required",
		"input.extra additional_properties": "is not an input of this action",
		"input.title max_length":            "must have at most 5 characters",
		"input.mail format":                 "must have the format email",
		"input.labels max_items":            "must have at most 2 items",
		"input.labels unique_items":         "must have different items, and those at 1 and 2 are equal",
		"input.labels[0] pattern":           "must match the pattern ^[a-z]+$",
		"input.state enum":                  "must be one of open, closed",
		"input.count minimum":               "must be at least 1",
		"input.count multiple_of":           "must be a multiple of 2",
		"input.either any_of":               "must have one of several forms: array, string",
		"input.nested.at format":            "must have the format date-time",
	}, got)
	require.Empty(t, check(t, schema, `{"title":"a","owner":"b","either":["x"],"nested":{"at":"2026-11-28T07:00:00Z"}}`))
}

// Names that callers make are bounded and printable, and so is the number of errors.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	const closed = `{"type":"object","additionalProperties":false}`
	faults := check(t, closed, `{"`+strings.Repeat("n", 5000)+`":1}`)
	require.Len(t, faults, 1)
	require.Less(t, len(faults[0].Location), 100)
	faults = check(t, closed, `{"a\n\u0000b":1}`)
	require.Equal(t, `input.a\n\x00b`, faults[0].Location)
	faults = check(t, `{"type":"array","items":{"type":"string"}}`, `[`+strings.Repeat("1,", 500)+`1]`)
	require.Len(t, faults, 100)
	require.Equal(t, apperr.Detail{Location: "input[0]", Message: "must be string", Rule: "type"}, faults[0])
}

// A pattern that RE2 does not know accepts every text; one that it knows is enforced.
func TestPatterns(t *testing.T) {
	t.Parallel()
	require.Empty(t, check(t, `{"pattern":"^(?!x)"}`, `"x"`))
	require.Len(t, check(t, `{"pattern":"^a"}`, `"b"`), 1)
}

// A schema reads nothing from elsewhere.
func TestNoOtherDocuments(t *testing.T) {
	t.Parallel()
	for _, ref := range []string{"https://example.com/a.json", "file:///etc/passwd", "other.json"} {
		_, err := schemas.Compile([]byte(`{"$ref":"` + ref + `"}`))
		require.Error(t, err, ref)
	}
	_, err := schemas.Compile([]byte(`{"type":5}`))
	require.Error(t, err)
}

// The schema of every action that ships compiles.
func TestShippedSchemas(t *testing.T) {
	t.Parallel()
	loaded, err := registry.Builtin()
	require.NoError(t, err)
	compiled := 0
	for _, p := range loaded.List() {
		for _, a := range p.Actions {
			s, err := schemas.Compile(a.Input)
			require.NoError(t, err, "%s %s", p.Definition.Slug, a.Name)
			_, err = s.Check("input", []byte(`{}`))
			require.NoError(t, err)
			compiled++
		}
	}
	require.Greater(t, compiled, 100)
}

// A small schema that asks for very many steps is checked no further, and the next check of it is made.
func TestTooManySteps(t *testing.T) {
	t.Parallel()
	wide := `{"$ref":"#/$defs/a0","$defs":{`
	for i := range 40 {
		next := strconv.Itoa(i + 1)
		wide += `"a` + strconv.Itoa(i) + `":{"allOf":[{"$ref":"#/$defs/a` + next + `"},{"$ref":"#/$defs/a` + next + `"}]},`
	}
	wide += `"a40":{"type":"object"}}}`
	deep := `{"$ref":"#/$defs/n","$defs":{"n":{"allOf":[{"$ref":"#/$defs/m"},{"$ref":"#/$defs/m"}]},` +
		`"m":{"properties":{"c":{"$ref":"#/$defs/n"}}}}}`
	for _, c := range []struct{ schema, value string }{
		{wide, `{}`}, {deep, strings.Repeat(`{"c":`, 50) + `{}` + strings.Repeat(`}`, 50)},
		{`{"items":{"pattern":"(a|b)*c"}}`, `[` + strings.Repeat(`"`+strings.Repeat("a", 8000)+`",`, 5000) + `"c"]`},
	} {
		s, err := schemas.Compile([]byte(c.schema))
		require.NoError(t, err)
		_, err = s.Check("input", []byte(c.value))
		require.ErrorIs(t, err, schemas.ErrTooComplex)
		faults, err := s.Check("input", []byte(`[]`))
		if c.schema != wide {
			require.NoError(t, err)
			require.Empty(t, faults)
		}
	}
	require.Empty(t, check(t, `{"pattern":"^b"}`, `"`+strings.Repeat("a", 9000)+`"`), "long texts are not matched")
}
