package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The signatures were made by Signature.getSignature("POST", "v3", {clientSecret, requestBody, url, timestamp:
// 1564113605123}) of the npm package @hubspot/api-client 13.5.0; secret and body are those of its own tests. The second
// is for the URL with the decoded query, because the library leaves decoding to its caller.
const (
	hubspotSecret         = "yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy"
	hubspotSignature      = "XLgNqrmbdl15Z6sMGeckey3qRiEc60gp7daYM6axiss="
	hubspotQuerySignature = "fRI54NyauyrRoP+lOI89nlVQYzk6J0D5vGg/9CmHsSQ="
	hubspotDecodedQuery   = "a=b:c/d?@!$'()*,;%20%26"
	hubspotBody           = `[{"eventId":1,"subscriptionId":12345,"portalId":62515,"occurredAt":1564113600000,"subscriptionType":"contact.creation",` +
		`"attemptNumber":0,"objectId":123,"changeSource":"CRM","changeFlag":"NEW","appId":54321}]`
)

func hubspotDelivery(query, signature string) *verification.Request {
	r := deliver(time.UnixMilli(1564113605123), hubspotBody, "X-HubSpot-Signature-v3", signature,
		"X-HubSpot-Request-Timestamp", "1564113605123", "X-HubSpot-Signature",
		"232db2615f3d666fe21a8ec971ac7b5402d33b9a925784df3ca654d05f4817de", "X-HubSpot-Signature-Version", "v1")
	return atURL(r, "https://www.example.com", "/webhook_uri", query)
}

// Only a webhook that HubSpot's library signed verifies, for five minutes, at the URL that HubSpot called.
func TestHubSpotVector(t *testing.T) {
	t.Parallel()
	v := vector{
		slug: "hubspot", secret: hubspotSecret, request: hubspotDelivery("", hubspotSignature),
		at: "header:X-HubSpot-Signature-v3", text: hubspotSignature, encoding: "base64",
		signed:  []string{"method", "base", "path", "body", "header:X-HubSpot-Request-Timestamp"},
		outside: []string{"header:X-HubSpot-Signature"}, timestamp: "header:X-HubSpot-Request-Timestamp",
		maxAge: 5 * time.Minute,
	}
	v.check(t)
	v.request, v.text = hubspotDelivery(hubspotDecodedQuery, hubspotQuerySignature), hubspotQuerySignature
	v.signed = append(v.signed, "query")
	v.check(t)
}

// A query that the client escaped is decoded as HubSpot documents it, and no further.
func TestHubSpotDecodes(t *testing.T) {
	t.Parallel()
	v := connect(t, "hubspot", nil, hubspotSecret)
	requireProved(t, v, hubspotDelivery("a=b%3Ac%2Fd%3F%40%21%24%27%28%29%2A%2C%3B%20%26", hubspotQuerySignature), "hmac",
		"0")
	requireReason(t, v, hubspotDelivery("a=b%3Ac%2Fd%3F%40%21%24%27%28%29%2A%2C%3B &", hubspotQuerySignature),
		verification.ReasonSignatureMismatch)
	requireReason(t, v, hubspotDelivery("a=1", hubspotSignature), verification.ReasonSignatureMismatch)
	old := hubspotDelivery("", hubspotSignature)
	old.Header.Del("X-HubSpot-Signature-v3")
	requireReason(t, v, old, verification.ReasonSignatureMissing)
	require.Equal(t, []string{"x-hubspot-signature", "x-hubspot-signature-v3"}, v.RedactHeaders())
}

// A delivery has the types of its events, and an id that stays when HubSpot resends it and differs as soon as one event
// does.
func TestHubSpotEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "hubspot", nil, hubspotSecret)
	describe := func(body string) verification.Event { return describe(t, v, deliver(time.Time{}, body)) }
	one := describe(hubspotBody)
	require.Equal(t, "contact.creation", one.Type)
	require.Equal(t, time.UnixMilli(1564113600000).UTC(), one.OccurredAt)
	require.True(t, one.TypeSigned && one.IDSigned)
	const first, second = `{"eventId":1,"subscriptionId":2,"portalId":3,"occurredAt":4,"subscriptionType":"contact.creation","attemptNumber":0}`,
		`{"eventId":1,"subscriptionId":2,"portalId":3,"occurredAt":5,"subscriptionType":"deal.propertyChange","attemptNumber":0}`
	both := describe("[" + first + "," + second + "]")
	require.Equal(t, []string{"contact.creation", "deal.propertyChange"}, both.Types)
	repeated := describe(`[{"attemptNumber":1,` + first[1:len(first)-19] + `},` + second + `]`)
	require.Equal(t, both.ID, repeated.ID)
	for _, other := range []string{"[" + first + "]", "[" + second + "]", "[" + second + "," + first + "]", "[" + first +
		"," + first + "]"} {
		require.NotEqual(t, both.ID, describe(other).ID)
	}
	require.Empty(t, describe(`[{"eventId":1,"subscriptionId":2,"portalId":3}]`).ID)
}
