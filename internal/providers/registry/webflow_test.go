package registry_test

import (
	"testing"
	"time"

	"sallyport/internal/providers/verification"
)

// The webhook that webhooks.verifySignature of the npm package webflow-api 3.3.4 accepts, and refuses with another time
// in its header, and with a space behind its body.
const (
	webflowSecret    = "5f9c2a7d1e8b4c3fa6d0e1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6"
	webflowSignature = "820084a94548cdbe6feba2990ff5320f01522260a99c0c0c616ab2699768f590"
	webflowBody      = `{"triggerType":"form_submission","payload":{"name":"Contact Us","siteId":"65427cf400e02b306eaa049c",` +
		`"data":{"First Name":"Sample"},"submittedAt":"2022-09-14T12:35:16.117Z","id":"6321ca84df3949bfc6752327"}}`
)

// The webhook that Webflow's SDK accepts verifies for five minutes, and time and body are signed.
func TestWebflowVector(t *testing.T) {
	t.Parallel()
	r := deliver(time.UnixMilli(1772600767123), webflowBody, "x-webflow-timestamp", "1772600767123",
		"x-webflow-signature", webflowSignature)
	vector{
		slug: "webflow", secret: webflowSecret, request: r, at: "header:x-webflow-signature", text: webflowSignature,
		encoding: "hex", signed: []string{"body", "header:x-webflow-timestamp"}, timestamp: "header:x-webflow-timestamp",
		maxAge: 5 * time.Minute,
	}.check(t)
	requireDescribed(t, connect(t, "webflow", nil, webflowSecret), r, verification.Event{Type: "form_submission",
		TypeSigned: true})
}
