package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The key and the payment of the tests of Adyen's npm package, with the signature that it makes and that those tests
// expect (@adyen/api-library 32.1.0, HmacValidator.calculateHmac).
const (
	adyenKey       = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
	adyenOtherKey  = "54782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
	adyenSignature = "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="
	adyenItem      = `{"NotificationRequestItem":{"additionalData":{"hmacSignature":"coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="},` +
		`"amount":{"currency":"EUR","value":1130},"eventCode":"AUTHORISATION","eventDate":"2026-03-04T05:06:07+01:00",` +
		`"merchantAccountCode":"TestMerchant","merchantReference":"TestPayment-1407325143704","originalReference":"",` +
		`"pspReference":"7914073381342284","reason":"033899:1111:03/2030","success":"true"}}`
)

func adyenBody(items ...string) string {
	return `{"live":"false","notificationItems":[` + strings.Join(items, ",") + `]}`
}

// A standard webhook is accepted by the signature of each of its items, which covers eight fields and no others.
func TestAdyenVector(t *testing.T) {
	t.Parallel()
	const item = "json:/notificationItems/0/NotificationRequestItem/"
	r := deliver(time.Unix(1772600767, 0), adyenBody(adyenItem))
	v := vector{
		slug: "adyen", secret: adyenKey, otherSecret: adyenOtherKey, request: r, at: item + "additionalData/hmacSignature",
		text: adyenSignature, encoding: "base64", bodyDecides: true,
		signed: []string{item + "pspReference", item + "merchantAccountCode", item + "merchantReference", item + "amount/value",
			item + "amount/currency", item + "eventCode", item + "success"},
		outside: []string{item + "reason", item + "eventDate"},
	}
	one := v.connect(t, adyenKey)
	requireProved(t, one, r, "hmac", "0")
	requireProved(t, v.connect(t, adyenOtherKey, adyenKey), r, "hmac", "1")
	requireReason(t, v.connect(t), r, verification.ReasonSecretMissing)
	requireReason(t, v.connect(t, adyenOtherKey), r, verification.ReasonSignatureMismatch)
	for _, part := range v.signed {
		for _, changed := range v.changes(t, part) {
			_, refusal := one.Verify(t.Context(), changed)
			require.NotNil(t, refusal, "accepted with another %s", part)
		}
	}
	v.scheme = "hmac"
	for _, part := range v.outside {
		for _, changed := range v.changes(t, part) {
			requireProved(t, one, changed, "hmac", "0")
		}
	}
	for old, replacement := range map[string]string{
		`"originalReference":""`:                        `"originalReference":"x"`,
		`"success":"true"`:                              `"success":"true","success":"false"`,
		adyenSignature:                                  "",
		`{"hmacSignature":"` + adyenSignature + `"}`:    "{}",
		`"additionalData":`:                             `"other":`,
		`"hmacSignature":"` + adyenSignature[:43] + `=`: `"hmacSignature":"` + adyenSignature[:43],
	} {
		body := strings.Replace(adyenBody(adyenItem), old, replacement, 1)
		_, refusal := one.Verify(t.Context(), deliver(r.Now, body))
		require.NotNil(t, refusal, "%s", body)
	}
}

// One item that is not signed, or not as it stands, is enough to reject a webhook; so is one without items, and a
// value whose end is uncertain.
func TestAdyenItems(t *testing.T) {
	t.Parallel()
	v := connect(t, "adyen", nil, adyenKey)
	at := time.Unix(1772600767, 0)
	both := deliver(at, adyenBody(adyenItem, adyenItem))
	requireProved(t, v, both, "hmac", "0")
	for _, body := range []string{
		adyenBody(), `{"live":"false"}`, `{}`, `[]`, ``, adyenBody(adyenItem, `{}`), adyenBody(`{}`, adyenItem),
		adyenBody(adyenItem, strings.Replace(adyenItem, "1130", "1131", 1)),
		adyenBody(strings.Replace(adyenItem, "AUTHORISATION", "CAPTURE", 1), adyenItem),
		// TestMerchant:TestPayment-… : … moved over the colon.
		adyenBody(strings.Replace(strings.Replace(adyenItem, `"TestMerchant"`, `"TestMerchant:TestPayment-1407325143704"`, 1),
			`"TestPayment-1407325143704"`, `"1130"`, 1)),
	} {
		_, refusal := v.Verify(t.Context(), deliver(at, body))
		require.NotNil(t, refusal, "%s", body)
	}
	event := describe(t, v, both)
	require.Equal(t, []string{"AUTHORISATION"}, event.Types)
	require.Len(t, event.ID, 64)
	require.False(t, event.TypeSigned || event.IDSigned, "the signature of one kind of webhooks does not cover the body")
	require.NotEqual(t, event.ID, describe(t, v, deliver(at, adyenBody(adyenItem))).ID)
	require.NotEqual(t, describe(t, v, deliver(at, adyenBody(strings.Replace(adyenItem, `"true"`, `"false"`, 1)))).ID,
		describe(t, v, deliver(at, adyenBody(adyenItem))).ID)
}

// The webhooks of Adyen's platforms are signed as a whole in a header; the signature is that of Adyen's package for
// this body (@adyen/api-library 32.1.0, HmacValidator.calculateHmac, accepted by validateHMACSignature).
func TestAdyenPlatformVector(t *testing.T) {
	t.Parallel()
	const (
		signature = "xlQ2McdCfZ9KbiTlPqC8LSdfiEW/o35c01pa0L00OIg="
		body      = `{"data":{"balancePlatform":"Integration_tools_test","accountId":"BA32272223222H5HVKTBK4MLB","sweep":` +
			`{"id":"SWPC42272223222H5HVKV6H8C64DP5"}},"environment":"test","type":"balancePlatform.balanceAccountSweep.updated"}`
	)
	r := deliver(time.Unix(1772600767, 0), body, "HmacSignature", signature, "Protocol", "HmacSHA256")
	v := connect(t, "adyen", nil, adyenKey)
	requireProved(t, v, r, "hmac", "0")
	requireProved(t, connect(t, "adyen", nil, adyenOtherKey, adyenKey), r, "hmac", "1")
	requireReason(t, connect(t, "adyen", nil, adyenOtherKey), r, verification.ReasonSignatureMismatch)
	for i := range body {
		changed := cloneRequest(r)
		changed.Body[i] ^= 1
		requireReason(t, v, changed, verification.ReasonSignatureMismatch)
	}
	for text, want := range map[string]verification.Reason{
		// Neither a readable signature of the body nor items with signatures.
		"":                  verification.ReasonBodyMalformed,
		signature[:43]:      verification.ReasonBodyMalformed,
		signature + "0":     verification.ReasonBodyMalformed,
		"0" + signature[1:]: verification.ReasonSignatureMismatch,
	} {
		requireReason(t, v, deliver(r.Now, body, "HmacSignature", text), want)
	}
	// The signature of an item is none of a whole body.
	requireReason(t, v, deliver(r.Now, body, "HmacSignature", adyenSignature), verification.ReasonSignatureMismatch)
	require.Equal(t, "balancePlatform.balanceAccountSweep.updated", describe(t, v, r).Type)
	require.Equal(t, []string{"hmacsignature"}, v.RedactHeaders())
}
