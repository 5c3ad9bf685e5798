package filters_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/webhooks/filters"
)

// issue is the event that most tests look at.
func issue() *filters.Event {
	return &filters.Event{
		Type: "issues.opened", Provider: "github", ProviderConfigKey: "github", ConnectionID: "acme",
		ReceivedAt: time.Date(2030, 1, 31, 12, 0, 0, 500_000_000, time.UTC), ContentType: "application/json",
		Headers: `{"x-github-event":"issues","authorization":"[redacted]"}`,
		Body: []byte(` {"action":"opened","number":7,"price":1.5,"big":9007199254740993,"huge":18446744073709551615,"e":1e2,
			"null":null,"no":false,"text":"a\u00e9\"b","labels":["bug","ui"],"issue":{"user":{"login":"octo"},"body":""},
			"action":"closed"}`),
	}
}

func eval(t *testing.T, text string, e *filters.Event) filters.Result {
	t.Helper()
	require.Empty(t, filters.Check(text), "%s", text)
	return filters.New(text).Eval(e)
}

// Filters and their results are as docs/reference/filters.md says.
func TestEval(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`event.type == "issues.opened"`:                             true,
		`event.type.startsWith("issues.")`:                          true,
		`event.type.matches("^(issues|pulls)[.]")`:                  true,
		`matches(event.type, "closed$")`:                            false,
		`"issues.opened" in event.types && event.types.size() == 1`: true,
		`event.provider == "github" && event.provider_config_key == "github" && event.connection_id == "acme"`: true,
		`event.received_at > timestamp("2030-01-31T11:59:59Z") && event.received_at.getFullYear() == 2030`:     true,
		`event.received_at.getHours() == 12 && event.received_at.getHours("+02:00") == 14`:                     true,
		`event.content_type == "application/json" && !event.control`:                                           true,
		`event.headers["x-github-event"] == "issues" && !("x-other" in event.headers)`:                         true,
		`event.headers["authorization"] == "[redacted]"`:                                                       true,
		`has(event.body) && has(event.body.action) && !has(event.body.other)`:                                  true,
		`event.body.issue.user.login == "octo" && event.body["issue"]["user"]["login"] == "octo"`:              true,
		`event.body.labels[1] == "ui" && "bug" in event.body.labels && event.body.labels.size() == 2`:          true,
		`event.body.labels.exists(l, l.startsWith("u")) && event.body.labels.all(l, l != "")`:                  true,
		`event.body.text == "aé\"b" && event.body.issue.body == ""`:                                            true,
		// The last of two members of one name counts.
		`event.body.action == "closed"`: true,
		// Integers are exact; comparisons go across int and double; arithmetic does not.
		`event.body.number == 7 && event.body.number == 7.0 && event.body.number > 6.5`:         true,
		`event.body.big == 9007199254740993 && event.body.big != 9007199254740992`:              true,
		`event.body.price * 2.0 == 3.0 && event.body.number / 2 == 3`:                           true,
		`double(event.body.number) * 1.5 == 10.5`:                                               true,
		`event.body.huge > 18446744073709551614.0 || event.body.huge == 18446744073709551616.0`: true,
		`event.body.e == 100 && type(event.body.e) == double && type(event.body.number) == int`: true,
		`event.body["null"] == null && has(event.body.no) && event.body.no == false`:            true,
		// A missing value on one side of || or && does not matter where the other side decides.
		`event.body.nothing == 1 || event.body.number == 7`:              true,
		`event.body.nothing == 1 && event.body.number == 8`:              false,
		`event.body.?issue.?user.?name.orValue("") == ""`:                true,
		`event.?body.?number == optional.of(7)`:                          true,
		`event.body.?nothing.hasValue()`:                                 false,
		`event.body == event.body && event.body.labels == ["bug", "ui"]`: true,
		`type(event.body) == map && type(event.body.labels) == list`:     true,
	} {
		r := eval(t, text, issue())
		require.Nil(t, r.Failure, "%s", text)
		require.Equal(t, want, r.Matches, "%s", text)
		require.LessOrEqual(t, r.Cost, uint64(filters.MaxCost), "%s", text)
	}
}

// An evaluation that fails does not match, regardless of the expression around it, and the error says why and where.
func TestFailures(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]filters.Failure{
		`event.body.nothing == 1`:                        {filters.CodeEvaluation, "line 1, column 11: no such key: nothing"},
		"event.type != \"\" &&\n  event.body.a.b.c == 1": {filters.CodeEvaluation, "line 2, column 17: no such key: a"},
		`!(event.body.nothing == 1)`:                     {filters.CodeEvaluation, "line 1, column 13: no such key: nothing"},
		`event.body.labels[2] == "x"`: {filters.CodeEvaluation,
			"line 1, column 18: index out of bounds: 2"},
		`event.body.number + 1.5 > 2.0`:     {filters.CodeEvaluation, "line 1, column 19: no such overload"},
		`event.body.number / 0 == 1`:        {filters.CodeEvaluation, "line 1, column 19: division by zero"},
		`event.body.number.startsWith("a")`: {filters.CodeEvaluation, "line 1, column 29: no such overload"},
		`event.headers["x-other"] == "a"`:   {filters.CodeEvaluation, "line 1, column 14: no such key: x-other"},
		`int(event.body.text) == 1`: {filters.CodeEvaluation,
			`line 1, column 4: type conversion error from 'string' to 'int'`},
	} {
		r := eval(t, text, issue())
		require.False(t, r.Matches, "%s", text)
		require.NotNil(t, r.Failure, "%s", text)
		require.Equal(t, want.Code, r.Failure.Code, "%s", text)
		require.Contains(t, r.Failure.Message, want.Message, "%s", text)
	}
}

// A body that is not JSON is absent: testing for it succeeds, and reading it fails.
func TestBodyThatIsNotJSON(t *testing.T) {
	t.Parallel()
	e := &filters.Event{Type: "a"}
	require.True(t, eval(t, `!has(event.body)`, e).Matches)
	require.True(t, eval(t, `event.?body.?a.orValue(1) == 1`, e).Matches)
	r := eval(t, `event.body.a != 1`, e)
	require.False(t, r.Matches)
	require.Equal(t, &filters.Failure{Code: filters.CodeEvaluation,
		Message: "line 1, column 11: the event's body is not JSON"}, r.Failure)
}

// A payload that is no longer kept fails every filter that reads it, so that no result is guessed.
func TestExpiredPayload(t *testing.T) {
	t.Parallel()
	e := &filters.Event{Type: "a", Expired: true}
	for _, text := range []string{`event.body.a == 1`, `event.headers["a"] != "b"`, `!("a" in event.headers)`,
		`event.?body.?a.orValue(1) == 1`} {
		r := eval(t, text, e)
		require.False(t, r.Matches, "%s", text)
		require.Equal(t, filters.CodeExpired, r.Failure.Code, "%s", text)
	}
	require.True(t, eval(t, `event.type == "a"`, e).Matches)
}

// A stored text that this release does not take for a filter matches nothing, and says so.
func TestFilterOfAnotherRelease(t *testing.T) {
	t.Parallel()
	f := filters.New(`event.later == 1`)
	require.Equal(t, `event.later == 1`, f.String())
	r := f.Eval(issue())
	require.False(t, r.Matches)
	require.Equal(t, filters.CodeInvalid, r.Failure.Code)
}

// For any filter and any body, an evaluation ends at its bounds, and ends as an error.
func TestBounds(t *testing.T) {
	t.Parallel()
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", 90_000), ",") + "]"
	many := "[" + strings.TrimSuffix(strings.Repeat("1,", 200_000), ",") + "]"
	deep := strings.Repeat(`{"a":`, 400) + `"x"` + strings.Repeat("}", 400)
	for name, c := range map[string]struct {
		filter, body string
		want         filters.Code
	}{
		"long loop":       {`event.body.exists(i, i == 2)`, list, filters.CodeCost},
		"loops in a loop": {`event.body.exists(i, event.body.exists(j, i + j == 3))`, list, filters.CodeCost},
		"many values":     {`event.body.size() == 1`, many, filters.CodeTooLarge},
		"not many values": {`!(event.body.size() == 1)`, many, filters.CodeTooLarge},
		"many values or":  {`event.body.size() == 1 || true`, many, filters.CodeTooLarge},
		"long text":       {`event.body.a == ""`, `{"a":"` + strings.Repeat("x", 300<<10) + `"}`, filters.CodeTooLarge},
		"long name":       {`event.body.a == ""`, `{"` + strings.Repeat("x", 300<<10) + `":1}`, filters.CodeTooLarge},
		"long match": {`event.body.a.matches("(a|b|c|d){1,100}e")`, `{"a":"` + strings.Repeat("a", 200<<10) + `"}`,
			filters.CodeCost},
		"many matches": {`event.body.exists(i, i.matches("(a+)+b"))`, `["` + strings.Repeat(strings.Repeat("a", 5000)+
			`","`, 400) + `"]`, filters.CodeCost},
		"growing text": {`[event.body.a].map(a, a + a).map(b, b + b).map(c, c + c)[0] == ""`, `{"a":"` +
			strings.Repeat("a", 200<<10) + `"}`, filters.CodeCost},
		"equality": {`event.body == event.body`, `{"a":["` + strings.Repeat("a", 100<<10) + `",` +
			strings.Repeat(`"`+strings.Repeat("a", 100<<10)+`",`, 9) + `1]}`, filters.CodeCost},
		"equality of many": {`[event.body, event.body, event.body] == [event.body, event.body, event.body]`, list,
			filters.CodeCost},
		"measured text": {`event.body.l.exists(i, event.body.t.size() == i)`, `{"l":` + list + `,"t":"` +
			strings.Repeat("a", 200<<10) + `"}`, filters.CodeCost},
		"time zones": {`event.body.all(i, event.received_at.getHours("Europe/Berlin") >= 0)`, "[" +
			strings.Repeat("1,", 3000) + "1]", filters.CodeCost},
		"deep": {`event.body` + strings.Repeat(".a", 400) + ` == "y"`, deep, ""},
	} {
		violations := filters.Check(c.filter)
		if name == "deep" {
			require.NotEmpty(t, violations, "a filter that nests as deep as a body may")
			continue
		}
		require.Empty(t, violations, name)
		r := filters.New(c.filter).Eval(&filters.Event{Body: []byte(c.body)})
		require.False(t, r.Matches, name)
		require.NotNil(t, r.Failure, name)
		require.Equal(t, c.want, r.Failure.Code, "%s: %s", name, r.Failure.Message)
		require.Less(t, len(r.Failure.Message), 300, name)
	}
}

// Every filter pays for all that it reads: what another has read before changes neither its result nor its cost.
func TestFiltersDoNotDependOnEachOther(t *testing.T) {
	t.Parallel()
	list := "[" + strings.TrimSuffix(strings.Repeat(`[1],`, 60_000), ",") + "]"
	half := filters.New(`event.body.a.size() > 0 && event.body.a[0].size() == 1`)
	whole := filters.New(`event.body.a.size() + event.body.b.size() > 0`)
	body := []byte(`{"a":` + list + `,"b":` + list + `}`)
	alone := []filters.Result{half.Eval(&filters.Event{Body: body}), whole.Eval(&filters.Event{Body: body})}
	require.True(t, alone[0].Matches)
	require.Equal(t, filters.CodeTooLarge, alone[1].Failure.Code)
	shared := &filters.Event{Body: body}
	for range 3 {
		require.Equal(t, alone[0], half.Eval(shared))
		require.Equal(t, alone[1], whole.Eval(shared))
	}
}

// All errors of a filter are reported together, with their places, in words that quote none of it.
func TestCheck(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		``:                       {"min_length: must not be empty; use null for no filter"},
		"event.type == \"\x00\"": {"text: must be Unicode text without the character U+0000"},
		"event.type == \"\xff\"": {"text: must be Unicode text without the character U+0000"},
		strings.Repeat("é", filters.MaxLength+1): {"max_length: must be at most 4096 characters"},
		`event.type`: {"type: line 1, column 6: the filter must be a bool and not string; compare the " +
			"field, as in event.body.active == true"},
		`event.body.active`: {"type: line 1, column 11: the filter must be a bool and not dyn; compare the " +
			"field, as in event.body.active == true"},
		`event.type = "s3cr3t"`: {"syntax: line 1, column 12: a single = compares nothing; write =="},
		`event.type == "s3cr3t`: {"syntax: line 1, column 15: the text that begins here does not end, or has an " +
			"escape that CEL does not know"},
		`event.type == s3cr3t "s3cr3t"`: {"syntax: line 1, column 22: the expression cannot be read from here on"},
		`event.type ==`:                 {"syntax: line 1, column 14: the expression is incomplete"},
		"s3cr3t ==\n  \"é\" && event.type == s3cr3t": {
			"reference: line 1, column 1: there is no variable or function with this name; what came in is in event",
			"reference: line 2, column 24: there is no variable or function with this name; what came in is in event",
		},
		`event.s3cr3t == "a" && event.type > 1`: {
			"reference: line 1, column 6: the event has no such field; it has body, connection_id, content_type, control, " +
				"headers, provider, provider_config_key, received_at, type, types",
			"type: line 1, column 35: > cannot take (string, int)",
		},
		`"s3cr3t" "s3cr3t` + "`" + strings.Repeat("?",
			500): {"syntax: line 1, column 10: the text that begins here does not end, or has an escape that CEL does not know"},
		`event.type.size == 1`: {"type: line 1, column 11: string has no fields"},
		`99999999999999999999 == 1`: {
			"syntax: line 1, column 1: the number or text cannot be read"},
		`if == 1`: {"syntax: line 1, column 1: the word is reserved"},
		`event.types.all(1, true)`: {
			"syntax: line 1, column 17: the variable of a loop must be a simple name"},
		`event.type in "s3cr3t"`: {
			"type: line 1, column 12: in cannot take (string, string)"},
		`size(1) == 1`: {"type: line 1, column 5: size() cannot take (int)"},
		`has(event) || event == event`: {
			"syntax: line 1, column 5: has() takes a field, such as has(event.body.action)"},
		`event == event`: {
			"reference: line 1, column 1: the event can only be used by its fields, such as event.type",
			"reference: line 1, column 10: the event can only be used by its fields, such as event.type"},
		`event.type.matches("(s3cr3t")`: {
			"pattern: line 1, column 20: the pattern is not a regular expression (RE2)"},
		`event.type.matches(event.body.p)`: {
			"pattern: line 1, column 30: the pattern of matches must be written out as a text"},
		`event.type.matches("((a{100}){10}b){5}")`: {
			"pattern: line 1, column 20: the pattern is not a regular expression (RE2)"},
		`event.type.matches("(abcdefghij){100}")`: {
			"pattern: line 1, column 20: the pattern is too large: it compiles to more than 1000 instructions"},
		`event.received_at > timestamp("s3cr3t")`: {
			"type: line 1, column 31: timestamp() takes a time such as 2030-01-31T12:00:00Z"},
		`duration("s3cr3t") > duration("1s")`: {
			"type: line 1, column 10: duration() takes a duration such as 90s or 1h30m"},
		`event.body.a.exists(a, a.exists(b, b.exists(c, c == 1)))`: {
			"cost: costs more than 100000 on an event whose lists, objects and texts have 32 elements each: loop over fewer " +
				"lists inside one another"},
		strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200): {"cost: the filter is nested too deep, or too large"},
		"[" + strings.Repeat("1,", 2040) + "1] == []":                {"cost: the filter is nested too deep, or too large"},
	} {
		var got []string
		for _, f := range filters.Check(text) {
			got = append(got, f.Rule+": "+f.Message)
			require.NotContains(t, f.Message, "s3cr3t")
		}
		require.Equal(t, want, got, "%.60q", text)
	}
}

// Every filter that the reference shows can be stored.
func TestExamplesOfTheReference(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reference/filters.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```cel\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, blocks)
	for _, b := range blocks {
		require.Empty(t, filters.Check(strings.TrimSpace(b[1])), "%s", b[1])
	}
	for _, number := range []any{"4,096 characters", "100,000 units", "100,000 members and items", "256 KiB"} {
		require.Contains(t, string(page), fmt.Sprint(number))
	}
}
