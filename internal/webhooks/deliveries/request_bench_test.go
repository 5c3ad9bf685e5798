package deliveries

import (
	"strings"
	"testing"

	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// BenchmarkRequest measures what an attempt computes before it is sent: the envelope around a body of 1 KiB, the
// headers, and their record.
func BenchmarkRequest(b *testing.B) {
	e, d, target := forwarded()
	p := &events.Payload{Body: []byte(`{"text":"` + strings.Repeat("x", 1012) + `"}`), Encoding: events.JSON}
	b.ReportAllocs()
	for b.Loop() {
		body, contentType, err := buildBody(subscriptions.Envelope, e, p)
		if err != nil {
			b.Fatal(err)
		}
		h := buildHeaders(target, d, e, contentType, body, testTime())
		if storedRequestHeaders(h, target.Headers) == "" {
			b.Fatal("no record")
		}
	}
}
