package e2e_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
)

// allBytes holds every byte once, so that nothing of it is text.
func allBytes() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}

// Any body of a provider is kept byte for byte: raw forwards are the very bytes, the envelope holds JSON as it came,
// and other content travels as text or in base64. Nothing is dropped for not being JSON.
func TestBodiesSurvive(t *testing.T) {
	t.Parallel()
	asText := func(body string) string { return `{"text":` + quoted(body) + `}` }
	form := "payload=" + url.QueryEscape(issueOpened) + "&x=%00"
	cases := []struct {
		name, contentType, body string
		encoding                string
		// data is the envelope's data.
		data string
	}{
		{"JSON with odd numbers, doubled names and blanks", "application/json",
			"\n{\"n\": 1.0e+400, \"big\":12345678901234567890,\"n\":\t-0, \"u\":\"\\u00e9\\ud800é<>&\"} ", "json", ""},
		{"JSON without a content type", "", `[1,2,{"a":null}]`, "json", ""},
		{"JSON of a vendor's type", "application/vnd.example+json; charset=utf-8", `"a string"`, "json", ""},
		{"broken JSON", "application/json", `{"a":1`, "text", asText(`{"a":1`)},
		{"JSON and more behind it", "application/json", `{"a":1}{"b":2}`, "text", asText(`{"a":1}{"b":2}`)},
		{"plain text", "text/plain; charset=utf-8", "Grüße\r\n\x00\u2028", "text", asText("Grüße\r\n\x00\u2028")},
		{"a form", "application/x-www-form-urlencoded", form, "text", asText(form)},
		{"every byte", "application/octet-stream", allBytes(), "base64", `{"base64":"` +
			base64.StdEncoding.EncodeToString([]byte(allBytes())) + `"}`},
		{"text in another encoding", "application/json", "{\"a\":\"\xe9\"}", "base64", `{"base64":"eyJhIjoi6SJ9"}`},
		{"nothing", "", "", "text", `{"text":""}`},
		{"nothing that calls itself JSON", "application/json", "", "text", `{"text":""}`},
		{"more than memory takes at once", "application/json", `{"a":"` + strings.Repeat("x", 300<<10) + `"}`, "json", ""},
	}
	each(t, func(w *world) {
		rawSink, envelopeSink := newReceiver(w.t, status(200)), newReceiver(w.t, status(200))
		rawSub, envelopeSub := w.subscribe(rawSink.url, object{"payload_mode": "raw"}), w.subscribe(envelopeSink.url)
		for i, c := range cases {
			w.run(c.name, func(w *world) {
				// A connection of its own: the same body twice would be a duplicate.
				conn := w.connect(w.dev(), object{"provider": "generic-hmac", "webhook_secret": "a shared secret"})
				e := w.awaitEvent(w.deliver(conn.pathToken(), generic("a shared secret", c.contentType, c.body)).EventUUID,
					"forwarded")

				got := rawSink.wait(w.t, i+1)[i]
				require.True(w.t, bytes.Equal([]byte(c.body), got.body), "the raw body must be the provider's, byte for byte")
				require.Equal(w.t, c.contentType, got.header.Get("Content-Type"))
				require.Equal(w.t, int64(len(c.body)), got.length)
				verify(w, rawSub.SigningSecret, got)

				got = envelopeSink.wait(w.t, i+1)[i]
				verify(w, envelopeSub.SigningSecret, got)
				require.True(w.t, json.Valid(got.body))
				want := c.data
				if want == "" {
					want = c.body
				}
				require.True(w.t, bytes.HasSuffix(got.body, []byte(`,"data":`+want+`}`)), "%.300s", got.body)
				require.Equal(w.t, "application/json", got.header.Get("Content-Type"))

				require.Equal(w.t, c.encoding, *e.BodyEncoding)
				require.Equal(w.t, c.contentType, e.ContentType)
				require.Equal(w.t, int64(len(c.body)), e.BodySize)
				require.Equal(w.t, c.body, shownBody(w, e))
			})
		}
	})
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always marshals
	}
	return string(b)
}

// shownBody returns the bytes that an event's body stands for. JSON is shown without the blanks between its tokens.
func shownBody(w *world, e event) string {
	w.t.Helper()
	var s string
	switch *e.BodyEncoding {
	case "json":
		stored, err := w.storedBody(e.EventUUID)
		require.NoError(w.t, err)
		var compact bytes.Buffer
		require.NoError(w.t, json.Compact(&compact, stored))
		require.Equal(w.t, compact.String(), string(e.Body))
		return string(stored)
	case "text":
		require.NoError(w.t, json.Unmarshal(e.Body, &s))
		return s
	default:
		require.NoError(w.t, json.Unmarshal(e.Body, &s))
		b, err := base64.StdEncoding.DecodeString(s)
		require.NoError(w.t, err)
		return string(b)
	}
}

func (w *world) storedBody(uuid string) ([]byte, error) {
	var b []byte
	err := w.database().Read().QueryRowContext(w.t.Context(),
		"SELECT body FROM webhook_event_payloads WHERE event_uuid = $1", uuid).Scan(&b)
	return b, err
}

// GitHub can post its JSON as one field of a form: the type comes from the JSON, the signature covers the form.
func TestGitHubForm(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(200))
		w.subscribe(sink.url, object{"event_types": []string{"issues.opened"}})
		w.connectGitHub("forms")
		m := github("payload="+url.QueryEscape(issueOpened)).with("Content-Type", "application/x-www-form-urlencoded")
		e := w.awaitEvent(w.deliver("forms", m).EventUUID, "forwarded")
		require.Equal(w.t, "issues.opened", e.EventType)
		require.Equal(w.t, "text", *e.BodyEncoding)
	})
}

// A sender's text in place of a type, an id or a header cannot keep its event, or its neighbours, from being stored,
// not even on the engine that refuses such text.
func TestOddTextIsStored(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connect(w.dev(), object{"provider": "generic-hmac", "webhook_secret": "a shared secret",
			"webhook": object{"params": object{
				"event_type_header": "X-Type", "event_type_pointer": "/type", "event_id_pointer": "/id",
				"event_id_header": "X-Id"}}})
		long := strings.Repeat("l", 64<<10)
		var bodies []string
		for _, odd := range []string{`"a\u0000b"`, `"\u0000"`, `"\ud800"`, `"\uffff\u202e"`, `""`, `" "`, `null`, `true`,
			`1e999`, `{}`, `[]`, quoted(long), `"a..b"`, `"*"`} {
			bodies = append(bodies, `{"type":`+odd+`,"id":"1"}`, `{"type":"t","id":`+odd+`}`)
		}
		seen := map[string]bool{}
		take := func(m message) {
			w.t.Helper()
			r := w.deliver(conn.pathToken(), m)
			seen[r.EventUUID] = true
			e := w.event(r.EventUUID)
			require.NotEmpty(w.t, e.EventType)
			require.NotEmpty(w.t, e.IdempotencyKey)
		}
		for _, body := range bodies {
			take(generic("a shared secret", "application/json", body))
		}
		for _, odd := range []string{"\xff\xfe", "a\tb", strings.Repeat("h", 8<<10)} {
			m := generic("a shared secret", "application/json", `{}`)
			for _, name := range []string{"X-Type", "X-Id", "Content-Type", "X-Other"} {
				take(m.with(name, odd))
			}
		}
		for _, e := range w.events("&include=body,headers,deliveries") {
			delete(seen, e.EventUUID)
		}
		require.Empty(w.t, seen, "events that the list does not show")
	})
}

// A body as large as the connection permits arrives whole.
func TestLargestBody(t *testing.T) {
	t.Parallel()
	testkit.NeedNoRace(t)
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(200))
		w.subscribe(sink.url, object{"payload_mode": "raw", "timeout_ms": 30000})
		const most = 25 << 20
		conn := w.connect(w.dev(), object{"provider": "generic-hmac", "webhook_secret": "a shared secret",
			"webhook": object{"max_body_bytes": most}})
		body := strings.Repeat("0123456789abcdef", most/16)
		r := w.deliver(conn.pathToken(), generic("a shared secret", "text/plain", body))
		require.True(w.t, bytes.Equal([]byte(body), sink.wait(w.t, 1)[0].body))
		w.awaitEvent(r.EventUUID, "forwarded")
		w.unchanged(func() {
			w.post(conn.pathToken(), generic("a shared secret", "text/plain", body+"!")).refused(w,
				http.StatusRequestEntityTooLarge, "payload_too_large")
		})
	})
}
