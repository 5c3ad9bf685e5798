package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// Key, timestamp, token and signature are those of tests/Api/WebhookTest.php in Mailgun's PHP SDK.
const (
	mailgunKey       = "key-3ax6xnjp29jd6fds4gc373sgvjxteol0"
	mailgunSignature = "9cfc5c41582e51246e73c88d34db3af0a3a2692a76fbab81492842f000256d33"
	mailgunEvent     = `{"signature":{"timestamp":"1403645220","token":"5egbgr1vjgqxtrnp65xfznchgdccwh5d6i09vijqi3whgowmn6","signature":"` + mailgunSignature + `"},` +
		`"event-data":{"event":"opened","timestamp":1529006854.329574,"id":"DACSsAdVSeGpLid7TN03WA"}}`
	mailgunRoute = "recipient=a%40b.example&event=stored&timestamp=1403645220&token=5egbgr1vjgqxtrnp65xfznchgdccwh5d6i09vijqi3whgowmn6&signature=" + mailgunSignature
)

// The signature in the tests of Mailgun's SDK verifies in an event and in a routed message, and with nothing
// changed that it covers. It is known to cover nothing else.
func TestMailgunVector(t *testing.T) {
	t.Parallel()
	at := time.Unix(1403645220, 0)
	vector{
		slug: "mailgun", secret: mailgunKey, request: deliver(at, mailgunEvent, "Content-Type", "application/json"),
		at: "json:/signature/signature", text: mailgunSignature, encoding: "hex",
		signed:  []string{"json:/signature/timestamp", "json:/signature/token"},
		outside: []string{"json:/event-data/event", "json:/event-data/id"}, timestamp: "json:/signature/timestamp",
		maxAge: 24 * time.Hour, maxSkew: 5 * time.Minute,
	}.check(t)
	vector{
		slug: "mailgun", secret: mailgunKey, request: deliver(at, mailgunRoute, "Content-Type",
			"application/x-www-form-urlencoded"),
		at: "form:signature", text: mailgunSignature, encoding: "hex",
		signed: []string{"form:timestamp", "form:token"}, outside: []string{"form:event"}, timestamp: "form:timestamp",
		maxAge: 24 * time.Hour, maxSkew: 5 * time.Minute,
	}.check(t)
}

// A delivery without one of the signed values, or with one of them twice, is refused.
func TestMailgunIncomplete(t *testing.T) {
	t.Parallel()
	v := connect(t, "mailgun", nil, mailgunKey)
	for body, reason := range map[string]verification.Reason{
		strings.Replace(mailgunEvent, `"token":"5`, `"token":"","x":"5`, 1):   verification.ReasonHeaderMissing,
		strings.Replace(mailgunEvent, `"timestamp":"`, `"time":"`, 1):         verification.ReasonTimestampMissing,
		strings.Replace(mailgunEvent, `"1403645220"`, `"1403645220 "`, 1):     verification.ReasonTimestampMalformed,
		strings.Replace(mailgunEvent, `{"signature":{`, `{"signatures":{`, 1): verification.ReasonSignatureMissing,
		mailgunEvent + "x":                              verification.ReasonSignatureMissing,
		mailgunRoute + "&token=x":                       verification.ReasonHeaderMalformed,
		mailgunRoute + "&signature=" + mailgunSignature: verification.ReasonSignatureMalformed,
		"--x\r\nContent-Disposition: form-data; name=\"signature\"\r\n\r\n00\r\n--x": verification.ReasonSignatureMissing,
	} {
		requireReason(t, v, deliver(time.Unix(1403645220, 0), body), reason)
	}
	number := strings.Replace(mailgunEvent, `"1403645220"`, `1403645220`, 1)
	requireProved(t, v, deliver(time.Unix(1403645220, 0), number), "hmac", "0")
}

// Type, id and time of an event are read from a body that the signature does not cover, and are called so.
func TestMailgunEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "mailgun", nil, mailgunKey)
	requireDescribed(t, v, deliver(time.Time{}, mailgunEvent), verification.Event{Type: "opened",
		ID: "DACSsAdVSeGpLid7TN03WA", OccurredAt: time.Unix(1529006854, 0).UTC()})
	requireDescribed(t, v, deliver(time.Time{}, mailgunRoute), verification.Event{Type: "unknown"})
	require.Empty(t, v.RedactHeaders())
}

// The token, which the signature covers, is reported as the value that counts once, for as long as its signature is
// accepted: in events and in routed messages.
func TestMailgunToken(t *testing.T) {
	t.Parallel()
	v := connect(t, "mailgun", nil, mailgunKey)
	signed := time.Unix(1403645220, 0)
	for _, body := range []string{mailgunEvent, mailgunRoute} {
		result, refusal := v.Verify(t.Context(), deliver(signed.Add(time.Hour), body))
		require.Nil(t, refusal)
		require.Equal(t, "5egbgr1vjgqxtrnp65xfznchgdccwh5d6i09vijqi3whgowmn6", result.SingleUse)
		require.Equal(t, signed.Add(24*time.Hour), result.SingleUseUntil)
		requireReason(t, v, deliver(signed.Add(24*time.Hour+time.Second), body), verification.ReasonTimestampOutOfRange)
	}
}
