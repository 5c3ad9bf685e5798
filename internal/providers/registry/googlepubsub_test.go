package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A token with the claims of Google's documentation, which Google's npm package accepted with the key of these tests
// (google-auth-library 10.9.1, OAuth2Client.verifySignedJwtWithCertsAsync).
const (
	pubsubKeysURL  = "https://www.googleapis.com/oauth2/v3/certs"
	pubsubAudience = "https://hooks.example.com/api/v1/webhook/whk_1"
	pubsubAccount  = "push@my-project.iam.gserviceaccount.com"
	pubsubHeader   = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjdkNjgwZDhjNzBkNDRlOTQ3MTMzY2JkNDk5ZWJjMWE2MWMzZDVhYmMiLCJ0eXAiOiJKV1QifQ"
	pubsubClaims   = "eyJhdWQiOiJodHRwczovL2hvb2tzLmV4YW1wbGUuY29tL2FwaS92MS93ZWJob29rL3doa18xIiwiYXpwIjoiMTEzNzc0MjY0NDYzMDM4MzIxOTY0" +
		"IiwiZW1haWwiOiJwdXNoQG15LXByb2plY3QuaWFtLmdzZXJ2aWNlYWNjb3VudC5jb20iLCJlbWFpbF92ZXJpZmllZCI6dHJ1ZSwiZXhwIjoxNzcy" +
		"NjA0MzY3LCJpYXQiOjE3NzI2MDA3NjcsImlzcyI6Imh0dHBzOi8vYWNjb3VudHMuZ29vZ2xlLmNvbSIsInN1YiI6IjExMzc3NDI2NDQ2MzAzODMy" +
		"MTk2NCJ9"
	pubsubSignature = "JZT-ZxdP9rZhGTnZm52ZIpKt8citE12Nh9JjziQcHGNKvxbnKxkm-jTOdOO_NaVsE05ehBKdmnXSn4yQw4tHmz-MzIQAX2CZl0VjbvVVYsXUU_DK" +
		"XvZZrEEK9QhLaFEaG45pal_Ti-kR7ahl_3SE-dLHsNi7-meyudNMYHhUv4GNi_IyABPpjTXL3QZM0rsgU6S8Ex3l5WN-kAqqI2JFYVUT4--cLzuq" +
		"QjHO78lJB_OSGbAw_30E8Etjav9mnQWPda2RKJ_A9WyhL3YDGOljS4mpohSwJAssstaB_4y6ceLPILGkVpS2I32SQLhM2b1jtEmJSLVpqYhkHvBv" +
		"SP4YDg"
	pubsubToken = pubsubHeader + "." + pubsubClaims + "." + pubsubSignature
	pubsubBody  = `{"message":{"attributes":{"eventType":"OBJECT_FINALIZE"},"data":"SGVsbG8gQ2xvdWQgUHViL1N1YiE=","messageId":"2070443601311540",` +
		`"message_id":"2070443601311540","publishTime":"2026-03-04T05:06:06.123Z"},"subscription":"projects/my-project/subscriptions/my-subscription"}`
)

func pubsubParams() map[string]string {
	return map[string]string{"audience": pubsubAudience, "service_account": pubsubAccount, "type_attribute": "eventType"}
}

func pubsubDelivery(token string) *verification.Request {
	return deliver(time.Unix(1772600767, 0), pubsubBody, "Authorization", token)
}

func pubsubPublisher() *publisher {
	return &publisher{keys: map[string]string{pubsubKeysURL: sampleKeySet}}
}

// The token is accepted for its subscription's audience and service account until it expires, with Google's keys
// alone. It does not cover the body.
func TestPubSubVector(t *testing.T) {
	t.Parallel()
	p := pubsubPublisher()
	v := connectKeys(t, "google-pubsub", p, pubsubParams())
	require.False(t, v.NeedsSecret())
	r := pubsubDelivery("Bearer " + pubsubToken)
	requireProved(t, v, r, "jwt", sampleKeyID)
	other := cloneRequest(r)
	other.Body = []byte(`{}`)
	requireProved(t, v, other, "jwt", sampleKeyID)
	require.Equal(t, int64(1), p.asked.Load())
	for i := range pubsubToken {
		changed := []byte(pubsubToken)
		if changed[i] = 'A'; pubsubToken[i] == 'A' {
			changed[i] = 'B'
		}
		_, refusal := v.Verify(t.Context(), pubsubDelivery("Bearer "+string(changed)))
		require.NotNil(t, refusal, "accepted with another byte %d of the token", i)
	}
	late := func(after time.Duration) *verification.Request {
		r := pubsubDelivery("Bearer " + pubsubToken)
		r.Now = r.Now.Add(after)
		return r
	}
	requireProved(t, v, late(time.Hour+time.Minute), "jwt", sampleKeyID)
	requireReason(t, v, late(time.Hour+time.Minute+time.Second), verification.ReasonTimestampOutOfRange)
	requireReason(t, v, late(-time.Minute-time.Second), verification.ReasonTimestampOutOfRange)
	for header, want := range map[string]verification.Reason{
		"": verification.ReasonSignatureMissing, pubsubToken: verification.ReasonSignatureMalformed,
		"bearer " + pubsubToken: verification.ReasonSignatureMalformed, "Bearer": verification.ReasonSignatureMalformed,
		"Bearer " + pubsubHeader + "." + pubsubClaims + ".":            verification.ReasonSignatureMismatch,
		"Bearer eyJhbGciOiJub25lIn0." + pubsubClaims + ".":             verification.ReasonSignatureMalformed,
		"Bearer " + macToken(t, "HS256", sampleKeyN, map[string]any{}): verification.ReasonSignatureMalformed,
	} {
		requireReason(t, v, pubsubDelivery(header), want)
	}
	require.Equal(t, []string{"authorization"}, v.RedactHeaders())
	require.Nil(t, v.SignatureHeaders(), "the token must not be forwarded")
}

// Google signs tokens for everyone. One for another audience or service account is refused, and a connection without
// both parameters.
func TestPubSubAccount(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"audience": "https://hooks.example.com/api/v1/webhook/whk_2", "service_account": "push@another-project.iam.gserviceaccount.com",
	} {
		params := pubsubParams()
		params[name] = value
		requireReason(t, connectKeys(t, "google-pubsub", pubsubPublisher(), params), pubsubDelivery("Bearer "+pubsubToken),
			verification.ReasonClaimRefused)
	}
	params := pubsubParams()
	delete(params, "type_attribute")
	requireParams(t, "google-pubsub", params)
	down := connectKeys(t, "google-pubsub", &publisher{}, pubsubParams())
	requireReason(t, down, pubsubDelivery("Bearer "+pubsubToken), verification.ReasonKeysUnavailable)
	keys := &publisher{keys: map[string]string{
		pubsubKeysURL: strings.Replace(sampleKeySet, sampleKeyN, sampleKeyN[:100]+"A"+sampleKeyN[101:], 1),
	}}
	requireReason(t, connectKeys(t, "google-pubsub", keys, pubsubParams()), pubsubDelivery("Bearer "+pubsubToken),
		verification.ReasonSignatureMismatch)
}

// The type is in the attribute that the connection names, and nothing of a message is signed. Without the parameter no
// type is read from a message.
func TestPubSubEvents(t *testing.T) {
	t.Parallel()
	want := verification.Event{Type: "OBJECT_FINALIZE", ID: "2070443601311540",
		OccurredAt: time.Date(2026, 3, 4, 5, 6, 6, 123_000_000, time.UTC)}
	r := pubsubDelivery("Bearer " + pubsubToken)
	requireDescribed(t, connectKeys(t, "google-pubsub", pubsubPublisher(), pubsubParams()), r, want)
	params := pubsubParams()
	delete(params, "type_attribute")
	want.Type, want.TypeSigned = "unknown", true
	requireDescribed(t, connectKeys(t, "google-pubsub", pubsubPublisher(), params), r, want)
}
