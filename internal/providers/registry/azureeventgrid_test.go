package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

const (
	eventGridSecret = "mF9B5f41JqMwT0kQ7xZr2LdN8sVhYc3e"
	// eventGridValidation is the example of Azure's documentation, "Endpoint validation with Event Grid event schema".
	eventGridValidation = `[{"id":"2d1781af-3a4c-4d7c-bd0c-e34b19da4e66","topic":"/subscriptions/xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx","subject":"",` +
		`"data":{"validationCode":"512d38b6-c7b8-40c8-89fe-f46f9e9622b6","validationUrl":"https://rp-eastus2.eventgrid.azure.net:553/` +
		`eventsubscriptions/myeventsub/validate?id=0000000000-0000-0000-0000-00000000000000"},"eventType":` +
		`"Microsoft.EventGrid.SubscriptionValidationEvent","eventTime":"2022-10-28T04:23:35.1981776Z","metadataVersion":"1","dataVersion":"1"}]`
	eventGridEvents = `[{"id":"831e1650-001e-001b-66ab-eeb76e069631","topic":"/subscriptions/sub/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/a",` +
		`"subject":"/blobServices/default/containers/c/blobs/b","eventType":"Microsoft.Storage.BlobCreated","eventTime":"2026-03-04T05:06:07Z",` +
		`"data":{"api":"PutBlob"},"dataVersion":"","metadataVersion":"1"}]`
)

func eventGridRequest(body, query string, pairs ...string) *verification.Request {
	return at(deliver(time.Unix(1772600767, 0), body, pairs...), "POST", query)
}

// A delivery is accepted by the secret that the event subscription has in the query of its endpoint, and by nothing
// else.
func TestAzureEventGrid(t *testing.T) {
	t.Parallel()
	r := eventGridRequest(eventGridEvents, "token="+eventGridSecret+"&a=b", "Aeg-Event-Type", "Notification")
	vector{
		slug: "azure-event-grid", secret: eventGridSecret, scheme: "token", request: r, at: "query:token", text: eventGridSecret,
		outside: []string{"body", "header:Aeg-Event-Type"}, bodyDecides: true,
	}.check(t)
	v := connect(t, "azure-event-grid", nil, eventGridSecret)
	for query, want := range map[string]verification.Reason{
		"":                         verification.ReasonSignatureMissing,
		"Token=" + eventGridSecret: verification.ReasonSignatureMissing,
		"token=" + eventGridSecret + "&token=" + eventGridSecret: verification.ReasonSignatureMalformed,
	} {
		requireReason(t, v, eventGridRequest(eventGridEvents, query, "Authorization", "Bearer "+eventGridSecret), want)
	}
	require.Equal(t, []string{"token"}, v.SecretParameters())
}

// The validation of the endpoint gets the code of Azure's example back, if it comes with the secret: a stranger's
// event subscription cannot be validated.
func TestAzureEventGridHandshake(t *testing.T) {
	t.Parallel()
	v := connect(t, "azure-event-grid", nil, eventGridSecret)
	validation := func(query string) *verification.Request {
		return eventGridRequest(eventGridValidation, query, "Aeg-Event-Type", "SubscriptionValidation")
	}
	requireHandshakeText(t, v, validation("token="+eventGridSecret), 200, "application/json",
		`{"validationResponse":"512d38b6-c7b8-40c8-89fe-f46f9e9622b6"}`)
	requireHandshakeRefused(t, v, validation(""), verification.ReasonSignatureMissing)
	requireHandshakeRefused(t, v, validation("token=x"+eventGridSecret[1:]), verification.ReasonSignatureMismatch)
	requireNoHandshake(t, v, eventGridRequest(eventGridEvents, "token="+eventGridSecret, "Aeg-Event-Type", "Notification"))
	requireHandshakeRefused(t, v, eventGridRequest(eventGridEvents, "token="+eventGridSecret, "Aeg-Event-Type",
		"SubscriptionValidation"), verification.ReasonHandshakeMalformed)
	escaped := eventGridRequest(strings.Replace(eventGridValidation, "512d38b6", `\"},{\"x\":\"`, 1), "token="+eventGridSecret,
		"Aeg-Event-Type", "SubscriptionValidation")
	requireHandshakeText(t, v, escaped, 200, "application/json",
		`{"validationResponse":"\"},{\"x\":\"-c7b8-40c8-89fe-f46f9e9622b6"}`)

	options := func(query string) *verification.Request {
		return at(deliver(time.Unix(1772600767, 0), "", "WebHook-Request-Origin", "eventgrid.azure.net"), "OPTIONS", query)
	}
	answer := requireHandshakeText(t, v, options("token="+eventGridSecret), 200, "", "")
	require.Equal(t, "eventgrid.azure.net", answer.Header.Get("WebHook-Allowed-Origin"))
	requireHandshakeRefused(t, v, options(""), verification.ReasonSignatureMissing)
	require.Equal(t, []string{"OPTIONS", "POST"}, v.HandshakeMethods())
}

// Events have the type and the id that each of the two schemas names, alone and in batches.
func TestAzureEventGridEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "azure-event-grid", nil, eventGridSecret)
	event := describe(t, v, eventGridRequest(eventGridEvents, ""))
	require.Equal(t, []string{"Microsoft.Storage.BlobCreated"}, event.Types)
	require.Len(t, event.ID, 64)
	require.False(t, event.TypeSigned || event.IDSigned)
	other := strings.Replace(eventGridEvents, "831e1650", "931e1650", 1)
	require.NotEqual(t, event.ID, describe(t, v, eventGridRequest(other, "")).ID)
	cloud := `{"specversion":"1.0","id":"831e1650","source":"/subscriptions/sub","type":"Microsoft.Storage.BlobCreated","time":"2026-03-04T05:06:07Z","data":{}}`
	requireDescribed(t, v, eventGridRequest(cloud, ""), verification.Event{Type: "Microsoft.Storage.BlobCreated",
		ID: "/subscriptions/sub 831e1650", OccurredAt: time.Unix(1772600767, 0).UTC()})
	require.Equal(t, []string{"Microsoft.Storage.BlobCreated"}, describe(t, v, eventGridRequest("["+cloud+"]", "")).Types)
}
