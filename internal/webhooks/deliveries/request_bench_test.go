package deliveries

import (
	"strings"
	"testing"

	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// githubHeaders are those of a webhook of GitHub as an event stores them.
const githubHeaders = `{"accept":"*/*","content-length":"1024","content-type":"application/json",` +
	`"user-agent":"GitHub-Hookshot/044aadd","x-forwarded-for":"140.82.115.1","x-github-delivery":` +
	`"72d3162e-cc78-11e3-81ab-4c9367dc0958","x-github-event":"issues","x-github-hook-id":"292430182",` +
	`"x-github-hook-installation-target-id":"79929171","x-github-hook-installation-target-type":"repository",` +
	`"x-hub-signature":"[redacted]","x-hub-signature-256":"[redacted]"}`

// BenchmarkRequest measures what an attempt computes before it is sent, for each payload mode: the envelope around a
// body of 1 KiB, the headers, and their record.
func BenchmarkRequest(b *testing.B) {
	for _, mode := range []subscriptions.PayloadMode{subscriptions.Envelope, subscriptions.Raw} {
		b.Run(string(mode), func(b *testing.B) {
			e, d, target := forwarded()
			p := &events.Payload{Body: []byte(`{"text":"` + strings.Repeat("x", 1012) + `"}`), Encoding: events.JSON,
				Headers:    githubHeaders,
				Signatures: `{"x-hub-signature-256":"sha256=` + strings.Repeat("0123456789abcdef", 4) + `"}`}
			b.ReportAllocs()
			for b.Loop() {
				f, err := buildForm(mode, typeFor(target, e), e, p)
				if err != nil {
					b.Fatal(err)
				}
				h := buildHeaders(target, d, e, e.Type, &f, testTime())
				if storedRequestHeaders(h, target.Headers, f.headers) == "" {
					b.Fatal("no record")
				}
			}
		})
	}
}
