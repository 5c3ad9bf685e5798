package registry_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A webhook made by Mailchimp's documentation ("How to Authenticate Webhook Requests": the HMAC-SHA1 in base64 of the
// URL and each field's name and value; computed with Python).
const (
	mailchimpKey       = "Wmn3SHlkGBDyF1Lj0lVZWw"
	mailchimpSignature = "Ry/ugnkINUMwNy2pcLJX7B9C0+4="
	mailchimpBody      = "mandrill_events=%5B%7B%22event%22%3A%22send%22%2C%22_id%22%3A%22exampleaaaaaaaaaaaaaaaaaaaaaaaaa%22%2C%22ts%22%3A1772600767" +
		"%2C%22msg%22%3A%7B%22_id%22%3A%22exampleaaaaaaaaaaaaaaaaaaaaaaaaa%22%2C%22subject%22%3A%22This+an+example+%26+more%22%2C%22email%22" +
		"%3A%22example.webhook%40mandrillapp.com%22%2C%22state%22%3A%22sent%22%7D%7D%2C%7B%22event%22%3A%22open%22%2C%22_id%22%3A%22" +
		"exampleaaaaaaaaaaaaaaaaaaaaaaaaa%22%2C%22ts%22%3A1772600768%7D%5D"
	mailchimpPath = "/api/v1/webhook/whk_1"
)

func mailchimpDelivery(body string) *verification.Request {
	return atURL(deliver(time.Unix(1772600767, 0), body, "X-Mandrill-Signature", mailchimpSignature, "Content-Type",
		"application/x-www-form-urlencoded"), "https://hooks.example.com", mailchimpPath, "")
}

// The webhook verifies at the URL that Mailchimp called, and neither elsewhere nor changed.
func TestMailchimp(t *testing.T) {
	t.Parallel()
	v := connect(t, "mailchimp", nil, mailchimpKey)
	requireProved(t, v, mailchimpDelivery(mailchimpBody), "hmac", "0")
	requireProved(t, connect(t, "mailchimp", nil, "another secret", mailchimpKey), mailchimpDelivery(mailchimpBody), "hmac", "1")
	requireReason(t, connect(t, "mailchimp", nil), mailchimpDelivery(mailchimpBody), verification.ReasonSecretMissing)
	requireReason(t, connect(t, "mailchimp", nil, "another secret"), mailchimpDelivery(mailchimpBody), verification.ReasonSignatureMismatch)
	part := vector{request: mailchimpDelivery(mailchimpBody)}
	for _, name := range []string{"path", "base"} {
		for _, r := range part.changes(t, name) {
			_, refusal := v.Verify(t.Context(), r)
			require.NotNil(t, refusal, "accepted with another %s", name)
		}
	}
	fields, err := url.ParseQuery(mailchimpBody)
	require.NoError(t, err)
	text := fields.Get("mandrill_events")
	for i := range text {
		changed := []byte(text)
		changed[i] ^= 1
		_, refusal := v.Verify(t.Context(), mailchimpDelivery("mandrill_events="+url.QueryEscape(string(changed))))
		require.NotNil(t, refusal, "accepted with another byte %d", i)
	}
	for _, body := range []string{mailchimpBody + "&a=b", mailchimpBody + "&mandrill_events=%5B%5D", "other" + mailchimpBody, "", text} {
		_, refusal := v.Verify(t.Context(), mailchimpDelivery(body))
		require.NotNil(t, refusal, body)
	}
	for header, want := range map[string]verification.Reason{
		"": verification.ReasonSignatureMissing, "A" + mailchimpSignature[1:]: verification.ReasonSignatureMismatch,
		mailchimpSignature[:27]: verification.ReasonSignatureMalformed, "47f2ee827908354330372da970b257ec1f42d3ee": verification.ReasonSignatureMalformed,
	} {
		r := mailchimpDelivery(mailchimpBody)
		r.Header.Set("X-Mandrill-Signature", header)
		requireReason(t, v, r, want)
	}
}

// The field contains a batch of events. The check of the URL with the key that everyone knows is not accepted.
func TestMailchimpEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "mailchimp", nil, mailchimpKey)
	event := describe(t, v, mailchimpDelivery(mailchimpBody))
	require.Equal(t, []string{"send", "open"}, event.Types)
	require.True(t, event.TypeSigned)
	require.Empty(t, event.ID)
	require.Equal(t, time.Unix(1772600767, 0).UTC(), event.OccurredAt)
	sync := "mandrill_events=" + url.QueryEscape(`[{"type":"blacklist","action":"add","reject":{},"ts":1772600767}]`)
	require.Equal(t, []string{"blacklist.add"}, describe(t, v, mailchimpDelivery(sync)).Types)
	// The signature of an empty list with the key test-webhook.
	r := mailchimpDelivery("mandrill_events=%5B%5D")
	r.Header.Set("X-Mandrill-Signature", "DQUOcjgOZzRR3v7fw0ro947b+i8=")
	requireReason(t, v, r, verification.ReasonSignatureMismatch)
	requireNoHandshake(t, v, r)
	require.Equal(t, []string{"x-mandrill-signature"}, v.RedactHeaders())
}

// The check that the URL exists gets a response, and nothing of the request in it.
func TestMailchimpHandshake(t *testing.T) {
	t.Parallel()
	v := connect(t, "mailchimp", nil, mailchimpKey)
	require.Equal(t, []string{"HEAD"}, v.HandshakeMethods())
	answer, refusal := v.Handshake(t.Context(), at(deliver(time.Time{}, "", "X-Mandrill-Signature", "x"), http.MethodHead, "a=b"))
	require.Nil(t, refusal)
	require.Equal(t, http.StatusOK, answer.Status)
	require.Empty(t, answer.Body)
	require.NotContains(t, strings.Join(answer.Header["Allow"], ""), "a")
	requireNoHandshake(t, v, at(deliver(time.Time{}, ""), http.MethodGet, ""))
}
