package registry_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/verification"
)

// For any request, no shipped definition accepts a stranger's webhook, panics, or describes it as something that cannot
// be stored, and no response to a handshake signs it.
func FuzzDefinitions(f *testing.F) {
	loaded, err := registry.Builtin()
	if err != nil {
		f.Fatal(err)
	}
	verifiers := map[string]*verification.Verifier{}
	for _, p := range loaded.List() {
		if p.Webhooks == nil || p.Definition.Webhooks.Scheme == "none" {
			continue
		}
		settings := exampleSettings(p)
		v, err := p.Webhooks.Bind(settings)
		if err == nil && v.NeedsSecret() {
			settings.Secrets = []verification.Secret{{ID: "0", Value: secretbox.Secret(exampleSecret(p))}}
			v, err = p.Webhooks.Bind(settings)
		}
		if err != nil {
			f.Fatal(p.Definition.Slug, err)
		}
		verifiers[p.Definition.Slug] = v
	}
	f.Add("POST", "", "Stripe-Signature: t=1686089971,v1="+stripeSignature, stripePayload)
	f.Add("POST", "", "X-Slack-Signature: v0="+slackSignature+"\nX-Slack-Request-Timestamp: 1531420618", slackCommand)
	f.Add("POST", twilioJSONQuery, "X-Twilio-Signature: "+twilioJSONSignature, twilioJSON)
	f.Add("POST", "", "Content-Type: application/x-www-form-urlencoded\nX-Twilio-Signature: "+twilioSignature,
		mailgunRoute)
	f.Add("POST", "", "X-Hub-Signature-256: sha256="+metaSignature, metaBody)
	f.Add("POST", "", sendgridSignatureHeader+": "+sendgridSignature+"\n"+sendgridTimestampHeader+": 1600112502",
		sendgridBody)
	f.Add("GET", "crc_token="+xChallenge+"&challenge=a&hub.mode=subscribe", "", "")
	f.Add("POST", "", "X-Zm-Signature: v0="+zoomValidationSignature+"\nX-Zm-Request-Timestamp: 1772600767", zoomValidation)
	f.Fuzz(func(t *testing.T, method, query, headers, body string) {
		h := http.Header{}
		for line := range strings.Lines(headers) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			h.Add(name, value)
		}
		for slug, v := range verifiers {
			r := atURL(&verification.Request{Method: method, Header: h, Body: []byte(body), Now: time.Unix(1772600767, 0)},
				"https://gateway.example", "/hook", query)
			_ = v.Precheck(r.Header)
			_, refusal := v.Verify(t.Context(), r)
			if refusal == nil {
				t.Fatalf("%s accepted what its secret did not sign", slug)
			}
			_ = v.Diagnose(t.Context(), r, refusal)
			event := describe(t, v, r)
			if event.Type == "" || len(event.Type) > 256 || strings.ContainsAny(event.Type, " \x00\n") || len(event.ID) > 512 {
				t.Fatalf("%s describes what cannot be stored: %+v", slug, event)
			}
			if redacted := v.RedactBody(r); string(r.Body) != body || len(body) == 0 && len(redacted) > 0 {
				t.Fatalf("%s changed the body", slug)
			}
			answer, _ := v.Handshake(t.Context(), r)
			if answer == nil {
				continue
			}
			for _, signature := range handshakeTexts(answer) {
				for _, wanted := range wantedBodies(query, body) {
					forged := cloneRequest(r)
					forged.Method, forged.Body = http.MethodPost, []byte(wanted)
					for _, name := range v.RedactHeaders() {
						forged.Header.Set(name, signature)
					}
					if _, refusal := v.Verify(t.Context(), forged); refusal == nil {
						t.Fatalf("%s accepted an event that the answer to a handshake signs", slug)
					}
				}
			}
		}
	})
}

// handshakeTexts returns the content of a response to a handshake, in the forms in which signatures appear.
func handshakeTexts(answer *verification.Response) (texts []string) {
	for _, text := range strings.FieldsFunc(string(answer.Body), func(c rune) bool {
		return strings.ContainsRune(`{}":,`, c)
	}) {
		texts = append(texts, text, "v0="+text, "sha256="+text)
	}
	return texts
}

// wantedBodies returns bodies that a stranger could have wished to be signed by the handshake.
func wantedBodies(query, body string) []string {
	bodies := []string{body, query}
	values, _ := url.ParseQuery(query) // what can be read of it is enough
	for _, list := range values {
		bodies = append(bodies, list...)
	}
	return append(bodies, strings.Split(body, `"`)...)
}
