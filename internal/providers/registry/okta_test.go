package registry_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The payload is the sample of Okta's documentation, shortened.
const (
	oktaSecret = "5mEzn9C-I28UtwOjZJtFoob0sAAFZ95GbZkqj4y3i0I"
	oktaBody   = `{"eventType":"com.okta.event_hook","eventTypeVersion":"1.0","cloudEventsVersion":"0.1",` +
		`"source":"https://example.okta.com/api/v1/eventHooks/who7hphp39JoHLni81d7","eventId":"85b60edb-4263-4e13-993b-818e26201052",` +
		`"data":{"events":[{"uuid":"f1d0b993-cc19-11ed-a688-db22c99ef6c4","published":"2023-03-26T21:05:32.159Z",` +
		`"eventType":"user.session.start","version":"0"},{"uuid":"f1d0b993-cc19-11ed-a688-db22c99ef6c5",` +
		`"published":"2023-03-26T21:05:33.159Z","eventType":"user.account.lock","version":"0"}]}}`
)

// A webhook with the secret in the Authorization header, as Okta's documentation describes it, passes; nothing in it is
// signed.
func TestOkta(t *testing.T) {
	t.Parallel()
	r := deliver(time.Unix(1772600767, 0), oktaBody, "Authorization", oktaSecret)
	vector{
		slug: "okta", secret: oktaSecret, scheme: "token", request: r, at: "header:Authorization", text: oktaSecret,
		outside: []string{"body"},
	}.check(t)
	v := connect(t, "okta", nil, oktaSecret)
	requireDescribed(t, v, r, verification.Event{Type: "user.session.start", Types: []string{"user.session.start",
		"user.account.lock"}, ID: "85b60edb-4263-4e13-993b-818e26201052",
		OccurredAt: time.Date(2023, 3, 26, 21, 5, 32, 159_000_000, time.UTC)})
	require.Equal(t, []string{"authorization"}, v.RedactHeaders())
	require.Empty(t, v.Ack().Body)
	for _, header := range []string{"Bearer " + oktaSecret, "SSWS " + oktaSecret} {
		requireReason(t, v, deliver(r.Now, oktaBody, "Authorization", header), verification.ReasonSignatureMismatch)
	}
}

// The response to the one-time verification is the value of its header, and no proof of anything: it neither contains
// nor depends on the secret.
func TestOktaVerification(t *testing.T) {
	t.Parallel()
	v := connect(t, "okta", nil, oktaSecret)
	challenge := func(method string, pairs ...string) *verification.Request {
		return at(deliver(time.Time{}, "", pairs...), method, "")
	}
	requireHandshakeText(t, v, challenge(http.MethodGet, "X-Okta-Verification-Challenge", "c4f1"), http.StatusOK,
		"application/json", `{"verification":"c4f1"}`)
	requireHandshakeText(t, v, challenge(http.MethodGet, "X-Okta-Verification-Challenge", `"}`), http.StatusOK,
		"application/json", `{"verification":"\"}"}`)
	requireNoHandshake(t, v, challenge(http.MethodGet))
	requireNoHandshake(t, v, challenge(http.MethodPost, "X-Okta-Verification-Challenge", "c4f1"))
	requireReason(t, v, challenge(http.MethodPost, "X-Okta-Verification-Challenge", oktaSecret),
		verification.ReasonSignatureMissing)
}
