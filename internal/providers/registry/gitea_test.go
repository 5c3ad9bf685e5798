package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A delivery that VerifyWebhookSignature of code.gitea.io/sdk/gitea v0.25.1 accepts, and refuses with one byte
// more, verifies here.
func TestGiteaVector(t *testing.T) {
	t.Parallel()
	const (
		secret    = "3gEsCfjlV2ugRwgpU#w1*WaW*wa4NXgGmpCfkbG3"
		signature = "4662013eee8a23e532c9e9f48a195416a508376562537c246249298a29e80ed6"
		body      = `{"ref":"refs/heads/main","before":"28e1879d029cb852e4844d9c718537df08844e03",` +
			`"after":"bffeb74224043ba2feb48d137756c8a9331c449a","repository":{"id":140,"full_name":"gitea/webhooks"}}`
	)
	r := deliver(time.Unix(1772600767, 0), body, "X-Gitea-Signature", signature, "X-Gitea-Event", "push",
		"X-Gitea-Delivery", "f6266f16-1bf3-46a5-9ea4-602e06ead473", "X-Hub-Signature-256", "sha256="+signature)
	vector{
		slug: "gitea", secret: secret, request: r, at: "header:X-Gitea-Signature", text: signature, encoding: "hex",
		signed: []string{"body"}, outside: []string{"header:X-Gitea-Event", "header:X-Gitea-Delivery",
			"header:X-Hub-Signature-256"},
	}.check(t)
	require.Equal(t, []string{"x-forgejo-signature", "x-gitea-signature", "x-gogs-signature", "x-hub-signature",
		"x-hub-signature-256"}, connect(t, "gitea", nil, secret).RedactHeaders())
}

// Gitea's events have the type that it names in its header, with the action where there is one, and its
// delivery id is known not to be signed. A form, whose signature covers something else, is refused.
func TestGiteaEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "gitea", nil, "the secret")
	for _, tt := range []struct{ event, body, want string }{
		{"push", `{"ref":"refs/heads/main"}`, "push"},
		{"issues", `{"action":"opened","issue":{"action":"x"}}`, "issues.opened"},
		{"pull_request", `{"action":"synchronized"}`, "pull_request.synchronized"},
		{"", `{"action":"opened"}`, "unknown"},
	} {
		r := deliver(time.Time{}, tt.body, "X-Gitea-Signature", hmacHex("the secret", tt.body), "X-Gitea-Event", tt.event,
			"X-Gitea-Delivery", "d")
		requireProved(t, v, r, "hmac", "0")
		require.Equal(t, verification.Event{Type: tt.want, ID: "d", IDSource: "header:x-gitea-delivery"}, describe(t, v, r))
	}
	form := deliver(time.Time{}, "payload=%7B%7D", "X-Gitea-Signature", hmacHex("the secret", "{}"), "Content-Type",
		"application/x-www-form-urlencoded")
	requireReason(t, v, form, verification.ReasonSignatureMismatch)
}

// Forgejo's headers alone prove and describe its webhooks as Gitea's do, also with all the names that Forgejo sends by
// default. Neither name lets a wrong signature under the other one do harm.
func TestForgejo(t *testing.T) {
	t.Parallel()
	const body = `{"action":"opened","issue":{"id":1}}`
	signature := hmacHex("the secret", body)
	r := deliver(time.Unix(1772600767, 0), body, "X-Forgejo-Signature", signature, "X-Forgejo-Event", "issues",
		"X-Forgejo-Event-Type", "issues", "X-Forgejo-Delivery", "d")
	vector{
		slug: "gitea", secret: "the secret", request: r, at: "header:X-Forgejo-Signature", text: signature, encoding: "hex",
		signed: []string{"body"}, outside: []string{"header:X-Forgejo-Event", "header:X-Forgejo-Delivery"},
	}.check(t)
	v := connect(t, "gitea", nil, "the secret")
	require.Equal(t, verification.Event{Type: "issues.opened", ID: "d", IDSource: "header:x-forgejo-delivery"}, describe(t, v, r))
	require.Equal(t, "push", describe(t, v, deliver(time.Time{}, `{"ref":"refs/heads/main"}`, "X-Forgejo-Event", "push")).Type)
	for _, name := range []string{"Gitea", "Gogs", "GitHub"} {
		r.Header.Set("X-"+name+"-Event", "issues")
		r.Header.Set("X-"+name+"-Delivery", "d")
	}
	r.Header.Set("X-Gitea-Signature", signature)
	requireProved(t, v, r, "hmac", "0")
	require.Equal(t, verification.Event{Type: "issues.opened", ID: "d", IDSource: "header:x-gitea-delivery"}, describe(t, v, r))
	r.Header.Set("X-Gitea-Signature", hmacHex("another secret", body))
	r.Header.Set("X-Forgejo-Signature", hmacHex("another secret", body))
	requireReason(t, v, r, verification.ReasonSignatureMismatch)
}
