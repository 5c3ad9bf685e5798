package deliveries

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// The envelope and the record of the request's headers, which are written without an encoder, are those that the
// encoder writes, for any text in them.
func TestRequestIsEncodedAsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		e, d, target := forwarded()
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "issues.opened", "a<b>&c", `"\`, "\u2028\x7f"}))
		e.Type, e.Provider, e.ConnectionID = text.Draw(rt, "type"), text.Draw(rt, "provider"), text.Draw(rt, "connection")
		e.Types = rapid.SliceOfN(text, 0, 3).Draw(rt, "types")
		data := rapid.SampledFrom([]string{`null`, `{"b":1.0,"a":[]}`, `"x"`}).Draw(rt, "data")
		expected, err := json.Marshal(struct {
			Type              string          `json:"type"`
			Types             []string        `json:"types,omitempty"`
			Timestamp         string          `json:"timestamp"`
			ID                string          `json:"id"`
			Provider          string          `json:"provider"`
			ProviderConfigKey string          `json:"provider_config_key"`
			ConnectionID      string          `json:"connection_id"`
			Headers           json.RawMessage `json:"headers"`
			Data              json.RawMessage `json:"data"`
		}{e.Type, e.Types, clock.Wire(e.ReceivedAt), e.UUID, e.Provider, e.ProviderConfigKey, e.ConnectionID,
			json.RawMessage(`{"x-github-event":"a\u003cb"}`), json.RawMessage(data)})
		require.NoError(rt, err)
		p := &events.Payload{Headers: `{"x-github-event":"a\u003cb"}`, Body: []byte(data), Encoding: events.JSON}
		f, err := buildForm(subscriptions.Envelope, e.Type, e, p)
		require.NoError(rt, err)
		require.Equal(rt, string(expected), string(f.body))
		shared, err := buildShared(subscriptions.Envelope, e, p)
		require.NoError(rt, err)
		shared = shared.under(subscriptions.Envelope, e.Type, e)
		require.Equal(rt, string(f.body), string(shared.head)+string(shared.body), "in parts it is the same")

		name := rapid.SampledFrom([]string{"a", "accept", "user-agent", "x-a", "sallyport", "webhook-jd", "content-md5"})
		if p.Headers = "{}"; rapid.Bool().Draw(rt, "raw") {
			headers := rapid.MapOf(name, text).Draw(rt, "headers")
			if _, ok := headers["x-a"]; ok {
				headers["x-a"] = secretbox.Redacted
			}
			p.Headers, p.Signatures = headersText(rt, headers), `{"x-a":"s3cret"}`
			f, err = buildForm(subscriptions.Raw, e.Type, e, p)
			require.NoError(rt, err)
		}
		h := buildHeaders(target, d, e, e.Type, &f, testTime())
		if rapid.Bool().Draw(rt, "foreign") {
			h["X-Foreign"] = []string{"a", "b"}
		}
		signature := func(name string) bool { return name == "webhook-signature" || name == "x-a" }
		require.Equal(rt, storedHeaders(h, signature), storedRequestHeaders(h, nil, f.headers))
	})
}

// headersText returns headers as an event stores them.
func headersText(t require.TestingT, headers map[string]string) string {
	b, err := json.Marshal(headers)
	require.NoError(t, err)
	return string(b)
}
