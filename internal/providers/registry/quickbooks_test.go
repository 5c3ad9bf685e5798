package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The webhooks that WebhooksService.verifyPayload of com.intuit.quickbooks-online:ipp-v3-java-devkit 6.4.2 accepts, and
// refuses with a space behind their bodies: an array of CloudEvents, and the format before it.
const (
	quickBooksToken     = "4a1b2c3d-5e6f-4a7b-8c9d-0e1f2a3b4c5d"
	quickBooksSignature = "uhGyeRI5/iJje52jVS1UgWpH6FCMmAR17mm5nUvz4bg="
	quickBooksBody      = `[{"specversion":"1.0","id":"88cd52aa-33b6-4351-9aa4-47572edbd068","source":"intuit.dsnBgbseACLLRZNxo2dfc4evmEJdxde58xeeYcZliOU=",` +
		`"type":"qbo.customer.created.v1","datacontenttype":"application/json","time":"2025-09-10T21:31:25.179Z","intuitentityid":"1234",` +
		`"intuitaccountid":"310687","data":{}},{"specversion":"1.0","id":"88cd52aa-33b6-4351-9aa4-47572edbd069",` +
		`"source":"intuit.dsnBgbseACLLRZNxo2dfc4evmEJdxde58xeeYcZliOU=","type":"qbo.invoice.deleted.v1","datacontenttype":"application/json",` +
		`"time":"2025-09-10T21:31:26.179Z","intuitentityid":"29","intuitaccountid":"310687","data":{}}]`
	quickBooksOlderSignature = "AgmrPoYTjSAzZMsY4UwDzl7kUOjQJHYUmclZDiNcCMk="
	quickBooksOlder          = `{"eventNotifications":[{"realmId":"1185883450","dataChangeEvent":{"entities":[{"name":"Customer","id":"1",` +
		`"operation":"Create","lastUpdated":"2015-10-05T14:42:19-0700"},{"name":"Vendor","id":"1","operation":"Create",` +
		`"lastUpdated":"2015-10-05T14:42:19-0700"}]}}]}`
)

// The webhooks that Intuit's SDK accepts verify in either format.
func TestQuickBooksVectors(t *testing.T) {
	t.Parallel()
	for body, signature := range map[string]string{quickBooksBody: quickBooksSignature,
		quickBooksOlder: quickBooksOlderSignature} {
		vector{
			slug: "quickbooks", secret: quickBooksToken, request: deliver(time.Unix(1772600767, 0), body, "intuit-signature",
				signature), at: "header:intuit-signature", text: signature, encoding: "base64", signed: []string{"body"},
		}.check(t)
	}
}

// Each event of a webhook has its type. CloudEvents have ids; the ids of the older format are those of the entities,
// which change more than once.
func TestQuickBooksEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "quickbooks", nil, quickBooksToken)
	event := describe(t, v, deliver(time.Time{}, quickBooksBody))
	require.NotEmpty(t, event.ID)
	requireDescribed(t, v, deliver(time.Time{}, quickBooksBody), verification.Event{Type: "qbo.customer.created.v1",
		TypeSigned: true, Types: []string{"qbo.customer.created.v1", "qbo.invoice.deleted.v1"}, ID: event.ID, IDSigned: true,
		OccurredAt: time.Date(2025, 9, 10, 21, 31, 25, 179_000_000, time.UTC)})
	other := strings.Replace(quickBooksBody, "47572edbd069", "47572edbd06a", 1)
	require.NotEqual(t, event.ID, describe(t, v, deliver(time.Time{}, other)).ID)
	requireDescribed(t, v, deliver(time.Time{}, quickBooksOlder), verification.Event{Type: "Customer.Create",
		TypeSigned: true, Types: []string{"Customer.Create", "Vendor.Create"}})
}
