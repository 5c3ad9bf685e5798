package registry_test

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A delivery that PayPal's Python package accepted with the certificate of these tests (paypalrestsdk 1.13.3,
// WebhookEvent._get_expected_sig and WebhookEvent._verify_signature).
const (
	paypalCertURL   = "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-360caa42-35c2ed1e-21e9a5d6"
	paypalWebhookID = "1JE4291016473214C"
	paypalID        = "69cd13f0-d67a-11e5-baa3-778b53f4ae55"
	paypalTime      = "2026-03-04T05:06:07Z"
	paypalSignature = "rSKDLVKo7JegeZL515u2KkZItxHyQilTdfcQVwJPuFyfCFHx88EdVTEB9KbU9Go+JFUyolp5EFNp6qWDEx4vP5ewvVw9wQogSLRQk8ECGliKc6Zc" +
		"xEwiWLAeEcAgu+EIXp5lRgfxj58a2D3ghK0rb8z8OReX7weZ5ETHeBpoCsS3EQQ7puGyFEmNZ9FmRB9kV9lA2JiuJSJipIaHfNCrywPDcYLZnwwF" +
		"8BNbmaCMD4tqJyV4J/kqT/RWSvwHrnLkZ1j6+HGErywX+lHhgTFJNfVV1NQhtFFJUlP/5/vyoJ2DyuJ20SQiNQF7d8RPUSp3lwjFx+j9oU+BGILI" +
		"DgmMWw=="
	paypalBody = `{"id":"WH-2WR32451HC0233532-67976317FL4543714","event_version":"1.0","create_time":"2026-03-04T05:06:06.123Z","resource_type":"sale","event_type":"PAYMENT.SALE.COMPLETED","summary":"A successful sale payment was made for $ 0.48 USD","resource":{"id":"80021663DE681814L","state":"completed","amount":{"total":"0.48","currency":"USD"}},"links":[]}`
)

func paypalDelivery() *verification.Request {
	return deliver(time.Unix(1772600767, 0), paypalBody, "Paypal-Auth-Algo", "SHA256withRSA", "Paypal-Cert-Url", paypalCertURL,
		"Paypal-Transmission-Id", paypalID, "Paypal-Transmission-Sig", paypalSignature, "Paypal-Transmission-Time", paypalTime)
}

func paypalPublisher() *publisher {
	return &publisher{keys: map[string]string{paypalCertURL: sampleCertificate}}
}

// The delivery is accepted for its webhook with the certificate that it names. Id, time, webhook and the checksum of
// the body are signed, so that no byte of the body can change alone.
func TestPayPalVector(t *testing.T) {
	t.Parallel()
	params := map[string]string{"webhook_id": paypalWebhookID}
	p := paypalPublisher()
	v := connectKeys(t, "paypal", p, params)
	requireProved(t, v, paypalDelivery(), "asymmetric", paypalCertURL)
	for i := range paypalBody {
		r := paypalDelivery()
		r.Body[i] ^= 1
		requireReason(t, v, r, verification.ReasonSignatureMismatch)
	}
	for name, changes := range map[string]map[string]verification.Reason{
		"Paypal-Transmission-Id": {paypalID[:35] + "6": verification.ReasonSignatureMismatch, "": verification.ReasonHeaderMissing,
			paypalID + "|" + paypalTime: verification.ReasonHeaderMalformed},
		"Paypal-Transmission-Time": {"2026-03-04T05:06:08Z": verification.ReasonSignatureMismatch, "": verification.ReasonTimestampMissing,
			"yesterday": verification.ReasonTimestampMalformed},
		"Paypal-Transmission-Sig": {"A" + paypalSignature[1:]: verification.ReasonSignatureMismatch, "": verification.ReasonSignatureMissing,
			"*": verification.ReasonSignatureMalformed},
	} {
		for value, want := range changes {
			r := paypalDelivery()
			r.Header.Set(name, value)
			requireReason(t, v, r, want)
		}
		r := paypalDelivery()
		r.Header.Add(name, r.Header.Get(name))
		_, refusal := v.Verify(t.Context(), r)
		require.NotNil(t, refusal, "accepted with %s twice", name)
	}
	require.Equal(t, int64(1), p.asked.Load())
	requireParams(t, "paypal", params)
	requireReason(t, connectKeys(t, "paypal", paypalPublisher(), map[string]string{"webhook_id": "1JE4291016473214D"}),
		paypalDelivery(), verification.ReasonSignatureMismatch)
}

// The certificate comes from the folder of certificates of PayPal's API, and no other place is asked.
func TestPayPalCertificates(t *testing.T) {
	t.Parallel()
	p := paypalPublisher()
	v := connectKeys(t, "paypal", p, map[string]string{"webhook_id": paypalWebhookID})
	for _, evil := range []string{
		strings.Replace(paypalCertURL, "https:", "http:", 1), strings.Replace(paypalCertURL, "api.", "www.", 1),
		strings.Replace(paypalCertURL, ".com/", ".com.evil.example/", 1), strings.Replace(paypalCertURL, ".com/", ".com@evil.example/", 1),
		strings.Replace(paypalCertURL, "api.", "evil-api.", 1), strings.Replace(paypalCertURL, "certs/", "other/", 1),
		strings.Replace(paypalCertURL, "certs/", "certs/../../", 1), paypalCertURL + "?x=1", paypalCertURL + "#x",
		"https://api.paypal.com/v1/notifications/certs/", "https://evil.example/v1/notifications/certs/CERT-1", "",
	} {
		r := paypalDelivery()
		r.Header.Set("Paypal-Cert-Url", evil)
		requireReason(t, v, r, verification.ReasonSignatureMalformed)
	}
	require.Zero(t, p.asked.Load())
	for _, host := range []string{"api.paypal.com", "api-m.paypal.com", "api-m.sandbox.paypal.com"} {
		other := strings.Replace(paypalCertURL, "api.sandbox.paypal.com", host, 1)
		live := connectKeys(t, "paypal", &publisher{keys: map[string]string{other: sampleCertificate}}, map[string]string{"webhook_id": paypalWebhookID})
		r := paypalDelivery()
		r.Header.Set("Paypal-Cert-Url", other)
		requireProved(t, live, r, "asymmetric", other)
		requireReason(t, v, r, verification.ReasonKeysUnavailable)
	}
}

// withChecksum returns a text with four bytes behind it that give it a CRC-32.
func withChecksum(text []byte, want uint32) []byte {
	// The register is run backwards over the four bytes, from what it must be at the end.
	register := ^want
	for range 4 {
		for i, entry := range crc32.IEEETable {
			if entry>>24 == register>>24 {
				register = (register^entry)<<8 | uint32(i)
				break
			}
		}
	}
	return binary.LittleEndian.AppendUint32(text, register^^crc32.ChecksumIEEE(text))
}

// Another body with the same checksum is accepted, because PayPal signs no more. Its id is that of the transmission,
// which is signed, so that it is a duplicate; nothing else counts as signed.
func TestPayPalEvents(t *testing.T) {
	t.Parallel()
	v := connectKeys(t, "paypal", paypalPublisher(), map[string]string{"webhook_id": paypalWebhookID})
	requireDescribed(t, v, paypalDelivery(), verification.Event{Type: "PAYMENT.SALE.COMPLETED", ID: paypalID, IDSigned: true,
		OccurredAt: time.Date(2026, 3, 4, 5, 6, 6, 123_000_000, time.UTC)})
	forged := paypalDelivery()
	forged.Body = withChecksum([]byte(`{"event_type":"PAYMENT.SALE.REFUNDED"}`), crc32.ChecksumIEEE([]byte(paypalBody)))
	requireProved(t, v, forged, "asymmetric", paypalCertURL)
	require.Equal(t, paypalID, describe(t, v, forged).ID)
	require.False(t, describe(t, v, forged).TypeSigned)
}
