package registry_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// cloudEventsToken is the access token in the examples of "HTTP 1.1 Web Hooks for Event Delivery", section 3, and of
// RFC 6750.
const cloudEventsToken = "mF_9.B5f-4.1JqM"

// The output of HTTP.binary and HTTP.structured of the npm package cloudevents 10.0.0 for one event.
var (
	cloudEventBinary = []string{
		"Content-Type", "application/json; charset=utf-8", "ce-id", "A234-1234-1234", "ce-time", "2018-04-05T17:31:00.000Z",
		"ce-type", "com.example.someevent", "ce-source", "/mycontext", "ce-specversion", "1.0", "ce-subject", "s",
	}
	cloudEventStructured = `{"id":"A234-1234-1234","time":"2018-04-05T17:31:00.000Z","type":"com.example.someevent","source":"/mycontext",` +
		`"specversion":"1.0","subject":"s","data":{"a":1}}`
)

// The access token of the specification's examples is taken from the header and from the query, where it
// stands once, and nothing else is.
func TestCloudEventsVector(t *testing.T) {
	t.Parallel()
	r := at(deliver(time.Unix(1772600767, 0), `{"a":1}`, cloudEventBinary...), "POST", "access_token="+cloudEventsToken+
		"&p=q")
	vector{
		slug: "cloudevents", secret: cloudEventsToken, scheme: "token", request: r, at: "query:access_token",
		text: cloudEventsToken, outside: []string{"body", "header:ce-id", "header:ce-type"},
	}.check(t)
	v := connect(t, "cloudevents", nil, cloudEventsToken)
	bearer := func(values ...string) *verification.Request {
		r := deliver(time.Time{}, `{"a":1}`, cloudEventBinary...)
		r.Header["Authorization"] = values
		return r
	}
	requireProved(t, v, bearer("Bearer "+cloudEventsToken), "token", "0")
	requireReason(t, v, bearer("Bearer "+cloudEventsToken+" "), verification.ReasonSignatureMismatch)
	requireReason(t, v, bearer("Bearer mF_9.B5f-4.1JqN"), verification.ReasonSignatureMismatch)
	requireReason(t, v, bearer("Basic "+cloudEventsToken), verification.ReasonSignatureMalformed)
	requireReason(t, v, bearer(cloudEventsToken), verification.ReasonSignatureMalformed)
	requireReason(t, v, bearer("Bearer "+cloudEventsToken, "Bearer "+cloudEventsToken),
		verification.ReasonSignatureMalformed)
	require.Equal(t, []string{"authorization"}, v.RedactHeaders())
	require.Equal(t, 202, v.Ack().Status)
	require.Empty(t, v.Ack().Body)
}

// An event has the same type and id in binary and structured mode, those of the headers where the body has
// members of the same name, and is unknown without them.
func TestCloudEventsModes(t *testing.T) {
	t.Parallel()
	v := connect(t, "cloudevents", nil, cloudEventsToken)
	want := verification.Event{
		Type: "com.example.someevent", ID: "/mycontext A234-1234-1234", IDSource: "header:ce-source+header:ce-id",
		OccurredAt: time.Date(2018, 4, 5, 17, 31, 0, 0, time.UTC),
	}
	require.Equal(t, want, describe(t, v, deliver(time.Time{}, `{"type":"x","source":"y","id":"z"}`, cloudEventBinary...)))
	require.Equal(t, want, describe(t, v, deliver(time.Time{}, `[{"type":"x","source":"y","id":"z"}]`, cloudEventBinary...)),
		"a list is no batch in binary mode")
	want.IDSource, want.OccurredAt = "json:/source+json:/id", time.Time{}
	require.Equal(t, want, describe(t, v, deliver(time.Time{}, cloudEventStructured, "Content-Type",
		"application/cloudevents+json; charset=utf-8")))
	require.Equal(t, verification.Event{Type: "unknown"},
		describe(t, v, deliver(time.Time{}, `{"id":"z"}`, "ce-id", "1", "Content-Type", "application/cloudevents+xml")))
}

// A batch is described by the types and the ids of all its events, and its id changes with any of them.
func TestCloudEventsBatch(t *testing.T) {
	t.Parallel()
	v := connect(t, "cloudevents", nil, cloudEventsToken)
	batch := func(contentType string, events ...string) verification.Event {
		body := []byte("[" + events[0])
		for _, event := range events[1:] {
			body = append(append(body, ','), event...)
		}
		return describe(t, v, deliver(time.Time{}, string(append(body, ']')), "Content-Type", contentType))
	}
	const other = `{"id":"2","type":"com.example.other","source":"/mycontext","specversion":"1.0"}`
	event := batch("application/cloudevents-batch+json", cloudEventStructured, other)
	require.Equal(t, []string{"com.example.someevent", "com.example.other"}, event.Types)
	require.Len(t, event.ID, 64)
	require.Equal(t, "json:/*/source+/id", event.IDSource)
	require.False(t, event.IDSigned || event.TypeSigned)
	ids := []string{event.ID}
	for _, events := range [][]string{{cloudEventStructured}, {other, cloudEventStructured},
		{cloudEventStructured, `{"id":"3","type":"com.example.other","source":"/mycontext"}`}} {
		id := batch("application/cloudevents-batch+json; charset=UTF-8", events...).ID
		require.False(t, slices.Contains(ids, id))
		ids = append(ids, id)
	}
	require.Empty(t, batch("application/cloudevents-batch+json", cloudEventStructured, `{"type":"a"}`).ID)
	require.Nil(t, batch("application/json", cloudEventStructured).Types)
}

// The abuse protection of the specification, section 4, is confirmed for the origin that asked, at any rate, and for
// nothing else.
func TestCloudEventsHandshake(t *testing.T) {
	t.Parallel()
	v := connect(t, "cloudevents", nil, cloudEventsToken)
	require.Equal(t, []string{"OPTIONS"}, v.HandshakeMethods())
	answer := requireHandshakeText(t, v, at(deliver(time.Time{}, "", "WebHook-Request-Origin", "eventemitter.example.com",
		"WebHook-Request-Rate", "120"), "OPTIONS", ""), 200, "", "")
	require.Equal(t, "eventemitter.example.com", answer.Header.Get("WebHook-Allowed-Origin"))
	require.Equal(t, "*", answer.Header.Get("WebHook-Allowed-Rate"))
	require.Equal(t, "POST", answer.Header.Get("Allow"))
	requireNoHandshake(t, v, at(deliver(time.Time{}, ""), "OPTIONS", ""))
	requireNoHandshake(t, v, at(deliver(time.Time{}, "", "WebHook-Request-Origin", "a"), "POST", ""))
	requireNoHandshake(t, v, at(deliver(time.Time{}, "", "WebHook-Request-Origin", "a", "WebHook-Request-Origin", "b"),
		"OPTIONS", ""))
	requireHandshakeRefused(t, v, at(deliver(time.Time{}, "", "WebHook-Request-Origin", "a\tb"), "OPTIONS", ""),
		verification.ReasonHandshakeMalformed)
}
