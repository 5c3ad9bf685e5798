package verification_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The first template whose tokens all have a value names the type, and a type is always fit to be one.
func TestDescribeType(t *testing.T) {
	t.Parallel()
	d := bodyOnly()
	d.Event.Map = map[string]string{"orders/create": "orders.create", "has space": "has.space"}
	v := verifier(t, d, testKey)
	tests := []struct{ body, header, want string }{
		{`{"action":"opened"}`, "issues", "issues.opened"},
		{`{"action":7}`, "issues", "issues.7"},
		{`{"action":true}`, "issues", "issues.true"},
		{`{"action":""}`, "issues", "issues"},
		{`{"action":null}`, "issues", "issues"},
		{`{"action":{}}`, "issues", "issues"},
		{`{}`, "push", "push"},
		{`[]`, "push", "push"},
		{``, "push", "push"},
		{`{"action":"opened"`, "push", "push"},
		{"\xff", "push", "push"},
		{`{"action":"op\u0065ned"}`, "issues", "issues.opened"},
		{`{"action":"opened","action":"closed"}`, "issues", "issues.closed"},
		{`{"action":"a b"}`, "issues", "unknown"},
		{`{"action":"a\nb"}`, "issues", "unknown"},
		{`{"action":"é"}`, "issues", "unknown"},
		{`{"action":"` + strings.Repeat("a", 249) + `"}`, "issues", "issues." + strings.Repeat("a", 249)},
		{`{"action":"` + strings.Repeat("a", 250) + `"}`, "issues", "unknown"},
		{`{"action":"opened"}`, "", "unknown"},
		{`{}`, "orders/create", "orders.create"},
		{`{}`, "has space", "has.space"},
	}
	for _, tt := range tests {
		r := request(tt.body)
		if tt.header != "" {
			r.Header.Set("X-Event", tt.header)
		}
		require.Equal(t, tt.want, describe(t, v, r).Type, tt.body)
	}
	require.Equal(t, "unknown", describe(t, v, request("{}", "X-Event", "a", "X-Event", "b")).Type,
		"of two headers neither counts")
}

// The provider's separators become dots, so that patterns can match by segment, and renamed types stay as they
// are.
func TestDescribeTypeSeparators(t *testing.T) {
	t.Parallel()
	d := bodyOnly()
	d.Event.TypeSeparators, d.Event.Map = "/:", map[string]string{"a/b": "x/y"}
	v := verifier(t, d, testKey)
	for header, want := range map[string]string{
		"orders/create": "orders.create", "zen:event-type:ticket.created": "zen.event-type.ticket.created", "push": "push",
		"a/b": "x/y", "a/b c": "unknown", "/orders/create/": "orders.create", "::": "unknown",
	} {
		require.Equal(t, want, describe(t, v, request("{}", "X-Event", header)).Type)
	}
}

// An id says where it stood and whether the signature covers it. An invalid id is left out.
func TestDescribeID(t *testing.T) {
	t.Parallel()
	d := bodyOnly()
	d.Event.ID = []string{"json:/id", "header:X-Delivery"}
	v := verifier(t, d, testKey)
	inBody := func(id string) verification.Event {
		return verification.Event{Type: "unknown", ID: id, IDSource: "json:/id", IDSigned: true}
	}
	inHeader := verification.Event{Type: "unknown", ID: "h", IDSource: "header:x-delivery"}
	tests := []struct {
		body string
		want verification.Event
	}{
		{`{"id":"b"}`, inBody("b")},
		{`{"id":12345678901234567890123}`, inBody("12345678901234567890123")},
		{`{"id":"日本"}`, inBody("日本")},
		{`{"id":"a b"}`, inBody("a b")},
		{`{"id":"` + strings.Repeat("a", 512) + `"}`, inBody(strings.Repeat("a", 512))},
		{`{"id":"` + strings.Repeat("a", 513) + `"}`, inHeader},
		{`{"id":"a\u0000b"}`, inHeader},
		{`{"id":"a` + "\xff" + `"}`, inHeader},
		{`{"id":"\ud800"}`, inHeader},
		{`{"id":""}`, inHeader},
		{`{"id":{"a":1}}`, inHeader},
		{`{"id":"a","id":null}`, inHeader},
		{`nothing`, inHeader},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, describe(t, v, request(tt.body, "X-Delivery", "h")), tt.body)
	}
	require.Equal(t, verification.Event{Type: "unknown"}, describe(t, v, request("{}")))
}

// Ids by convention count only where the signature covers them.
func TestDescribeFallbackIDs(t *testing.T) {
	t.Parallel()
	pairs := []string{"webhook-id", "w", "svix-id", "s", "ce-source", "/src", "ce-id", "c", "Idempotency-Key", "k",
		"X-Delivery", "h"}
	r := request("{}", pairs...)
	tests := []struct {
		signed string
		id     []string
		want   verification.Event
	}{
		{"{body}", nil, verification.Event{}},
		{"{header:x-other}.{body}", nil, verification.Event{}},
		{"{header:webhook-id}.{body}", nil, verification.Event{ID: "w", IDSource: "header:webhook-id", IDSigned: true}},
		{"{header:svix-id}.{body}", nil, verification.Event{ID: "s", IDSource: "header:svix-id", IDSigned: true}},
		{"{header:ce-id}.{body}", nil, verification.Event{}},
		{"{header:ce-source}.{header:ce-id}.{body}", nil, verification.Event{ID: "/src c",
			IDSource: "header:ce-source+header:ce-id", IDSigned: true}},
		{"{body}.{header:Idempotency-Key}", nil, verification.Event{ID: "k", IDSource: "header:idempotency-key",
			IDSigned: true}},
		{"{body}.{header:Idempotency-Key}", []string{"header:X-Delivery"},
			verification.Event{ID: "h", IDSource: "header:x-delivery"}},
		{"{body}.{header:Idempotency-Key}", []string{"json:/none"},
			verification.Event{ID: "k", IDSource: "header:idempotency-key", IDSigned: true}},
		{"{id}.{body}", []string{"header:X-Delivery"}, verification.Event{ID: "h", IDSource: "header:x-delivery",
			IDSigned: true}},
	}
	for _, tt := range tests {
		d := bodyOnly()
		d.Signed, d.Event.ID, d.Event.Type = tt.signed, tt.id, nil
		tt.want.Type, tt.want.TypeSigned = "unknown", true
		require.Equal(t, tt.want, describe(t, verifier(t, d, testKey), r), tt.signed)
	}
}

// Values that are an id together are one only where they can be distinguished, headers and values of the body
// alike.
func TestDescribeJoinedID(t *testing.T) {
	t.Parallel()
	d := bodyOnly()
	d.Event.ID = []string{"header:ce-source + header:ce-id", "json:/source + json:/id", "json:/id + header:X-Delivery"}
	v := verifier(t, d, testKey)
	for _, tt := range []struct {
		body, source, id, delivery string
		want                       verification.Event
	}{
		{`{"source":"/b","id":"2"}`, "/a", "1", "", verification.Event{ID: "/a 1",
			IDSource: "header:ce-source+header:ce-id"}},
		{`{"source":"/b","id":"2"}`, "/a", "", "", verification.Event{ID: "/b 2", IDSource: "json:/source+json:/id",
			IDSigned: true}},
		{`{"source":"/b","id":"2 c"}`, "/a b", "1", "", verification.Event{ID: "/b 2 c", IDSource: "json:/source+json:/id",
			IDSigned: true}},
		{`{"source":"/b 2","id":"c"}`, "", "", "h", verification.Event{ID: "c h", IDSource: "json:/id+header:x-delivery"}},
		{`{"source":"/b"}`, "", "1", "h", verification.Event{}},
	} {
		tt.want.Type = "unknown"
		require.Equal(t, tt.want, describe(t, v, request(tt.body, "ce-source", tt.source, "ce-id", tt.id, "X-Delivery",
			tt.delivery)), tt.body)
	}
	require.Equal(t, []verification.Derivation{
		{From: "header:ce-source + header:ce-id"}, {From: "json:/source + json:/id", Signed: true},
		{From: "json:/id + header:X-Delivery"},
	}, outline(t, d).IDs)
}

// Control messages are those that a predicate marks, and no others.
func TestDescribeControl(t *testing.T) {
	t.Parallel()
	d := bodyOnly()
	d.Control = []verification.Predicate{
		{From: "header:X-Event", Equals: []string{"ping", "confirm"}},
		{From: "json:/test", Equals: []string{"true"}},
	}
	v := verifier(t, d, testKey)
	require.True(t, describe(t, v, request("{}", "X-Event", "ping")).Control)
	require.True(t, describe(t, v, request("{}", "X-Event", "confirm")).Control)
	require.True(t, describe(t, v, request(`{"test":true}`)).Control)
	require.False(t, describe(t, v, request(`{"test":false}`, "X-Event", "pinged")).Control)
	require.False(t, describe(t, v, request("")).Control)
}

// A heartbeat is recognised by its empty list, however it is written, and by nothing else.
func TestDescribeControlEmpty(t *testing.T) {
	t.Parallel()
	d := bodyOnly()
	d.Control = []verification.Predicate{{From: "json:/events", Empty: true}}
	v := verifier(t, d, testKey)
	for _, body := range []string{`{"events":[]}`, " { \"events\" :\n[ \t\r\n] } "} {
		require.True(t, describe(t, v, request(body)).Control, body)
	}
	for _, body := range []string{`{"events":[{}]}`, `{"events":[[]]}`, `{"events":{}}`, `{"events":""}`,
		`{"events":null}`, `{"events":"[]"}`, `{}`, `[]`, `{"events":[]`, ``} {
		require.False(t, describe(t, v, request(body)).Control, body)
	}
	for want, p := range map[string]verification.Predicate{
		"control[0] coherent":       {From: "json:/events", Empty: true, Present: true},
		"control[0].empty coherent": {From: "header:x-events", Empty: true},
		"control[0].from format":    {From: "method", Empty: true},
	} {
		d.Control = []verification.Predicate{p}
		_, err := verification.Compile(d)
		require.Equal(t, []string{want}, violationsOf(t, err))
	}
	d.Control = []verification.Predicate{{From: "json:/events", Empty: true, Equals: []string{"a"}}}
	_, err := verification.Compile(d)
	require.Equal(t, []string{"control[0] coherent"}, violationsOf(t, err))
}

// Where a form carries the JSON, type and id come from it, while the signature covers the raw form.
func TestDescribeForm(t *testing.T) {
	t.Parallel()
	d := bodyOnly()
	d.Body = &verification.BodyRule{FormField: "payload"}
	v := verifier(t, d, testKey)
	describe := func(body, contentType string) string {
		r := request(body, "X-Event", "issues", "Content-Type", contentType, "X-Signature", "sha256="+hexMAC(testKey, body))
		requireVerified(t, v, r, "whs_0")
		return describe(t, v, r).Type
	}
	const form = "application/x-www-form-urlencoded"
	payload := "payload=" + url.QueryEscape(`{"action":"opened & closed=1"}`)
	opened := "payload=" + url.QueryEscape(`{"action":"opened"}`)
	require.Equal(t, "unknown", describe(payload, form))
	require.Equal(t, "issues.opened", describe(opened, form))
	require.Equal(t, "issues.opened", describe("a=b&"+opened+"&c", form+"; charset=utf-8"))
	require.Equal(t, "issues.opened", describe(`{"action":"opened"}`, "application/json"))
	require.Equal(t, "issues.opened", describe(opened, "application/json"),
		"the content type is not signed, so it decides nothing")
	require.Equal(t, "issues.opened", describe(` {"action":"opened"}`, form))
	require.Equal(t, "issues", describe(opened+"&"+opened, form), "of two fields neither counts")
	require.Equal(t, "issues", describe("payload=%zz", form))
	require.Equal(t, "issues", describe("", form))
}
