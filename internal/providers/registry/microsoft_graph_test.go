package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/verification"
)

// graphNotification is the change notification in Microsoft's documentation, "Receive change notifications through
// webhooks".
const graphNotification = `{
  "value": [
    {
      "id": "lsgTZMr9KwAAA",
      "subscriptionId":"{subscription_guid}",
      "subscriptionExpirationDateTime":"2016-03-19T22:11:09.952Z",
      "clientState":"secretClientValue",
      "changeType":"created",
      "resource":"users/{user_guid}@{tenant_guid}/messages/{long_id_string}",
      "tenantId": "84bd8158-6d4d-4958-8b9f-9d6445542f95",
      "resourceData":
      {
        "@odata.type":"#Microsoft.Graph.Message",
        "@odata.id":"Users/{user_guid}@{tenant_guid}/Messages/{long_id_string}",
        "@odata.etag":"W/\"CQAAABYAAADkrWGo7bouTKlsgTZMr9KwAAAUWRHf\"",
        "id":"{long_id_string}"
      }
    }
  ]
}
`

// The change notification in Microsoft's documentation verifies by its clientState, and is stored without it.
func TestMicrosoftGraphVector(t *testing.T) {
	t.Parallel()
	r := deliver(time.Unix(1772600767, 0), graphNotification)
	vector{
		slug: "microsoft-graph", secret: "secretClientValue", scheme: "token", request: r,
		at: "json:/value/0/clientState", text: "secretClientValue", outside: []string{"json:/value/0/changeType",
			"json:/value/0/tenantId"},
	}.check(t)
	v := connect(t, "microsoft-graph", nil, "secretClientValue")
	require.Equal(t, verification.Event{Type: "Microsoft.Graph.Message.created",
		Types: []string{"Microsoft.Graph.Message.created"}}, describe(t, v, r))
	require.Equal(t, strings.Replace(graphNotification, "secretClientValue", "[redacted]", 1), string(v.RedactBody(r)))
	require.Equal(t, 202, v.Ack().Status)
	require.Empty(t, v.Ack().Body)
}

// The definition microsoft, which has requests to Microsoft Graph as well, receives the same webhooks.
func TestMicrosoftHasTheSameWebhooks(t *testing.T) {
	t.Parallel()
	loaded, err := registry.Builtin()
	require.NoError(t, err)
	both, ok := loaded.Get("microsoft")
	require.True(t, ok)
	old, ok := loaded.Get("microsoft-graph")
	require.True(t, ok)
	require.Equal(t, old.Definition.Webhooks, both.Definition.Webhooks)
	require.Equal(t, old.Definition.Evidence, both.Definition.Evidence)
	require.NotNil(t, both.Outbound)
	require.Nil(t, old.Outbound)
}

// Every notification of a delivery has to carry the secret, regardless of the others, and during a rotation it
// may carry the older or the newer.
func TestMicrosoftGraphBatch(t *testing.T) {
	t.Parallel()
	const one, two = "the first secret value", "the second secret value"
	v := connect(t, "microsoft-graph", nil, one, two)
	send := func(items ...string) *verification.Request {
		return deliver(time.Time{}, `{"value":[`+strings.Join(items, ",")+`],"validationTokens":["eyJ0eXAi.a.b"]}`)
	}
	item := func(state, rest string) string { return `{"clientState":"` + state + `"` + rest + `}` }
	good := send(item(one, `,"changeType":"updated"`), item(two, `,"lifecycleEvent":"missed","changeType":"updated"`),
		item(one, `,"changeType":"updated","resourceData":{"@odata.type":"#Microsoft.Graph.chatMessage"}`))
	requireProved(t, v, good, "token", "0")
	require.Equal(t, []string{"updated", "lifecycle.missed", "Microsoft.Graph.chatMessage.updated"},
		describe(t, v, good).Types)
	stored := string(v.RedactBody(good))
	for _, secret := range []string{one, two, "eyJ0eXAi"} {
		require.NotContains(t, stored, secret)
	}
	for _, r := range []*verification.Request{
		send(item(one, ""), item("another", "")), send(item("another", ""), item(one, "")), send(item(one, ""), `{}`),
		send(item(one, ""), `{"clientState":""}`), send(item(one, ""), `{"clientState":["`+one+`"]}`),
		send(item(one, ""), `7`), send(`{"clientState":"x","clientState":"` + one + `x"}`),
	} {
		requireReason(t, v, r, verification.ReasonSignatureMismatch)
	}
	for _, r := range []*verification.Request{
		send(), send(`{}`), deliver(time.Time{}, `{"value":{"clientState":"`+one+`"}}`), deliver(time.Time{},
			`{"clientState":"`+one+`"}`), deliver(time.Time{}, ``),
	} {
		requireReason(t, v, r, verification.ReasonSignatureMissing)
	}
}

// The validation token comes back decoded, as plain text that no browser runs, and with it no notification is
// stored.
func TestMicrosoftGraphHandshake(t *testing.T) {
	t.Parallel()
	v := connect(t, "microsoft-graph", nil)
	require.Equal(t, []string{"POST"}, v.HandshakeMethods())
	const plain = "text/plain; charset=utf-8"
	requireHandshakeText(t, v, at(deliver(time.Time{}, ""), "POST",
		"a=b&validationToken=Validation%3A+Testing+client+application%20reachability"), 200, plain,
		"Validation: Testing client application reachability")
	requireHandshakeText(t, v, at(deliver(time.Time{}, graphNotification), "POST", "validationToken=%3Cscript%3E"), 200, plain,
		"<script>")
	for _, query := range []string{"", "validationToken=", "validationtoken=a", "validationToken=a&validationToken=b",
		"validationToken=%zz"} {
		requireNoHandshake(t, v, at(deliver(time.Time{}, graphNotification), "POST", query))
	}
	requireNoHandshake(t, v, at(deliver(time.Time{}, ""), "GET", "validationToken=a"))
	requireHandshakeRefused(t, v, at(deliver(time.Time{}, ""), "POST", "validationToken="+strings.Repeat("a", 1025)),
		verification.ReasonHandshakeMalformed)
}
