package verification_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/verification"
)

func batched(items string, types ...string) verification.Declaration {
	d := declared(sha256Proof("header:X-S", "{body}"))
	d.Event = verification.EventRules{
		Type: []string{"{json:/type}"}, ID: []string{"json:/id"},
		Map: map[string]string{"contact/created": "contact.created"}, Batch: &verification.Batch{Items: []string{items},
			Type: types, ID: []string{"item:/id", "item:/alt"}},
	}
	return d
}

// A webhook that carries several events is described by all their types, each once and in order, and by one
// id over the ids of all.
func TestDescribeBatch(t *testing.T) {
	t.Parallel()
	v := verifier(t, batched("/*", "{item:/type}.{header:X-Kind}", "{item:/type}"), testKey)
	event := describe(t, v, request(`[{"type":"a","id":1},{"type":"contact/created","alt":"x"},{"type":"a","id":"2"},{"id":3}]`))
	require.Equal(t, "a", event.Type)
	require.Equal(t, []string{"a", "contact.created", "unknown"}, event.Types)
	require.Equal(t, "json:/*/id", event.IDSource)
	require.True(t, event.IDSigned)
	require.False(t, event.TypeSigned, "the header is not signed")
	require.Len(t, event.ID, 64)

	for _, other := range []string{`[{"id":1},{"id":"x"},{"id":2}]`, `[{"id":3},{"id":2},{"id":"x"},{"id":1}]`,
		`[{"id":"1x"},{"id":""},{"id":2},{"id":3}]`} {
		require.NotEqual(t, event.ID, describe(t, v, request(other)).ID, other)
	}
	require.Equal(t, event.ID, describe(t, v, request(`[{"id":1},{"id":"x"},{"id":2},{"id":3,"more":true}]`)).ID)
	none := describe(t, v, request(`[{"type":"a","id":1},{"type":"b"}]`))
	require.Empty(t, none.ID, "without an id of every item the ids do not tell two batches apart")
	require.Equal(t, []string{"a", "b"}, none.Types)
}

// A body that is no batch is described as one event.
func TestDescribeNoBatch(t *testing.T) {
	t.Parallel()
	v := verifier(t, batched("/entry/*/changes/*", "{json:/object}.{item:/field}"), testKey)
	require.Equal(t, []string{"page.feed", "page.likes"},
		describe(t, v, request(`{"object":"page","entry":[{"changes":[{"field":"feed"},{"field":"likes"}]},{"changes":[{"field":"feed"}]}]}`)).Types)
	for _, body := range []string{
		`{"type":"t","id":"1"}`, `{"type":"t","id":"1","entry":[]}`, `{"type":"t","id":"1","entry":[{}]}`,
		`{"type":"t","id":"1","entry":{"changes":[]}}`,
	} {
		require.Equal(t, verification.Event{Type: "t", TypeSigned: true, ID: "1", IDSource: "json:/id", IDSigned: true},
			describe(t, v, request(body)))
	}
	mixed := verifier(t, batched("/*", "{json:/0/kind}.{item:/kind}"), testKey)
	require.Equal(t, []string{"a.a", "a.b"}, describe(t, mixed, request(`[{"kind":"a"},{"kind":"b"}]`)).Types)
	scalar := verifier(t, batched("/types/*", "{item:}"), testKey)
	require.Equal(t, []string{"a", "b"}, describe(t, scalar, request(`{"types":["a","b","a"]}`)).Types)
}

// A batch is described as a whole, so that each subscriber to one of its types gets it, or it is refused: never in
// part.
func TestDescribeLargeBatch(t *testing.T) {
	t.Parallel()
	v := verifier(t, batched("/entry/*/changes/*", "{item:/field}"), testKey)
	batch := func(items, types int) *verification.Request {
		var list []byte
		for i := range items {
			list = fmt.Appendf(list, `,{"field":"f%d","id":%d}`, i%types, i)
		}
		return request(`{"object":"o","entry":[{"changes":[` + string(list[1:]) + `]}]}`)
	}
	for _, many := range []struct{ items, types int }{{100_000, 1000}, {100_000, 1}, {1000, 1000}, {100, 100}} {
		event := describe(t, v, batch(many.items, many.types))
		require.Len(t, event.Types, many.types)
		require.Equal(t, "f"+strconv.Itoa(many.types-1), event.Types[many.types-1])
		require.NotEmpty(t, event.ID)
	}
	several := batched("/names/*", "{item:}")
	several.Event.Batch.Items = append(several.Event.Batch.Items, "/more/*")
	for _, refused := range []struct {
		by *verification.Verifier
		r  *verification.Request
	}{
		{v, batch(100_001, 1)}, {v, batch(1001, 1001)},
		{v, request(`{"entry":[` + strings.Repeat(`{},`, 100_000) + `{}]}`)},
		{verifier(t, several, testKey), request(`{"names":["a"` + strings.Repeat(`,"a"`, 49_999) + `],"more":["b"` +
			strings.Repeat(`,"a"`, 50_000) + `]}`)},
	} {
		_, refusal := refused.by.Describe(refused.r)
		require.NotNil(t, refusal)
		require.Equal(t, verification.ReasonBatchTooLarge, refusal.Reason)
		require.Contains(t, refusal.Message, "100000 items or 1000 types")
	}
}

// The items of several arrays are described together, and an array that is missing in one entry hides no
// other's items.
func TestDescribeSeveralArrays(t *testing.T) {
	t.Parallel()
	d := batched("/entry/*/changes/*", "{json:/object}.{item:/field}")
	d.Event.Batch.Items = append(d.Event.Batch.Items, "/entry/*/names/*", "/more/*")
	d.Event.Batch.Type = append(d.Event.Batch.Type, "{json:/object}.{item:}")
	d.Event.Batch.ID = nil
	v := verifier(t, d, testKey)
	for body, want := range map[string][]string{
		`{"object":"o","entry":[{"names":["a"]},{"changes":[{"field":"f"}]},{"names":["b"],"changes":[]}]}`: {"o.f", "o.a",
			"o.b"},
		`{"object":"o","entry":[{"changes":{}},{"changes":[{"field":"f"}]}],"more":["m"]}`: {"o.f", "o.m"},
		`{"object":"o","entry":7,"more":["m"]}`:                                            {"o.m"},
		`{"object":"o","entry":[{}],"type":"t"}`:                                           nil,
	} {
		require.Equal(t, want, describe(t, v, request(body)).Types)
	}
	d.Event.Batch.ID = []string{"item:/id"}
	require.Equal(t, "json:/entry/*/changes/*|/entry/*/names/*|/more/*/id",
		describe(t, verifier(t, d, testKey), request(`{"entry":[{"changes":[{"id":1}]}]}`)).IDSource)
}

// Where only several values together distinguish webhooks, all of them make the id, and none is left out.
func TestDescribeJoinedIDs(t *testing.T) {
	t.Parallel()
	d := batched("/*", "{item:/type}")
	d.Event.Batch.ID = []string{"item:/id + item:/at", "item:/alt"}
	d.Event.ID = []string{"json:/id + json:/at", "json:/alt"}
	v := verifier(t, d, testKey)
	one := describe(t, v, request(`[{"id":1,"at":2}]`))
	require.Equal(t, "json:/*/id+/at", one.IDSource)
	require.Len(t, one.ID, 64)
	for _, other := range []string{`[{"id":1,"at":3}]`, `[{"id":2,"at":2}]`, `[{"id":1,"alt":"1"}]`} {
		require.NotEmpty(t, describe(t, v, request(other)).ID)
		require.NotEqual(t, one.ID, describe(t, v, request(other)).ID, other)
	}
	require.Empty(t, describe(t, v, request(`[{"id":1}]`)).ID)

	require.Equal(t, verification.Event{Type: "unknown", TypeSigned: true, ID: "1 2", IDSource: "json:/id+json:/at",
		IDSigned: true}, describe(t, v, request(`{"id":1,"at":2}`)))
	require.Equal(t, verification.Event{Type: "unknown", TypeSigned: true, ID: "x", IDSource: "json:/alt", IDSigned: true},
		describe(t, v, request(`{"id":1,"alt":"x"}`)))
	require.Empty(t, describe(t, v, request(`{"id":"`+strings.Repeat("a", 511)+`","at":2}`)).ID, "longer than an id can be")
	d.Event.ID = []string{"json:/id + header:X-Id"}
	require.False(t, describe(t, verifier(t, d, testKey), request(`{"id":1}`, "X-Id", "2")).IDSigned,
		"half of the id is not signed")
}

// Where a header makes the body a batch, a list without it is one event; and as the header is not signed,
// neither type nor id are, because a replay could change how the webhook is described.
func TestDescribeBatchWhen(t *testing.T) {
	t.Parallel()
	d := batched("/*", "{item:/type}")
	d.Event.ID = []string{"json:/0/id"}
	d.Event.Batch.ID = []string{"item:/source + item:/id"}
	d.Event.Batch.When = []verification.Predicate{{From: "header:Content-Type", Equals: []string{"a/batch+json"}}}
	v := verifier(t, d, testKey)
	body := `[{"type":"t","source":"/s","id":"1"},{"type":"u","source":"/s","id":"2"}]`
	batch := describe(t, v, request(body, "Content-Type", "a/batch+json"))
	require.Equal(t, []string{"t", "u"}, batch.Types)
	require.Equal(t, "json:/*/source+/id", batch.IDSource)
	require.Len(t, batch.ID, 64)
	require.False(t, batch.IDSigned || batch.TypeSigned)
	require.Equal(t, verification.Event{Type: "unknown", ID: "1", IDSource: "json:/0/id"}, describe(t, v, request(body)))
	require.Equal(t, []verification.Derivation{{From: "item:/source + item:/id"}}, outline(t, d).BatchIDs)
	require.Equal(t, []verification.Derivation{{From: "{json:/type}"}}, outline(t, d).Types)

	d.Event.Batch.When[0].From = "json:/0/batch"
	event := describe(t, verifier(t, d, testKey), request(`[{"type":"t","source":"/s","id":"1","batch":"a/batch+json"}]`))
	require.True(t, event.IDSigned && event.TypeSigned, "what stands in the signed body is signed")

	d.Event.Batch.When = []verification.Predicate{{From: "method", Present: true}}
	_, err := verification.Compile(d)
	require.Equal(t, []string{"event.batch.when[0].from format"}, violationsOf(t, err))
}

// An error in the rules of a batch, a time or a redaction is found when the definition is loaded.
func TestCompileRefusesEvents(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(d *verification.Declaration)
		want   []string
	}{
		"no star": {func(d *verification.Declaration) {
			d.Event.Batch.Items = []string{"/value"}
		}, []string{"event.batch.items[0] format"}},
		"no items": {func(d *verification.Declaration) {
			d.Event.Batch.Items = nil
		}, []string{"event.batch.items required"}},
		"items twice": {func(d *verification.Declaration) {
			d.Event.Batch.Items = []string{"/*", "/*"}
		}, []string{"event.batch.items[1] unique"}},
		"too many items": {func(d *verification.Declaration) {
			d.Event.Batch.Items = slices.Repeat([]string{"/*"}, 9)
		}, append([]string{"event.batch.items required"}, series("event.batch.items[%d] unique", 1, 8)...)},
		"id of too much": {func(d *verification.Declaration) {
			d.Event.Batch.ID = []string{strings.Repeat("item:/a + ", 8) + "item:/a"}
		}, []string{"event.batch.id[0] limit"}},
		"id of nothing": {func(d *verification.Declaration) {
			d.Event.ID = []string{"json:/a + "}
		}, []string{"event.id[0] format"}},
		"id of a secret": {func(d *verification.Declaration) {
			d.Event.ID = []string{"json:/a + header:cookie"}
		}, []string{"event.id[0] format"}},
		"separator dot": {func(d *verification.Declaration) {
			d.Event.TypeSeparators = "/."
		}, []string{"event.type_separators format"}},
		"separator space": {func(d *verification.Declaration) {
			d.Event.TypeSeparators = " "
		}, []string{"event.type_separators format"}},
		"no type": {func(d *verification.Declaration) {
			d.Event.Batch.Type = nil
		}, []string{"event.batch.type required"}},
		"id of the body": {func(d *verification.Declaration) {
			d.Event.Batch.ID = []string{"json:/id"}
		}, []string{"event.batch.id[0] format"}},
		"item outside": {func(d *verification.Declaration) {
			d.Event.Type = []string{"{item:/a}"}
		}, []string{"event.type[0] format"}},
		"time of nothing": {func(d *verification.Declaration) {
			d.Event.OccurredAt = &verification.OccurredAt{}
		}, []string{"event.occurred_at.format enum", "event.occurred_at.from format"}},
		"redact a header": {func(d *verification.Declaration) {
			d.Event.Redact = []string{"header:a"}
		}, []string{"event.redact[0] format"}},
		"item's member": {func(d *verification.Declaration) {
			d.Event.Type = []string{"{item_member:a}"}
		}, []string{"event.type[0] format"}},
		"no member": {func(d *verification.Declaration) {
			d.Event.Type = []string{"{member:a,}"}
		}, []string{"event.type[0] format"}},
		"member as id": {func(d *verification.Declaration) {
			d.Event.ID = []string{"member:a"}
		}, []string{"event.id[0] format"}},
		"no field": {func(d *verification.Declaration) { d.Event.ID = []string{"form:"} }, []string{"event.id[0] format"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := batched("/*", "{item:/type}")
			tt.change(&d)
			_, err := verification.Compile(d)
			require.Equal(t, tt.want, violationsOf(t, err))
		})
	}
}

// series fills a format with the numbers from first to last.
func series(format string, first, last int) (out []string) {
	for i := first; i <= last; i++ {
		out = append(out, fmt.Sprintf(format, i))
	}
	return out
}

// The time at which an event happened is read leniently, because nothing is decided by it, and never wrongly.
func TestDescribeOccurredAt(t *testing.T) {
	t.Parallel()
	at := time.Unix(1772600767, 0).UTC()
	for _, tt := range []struct {
		format, value string
		want          time.Time
	}{
		{"unix_s", `1772600767`, at}, {"unix_s", `"1772600767.5"`, at}, {"unix_ms", `1772600767000`, at},
		{"rfc3339", `"2026-03-04T06:06:07+01:00"`, at}, {"unix_s", `1772600767000`, time.Time{}},
		{"unix_s", `-1`, time.Time{}}, {"unix_s", `"soon"`, time.Time{}}, {"unix_ms", `99999999999999999`, time.Time{}},
		{"rfc3339", `"0001-01-01T00:00:00Z"`, time.Time{}}, {"rfc3339", `null`, time.Time{}},
	} {
		d := batched("/*", "x")
		d.Event.OccurredAt = &verification.OccurredAt{From: "json:/at", Format: tt.format}
		require.Equal(t, tt.want, describe(t, verifier(t, d, testKey), request(`{"at":`+tt.value+`}`)).OccurredAt, tt.value)
	}
}

// Tokens and named values are not stored, wherever they stand, and everything else stays byte for byte.
func TestRedactBody(t *testing.T) {
	t.Parallel()
	d := token("json:/passcode", "json:/value/*/clientState")
	d.Event.Redact = []string{"json:/a/*/secret", "json:/a/*/secret/inner"}
	v := verifier(t, d, testKey)
	for body, want := range map[string]string{
		`{ "passcode" : "x", "n": 1.50 }`:                        `{ "passcode" : "[redacted]", "n": 1.50 }`,
		`{"passcode":{"deep":[1,2]},"z":"\u00e9"}`:               `{"passcode":"[redacted]","z":"\u00e9"}`,
		`{"value":[{"clientState":"x"},{},{"clientState":"y"}]}`: `{"value":[{"clientState":"[redacted]"},{},{"clientState":"[redacted]"}]}`,
		`{"a":[{"secret":{"inner":1}},{"secret":2}]}`:            `{"a":[{"secret":"[redacted]"},{"secret":"[redacted]"}]}`,
		`not JSON "passcode"`:                                    `not JSON "passcode"`,
		// Of members with the same name the last counts, and all are taken out.
		`{"passcode":"x","n":1,"pass\u0063ode":"y","passcode":null}`: `{"passcode":"[redacted]","n":1,"pass\u0063ode":"[redacted]","passcode":"[redacted]"}`,
		`{"value":[{"clientState":"x","clientState":[1]}],"value":[{"clientState":"z"}],"value":1}`: `{"value":[{"clientState":"[redacted]",` +
			`"clientState":"[redacted]"}],"value":[{"clientState":"[redacted]"}],"value":1}`,
		`{"passcode":"x","passcode":"y"} and more`: `{"passcode":"x","passcode":"y"} and more`,
		`{"b":1}`:                    `{"b":1}`,
		`{"value":7,"passcode":"x"}`: `{"value":7,"passcode":"[redacted]"}`,
	} {
		r := request(body)
		require.Equal(t, want, string(v.RedactBody(r)))
		require.Equal(t, body, string(r.Body), "the request is not changed")
	}
}

// A redacted body is still the JSON that it was, without the value.
func TestRedactBodyKeepsJSON(t *testing.T) {
	t.Parallel()
	v := verifier(t, token("json:/list/*/token"), testKey)
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOf(rapid.Map(rapid.String(), func(s string) map[string]any {
			return map[string]any{"token": s, "other": s}
		})).Draw(rt, "list")
		body, err := json.Marshal(map[string]any{"list": list, "x": 1})
		require.NoError(t, err)
		var got struct {
			List []map[string]string `json:"list"`
		}
		require.NoError(t, json.Unmarshal(v.RedactBody(request(string(body))), &got))
		require.Len(t, got.List, len(list))
		for i, item := range got.List {
			require.Equal(t, "[redacted]", item["token"])
			require.Equal(t, list[i]["other"], item["other"])
		}
	})
}
