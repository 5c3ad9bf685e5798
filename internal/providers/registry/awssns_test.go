package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// Messages that AWS's npm package accepted with the certificate of these tests (sns-validator 0.3.5,
// MessageValidator.validate): of signature version 1, of version 2 without a subject, and a confirmation.
const (
	snsTopic   = "arn:aws:sns:us-west-2:123456789012:MyTopic"
	snsCertURL = "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-f3ecfb7224c7233fe7bb5f59f96de52f.pem"
	snsSHA1    = `{
  "Type": "Notification",
  "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
  "TopicArn": "arn:aws:sns:us-west-2:123456789012:MyTopic",
  "Subject": "My First Message",
  "Message": "Hello world!\nA second line.",
  "Timestamp": "2026-03-04T05:06:07.123Z",
  "SignatureVersion": "1",
  "Signature": "vDqxvi+l+6x9Q4GX4nPfie2bI1/3hs5+e3L70kmNoJnXM/oJ7XhwyFw8IyGBN6Ovn9VLQ7MSRHDCwie5t3Z9lr88HzivJMeZMid8l7kay4UWwVLFXceBetUyz2FBD6Wk/EAYUkHBYVLYXSqwMad9yazAKEzCRIwNeYuwMg/dxBlzQMPoVGOK0y2uX6mC6sy1HPtD2+53BrqnuS+9FvEZPaLC4wtqWZb0OLNjcu7gosDA06qumtl6m3m/8N3tnopXQgOFF/f+LNK2tc+/feMpOczh7FDTQJNGRcO9z3lKxMAQs9V5aIeM69Vn65ooZn2UBC/0aRXR0Rcx7rc6zWeaZw==",
  "SigningCertURL": "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-f3ecfb7224c7233fe7bb5f59f96de52f.pem",
  "UnsubscribeURL": "https://sns.us-west-2.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=arn:aws:sns:us-west-2:123456789012:MyTopic:c9135db0-26c4-47ec-8998-413945fb5a96"
}`
	snsSHA256 = `{
  "Type": "Notification",
  "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
  "TopicArn": "arn:aws:sns:us-west-2:123456789012:MyTopic",
  "Message": "Hello world!\nA second line.",
  "Timestamp": "2026-03-04T05:06:07.123Z",
  "SignatureVersion": "2",
  "Signature": "c/XhUxfoTLeq1qLDrkUd+L34+CSxTiu1mRt78GcOt5sczw5UpKgC98HsYYB1svlxTTGN34ctGMkZyuv3LfVNZG4SvRdEGHrGrQDzt93+qnYS5hwIHShX3EVfa1/qZNCW4xuWWk76FD/rXpnb0NhcORaW1Tz+E3gY0edmDq8QTmQDUZJyZfRrHoPq8gxHLeBhptUS3eweAl0PdJmW5y1/XXFj1JikY1wpI4XVaGeT3VUeHzrG0jfz+Y/0HxMnSr7a73nt4ekff59uZDKpiFpR35PMRvIS2iin7Uios1mBZo7AjLHsU9QWd8vt6OJ79JkiG/K7UJYrHtXejvB9YO3AKg==",
  "SigningCertURL": "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-f3ecfb7224c7233fe7bb5f59f96de52f.pem",
  "UnsubscribeURL": "https://sns.us-west-2.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=arn:aws:sns:us-west-2:123456789012:MyTopic:c9135db0-26c4-47ec-8998-413945fb5a96"
}`
	snsConfirm = `{
  "Type": "SubscriptionConfirmation",
  "MessageId": "165545c9-2a5c-472c-8df2-7ff2be2b3b1b",
  "Token": "2336412f37fb687f5d51e6e241d09c805a5a57b30d712f794cc5f6a988666d92768dd60a747ba6f3beb71854e285d6ad02428b09ceece29417f1f02d609c582afbacc99c583a916b9981dd2728f4ae6fdb82efd087cc3b7849e05798d2d2785c03b0879594eeac82c01f235d0e717736",
  "TopicArn": "arn:aws:sns:us-west-2:123456789012:MyTopic",
  "Message": "You have chosen to subscribe to the topic arn:aws:sns:us-west-2:123456789012:MyTopic.\nTo confirm the subscription, visit the SubscribeURL included in this message.",
  "SubscribeURL": "https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription&TopicArn=arn:aws:sns:us-west-2:123456789012:MyTopic&Token=2336412f37fb687f5d51e6e241d0",
  "Timestamp": "2026-03-04T05:00:00.000Z",
  "SignatureVersion": "1",
  "Signature": "OW1WViwQM5YH5uSp3H6nkd66spDFvF+Hn1kzBVcGlYmWyNwAlQYFmbsm3Hw+1FeqEcbJMMB6P/Dz9XpG9yycCbwztJ6Dyt6kqHUXldjSHhy+k9H5Aiz67u92DmpCCFTp0sqaIAxdrkzxyNrifOkUK7Fk7QS0AMTOwjQEQqS5gETHu3FSI31RNZvyOCNoozwK0pkwC7jEJIOSgKQ4WkY167TnWjGs9F1pU5lz1awu5CsFu/y5POjvEgxrnuuuO3UxtZj3TKVU948lk/k9jSFZCHKmFcIsAtaDaT096k4H8lrXSzrFKYGTR4hk3BfEs14tnj9Hm696kTlj2w0u6mQ2Lw==",
  "SigningCertURL": "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-f3ecfb7224c7233fe7bb5f59f96de52f.pem"
}`
)

func snsPublisher() *publisher {
	return &publisher{keys: map[string]string{snsCertURL: sampleCertificate}}
}

func snsDelivery(body string) *verification.Request {
	return deliver(time.Unix(1772600767, 0), body, "X-Amz-Sns-Message-Type", "Notification", "Content-Type", "text/plain; charset=UTF-8")
}

// A message of either version is accepted with the certificate that it names, which is fetched once. Each signed
// member is covered, and the others are not.
func TestSNSVector(t *testing.T) {
	t.Parallel()
	params := map[string]string{"topic_arn": snsTopic}
	for _, body := range []string{snsSHA1, snsSHA256, snsConfirm} {
		p := snsPublisher()
		v := connectKeys(t, "aws-sns", p, params)
		require.False(t, v.NeedsSecret())
		r := snsDelivery(body)
		requireProved(t, v, r, "asymmetric", snsCertURL)
		requireProved(t, v, r, "asymmetric", snsCertURL)
		require.Equal(t, int64(1), p.asked.Load())
		signed := []string{"Message", "MessageId", "Timestamp", "Type"}
		for name, has := range map[string]bool{"Subject": body == snsSHA1, "Token": body == snsConfirm} {
			if has {
				signed = append(signed, name)
			}
		}
		for _, name := range signed {
			text := jsonText(t, r.Body, "/"+name)
			require.NotEmpty(t, text)
			changed := cloneRequest(r)
			changed.Body = []byte(strings.Replace(body, `"`+name+`": "`+text[:1], `"`+name+`": "`+text[:1]+"x", 1))
			require.NotEqual(t, body, string(changed.Body), name)
			requireReason(t, v, changed, verification.ReasonSignatureMismatch)
			changed.Body = []byte(strings.Replace(body, `"`+name+`"`, `"Other"`, 1))
			requireReason(t, v, changed, verification.ReasonSignatureMismatch)
		}
		if body != snsConfirm {
			changed := cloneRequest(r)
			changed.Body = []byte(strings.Replace(body, "Action=Unsubscribe", "Action=Other", 1))
			requireProved(t, v, changed, "asymmetric", snsCertURL)
		}
	}
	requireParams(t, "aws-sns", params)
}

// Members that a message does not have cannot be added under its signature, nor can the signature be of another key.
func TestSNSRefuses(t *testing.T) {
	t.Parallel()
	v := connectKeys(t, "aws-sns", snsPublisher(), map[string]string{"topic_arn": snsTopic})
	for _, name := range []string{"Subject", "SubscribeURL", "Token"} {
		requireReason(t, v, snsDelivery(strings.Replace(snsSHA256, "{", `{"`+name+`": "x",`, 1)), verification.ReasonSignatureMismatch)
	}
	signature := jsonText(t, []byte(snsSHA256), "/Signature")
	for text, want := range map[string]verification.Reason{
		"": verification.ReasonSignatureMissing, signature[:300]: verification.ReasonSignatureMismatch,
		"A" + signature[1:]: verification.ReasonSignatureMismatch, "*" + signature[1:]: verification.ReasonSignatureMalformed,
		jsonText(t, []byte(snsSHA1), "/Signature"): verification.ReasonSignatureMismatch,
	} {
		requireReason(t, v, snsDelivery(strings.Replace(snsSHA256, signature, text, 1)), want)
	}
	for _, body := range []string{`{}`, ``, `[]`, "Hello world!"} {
		requireReason(t, v, snsDelivery(body), verification.ReasonSignatureMissing)
	}
}

// The certificate comes from an SNS host alone, and no other place is asked. One that is not valid yet or any more, or
// cannot be fetched, proves nothing.
func TestSNSCertificates(t *testing.T) {
	t.Parallel()
	p := snsPublisher()
	v := connectKeys(t, "aws-sns", p, map[string]string{"topic_arn": snsTopic})
	for _, evil := range []string{
		"http://sns.us-west-2.amazonaws.com/a.pem", "https://sns.us-west-2.amazonaws.com.evil.example/a.pem", "https://evil.example/a.pem",
		"https://s3.us-west-2.amazonaws.com/bucket/a.pem", "https://sns.us-west-2.amazonaws.com@evil.example/a.pem",
		"https://sns.us-west-2.amazonaws.com/a.pem?x", "https://sns.us-west-2.amazonaws.com/a.txt", "https://amazonaws.com/a.pem",
		"https://sns.a.b.amazonaws.com/a.pem", "https://sns..amazonaws.com/a.pem", "https://xsns.us-west-2.amazonaws.com/a.pem",
		"https://sns.us-west-2.amazonaws.com.cn.evil.example/a.pem", "",
	} {
		requireReason(t, v, snsDelivery(strings.Replace(snsSHA256, snsCertURL, evil, 1)),
			verification.ReasonSignatureMalformed)
	}
	require.Zero(t, p.asked.Load())
	other := strings.Replace(snsSHA256, snsCertURL, "https://sns.us-west-2.amazonaws.com/other.pem", 1)
	requireReason(t, v, snsDelivery(other), verification.ReasonKeysUnavailable)
	for _, at := range []time.Time{
		time.Date(2025, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(2046, 1, 1, 0, 0, 1, 0, time.UTC),
	} {
		r := snsDelivery(snsSHA256)
		r.Now = at
		requireReason(t, v, r, verification.ReasonSignatureMismatch)
	}
}

// A message that AWS signed for another topic is refused, the confirmation of a subscription too: AWS's key proves the
// platform and not the account.
func TestSNSTopic(t *testing.T) {
	t.Parallel()
	for _, topic := range []string{"arn:aws:sns:us-west-2:123456789012:MyTopi", "arn:aws:sns:us-west-2:123456789012:MyTopic2",
		"arn:aws:sns:us-west-2:210987654321:MyTopic", "arn:aws:sns:us-east-1:123456789012:MyTopic"} {
		v := connectKeys(t, "aws-sns", snsPublisher(), map[string]string{"topic_arn": topic})
		for _, body := range []string{snsSHA1, snsSHA256, snsConfirm} {
			requireReason(t, v, snsDelivery(body), verification.ReasonAccountMismatch)
		}
	}
}

// Type, id and time of a message are signed, and a confirmation is a control message.
func TestSNSEvents(t *testing.T) {
	t.Parallel()
	v := connectKeys(t, "aws-sns", snsPublisher(), map[string]string{"topic_arn": snsTopic})
	requireDescribed(t, v, snsDelivery(snsSHA1), verification.Event{Type: "Notification", TypeSigned: true,
		ID: "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324", IDSigned: true, OccurredAt: time.Date(2026, 3, 4, 5, 6, 7, 123_000_000, time.UTC)})
	event := describe(t, v, snsDelivery(snsConfirm))
	require.True(t, event.Control)
	require.Equal(t, "SubscriptionConfirmation", event.Type)
	require.Empty(t, v.HandshakeMethods())
}
