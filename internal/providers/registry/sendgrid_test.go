package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// Keys and deliveries are those of the tests of the npm package @sendgrid/eventwebhook 8.0.0.
const (
	sendgridKey       = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g=="
	sendgridOtherKey  = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEqTxd43gyp8IOEto2LdIfjRQrIbsd4SXZkLW6jDutdhXSJCWHw8REntlo7aNDthvj+y7GjUuFDb/R1NGe1OPzpA=="
	sendgridSignature = "MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W0JuG+luQAbPIqHh89M15TluLtEZtM="
	sendgridBody      = `[{"email":"hello@world.com","event":"dropped","reason":"Bounced Address","sg_event_id":"ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA",` +
		`"sg_message_id":"LRzXl_NHStOGhQ4kofSm_A.filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9.0",` +
		`"smtp-id":"<LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net>","timestamp":1600112492}]` + "\r\n"

	sendgridBatchKey       = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEQ4LIFtWztlsF7skFqOncjD1lun4H5w8XOhyOArHW9RcIx/FfEzx6cikC/yPfUvwaX/JScE7Fc9CJD2afQ9Ok3Q=="
	sendgridBatchSignature = "MEYCIQC/I4o6vCgqRYrTljjoVWB/GRWNtxeePlLMHr3x9ETeRQIhAIpV+03nREPTTHWSW0wIOA0EoMPdcNgXa70yCaqDJlu5"
	sendgridBatch          = `[{"email":"invalid@gmail.com","event":"processed","send_at":0,"sg_event_id":"cHJvY2Vzc2VkLTE5OTQyMTEyLXFOd0JMZ1BRUWpXNkRKdktRd1NBYnctMA",` +
		`"sg_message_id":"qNwBLgPQQjW6DJvKQwSAbw.filterdrecv-canary-547b64655b-cw6zx-1-6089EA4A-56.0",` +
		`"smtp-id":"<qNwBLgPQQjW6DJvKQwSAbw@ismtpd0178p1mdw1.sendgrid.net>","timestamp":1619651146},` + "\r\n" +
		`{"email":"invalid@gmail.com","event":"bounce","ip":"167.89.101.76","reason":"552 5.2.2 The email account that you tried to reach is over quota and inactive. ` +
		`Please direct the recipient to https://support.google.com/mail/?p=OverQuotaPerm c17si1130468pgv.34 - gsmtp",` +
		`"sg_event_id":"Ym91bmNlLTAtMTk5NDIxMTItcU53QkxnUFFRalc2REp2S1F3U0Fidy0w",` +
		`"sg_message_id":"qNwBLgPQQjW6DJvKQwSAbw.filterdrecv-canary-547b64655b-cw6zx-1-6089EA4A-56.0",` +
		`"smtp-id":"<qNwBLgPQQjW6DJvKQwSAbw@ismtpd0178p1mdw1.sendgrid.net>","status":"5.2.2","timestamp":1619651147,"tls":1,"type":"blocked"}]` + "\r\n"
)

const (
	sendgridSignatureHeader = "X-Twilio-Email-Event-Webhook-Signature"
	sendgridTimestampHeader = "X-Twilio-Email-Event-Webhook-Timestamp"
)

// The deliveries in the tests of SendGrid's library verify with their keys, line end included, and nothing
// else does.
func TestSendGridVector(t *testing.T) {
	t.Parallel()
	vector{
		slug: "sendgrid", scheme: "asymmetric", secret: sendgridKey, otherSecret: sendgridOtherKey,
		request: deliver(time.Unix(1600112502, 0), sendgridBody, sendgridSignatureHeader, sendgridSignature,
			sendgridTimestampHeader, "1600112502"),
		at: "header:" + sendgridSignatureHeader, text: sendgridSignature, encoding: "base64",
		signed: []string{"body", "header:" + sendgridTimestampHeader}, timestamp: "header:" + sendgridTimestampHeader,
	}.check(t)
	batch := deliver(time.Unix(1619651159, 0), sendgridBatch, sendgridSignatureHeader, sendgridBatchSignature,
		sendgridTimestampHeader, "1619651159")
	requireProved(t, connect(t, "sendgrid", nil, sendgridBatchKey), batch, "asymmetric", "0")
	pem := "-----BEGIN PUBLIC KEY-----\n" + sendgridBatchKey + "\n-----END PUBLIC KEY-----\n"
	requireProved(t, connect(t, "sendgrid", nil, pem), batch, "asymmetric", "0")
	batch.Body = batch.Body[:len(batch.Body)-2]
	requireReason(t, connect(t, "sendgrid", nil, sendgridBatchKey), batch, verification.ReasonSignatureMismatch)
}

// One delivery of several events has all their types, and an id that is the same when it is resent and no
// other.
func TestSendGridEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "sendgrid", nil, sendgridKey)
	one, two := describe(t, v, deliver(time.Time{}, sendgridBody)), describe(t, v, deliver(time.Time{}, sendgridBatch))
	require.Equal(t, []string{"dropped"}, one.Types)
	require.Equal(t, "dropped", one.Type)
	require.True(t, one.TypeSigned)
	require.Equal(t, time.Unix(1600112492, 0).UTC(), one.OccurredAt)
	require.Equal(t, []string{"processed", "bounce"}, two.Types)
	require.Equal(t, "json:/*/sg_event_id", two.IDSource)
	require.True(t, two.IDSigned)
	require.NotEqual(t, one.ID, two.ID)
	require.Equal(t, two.ID, describe(t, v, deliver(time.Time{}, sendgridBatch)).ID)
	require.Empty(t, describe(t, v, deliver(time.Time{}, `[{"event":"open"}]`)).ID)
	require.Equal(t, []string{"x-twilio-email-event-webhook-signature"}, v.RedactHeaders())
}
