package registry_test

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

const (
	postmarkUser     = "webhook-user:5mEzn9C-I28UtwOjZJtFoob0sAAFZ95G"
	postmarkToken    = "hJ4kLpQ9sTwRyUiOoAeDgFhZxCvBnM12"
	postmarkDelivery = `{"RecordType":"Delivery","ServerID":23,"MessageStream":"outbound","MessageID":"883953f4-6105-42a2-a16a-77a8eac79483",` +
		`"Recipient":"a@example.com","Tag":"welcome-email","DeliveredAt":"2025-04-05T16:33:54.9070259Z"}`
)

func postmarkBasic(user string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user))
}

// Either proof that Postmark documents passes, HTTP Basic authentication or a header with a secret; neither covers
// anything.
func TestPostmark(t *testing.T) {
	t.Parallel()
	at := time.Unix(1772600767, 0)
	r := deliver(at, postmarkDelivery, "X-Webhook-Secret", postmarkToken)
	vector{
		slug: "postmark", secret: postmarkToken, scheme: "token", request: r, at: "header:X-Webhook-Secret",
		text: postmarkToken, outside: []string{"body"},
	}.check(t)

	v := connect(t, "postmark", nil, postmarkUser)
	requireProved(t, v, deliver(at, postmarkDelivery, "Authorization", postmarkBasic(postmarkUser)), "basic", "0")
	requireProved(t, v, deliver(at, "{}", "Authorization", postmarkBasic(postmarkUser)), "basic", "0")
	for header, want := range map[string]verification.Reason{
		postmarkBasic("webhook-user:another password"):                 verification.ReasonSignatureMismatch,
		postmarkBasic("another-user:5mEzn9C-I28UtwOjZJtFoob0sAAFZ95G"): verification.ReasonSignatureMismatch,
		postmarkBasic(postmarkUser + "0"):                              verification.ReasonSignatureMismatch,
		"Bearer " + postmarkUser:                                       verification.ReasonSignatureMalformed,
		"Basic " + postmarkUser:                                        verification.ReasonSignatureMalformed,
	} {
		requireReason(t, v, deliver(at, postmarkDelivery, "Authorization", header), want)
	}
	requireReason(t, v, deliver(at, postmarkDelivery), verification.ReasonSignatureMissing)
	require.Equal(t, []string{"authorization", "x-webhook-secret"}, v.RedactHeaders())
}

// The type is RecordType, and an inbound message, which has none, is Inbound. An event that happens once has an id; an
// open or a click can happen more than once for a message and has none.
func TestPostmarkEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "postmark", nil, postmarkToken)
	seen := map[string]string{}
	for _, c := range []struct {
		body, kind string
		id         bool
	}{
		{postmarkDelivery, "Delivery", true},
		{`{"RecordType":"Delivery","MessageID":"883953f4","Recipient":"b@example.com","DeliveredAt":"2025-04-05T16:33:54Z"}`, "Delivery", true},
		{`{"RecordType":"Bounce","ID":42,"MessageID":"883953f4","BouncedAt":"2025-04-05T16:33:54Z"}`, "Bounce", true},
		{`{"RecordType":"SpamComplaint","ID":42,"MessageID":"883953f4"}`, "SpamComplaint", true},
		{`{"RecordType":"SubscriptionChange","MessageID":"883953f4","Recipient":"a@example.com","ChangedAt":"2025-04-05T16:33:54Z"}`,
			"SubscriptionChange", true},
		{`{"RecordType":"Open","MessageID":"883953f4","Recipient":"a@example.com","ReceivedAt":"2025-04-05T16:33:54Z"}`, "Open", false},
		{`{"RecordType":"Click","MessageID":"883953f4","Recipient":"a@example.com","OriginalLink":"https://a.example"}`, "Click", false},
		{`{"FromFull":{"Email":"a@example.com"},"OriginalRecipient":"b@example.com","MessageID":"73e6d360"}`, "Inbound", true},
	} {
		event := describe(t, v, deliver(time.Time{}, c.body))
		require.Equal(t, c.kind, event.Type)
		require.False(t, event.TypeSigned)
		require.Equal(t, c.id, event.ID != "", c.body)
		if c.id {
			require.Empty(t, seen[event.ID], "%s has the id of another webhook", c.body)
			seen[event.ID] = c.body
		}
	}
}
