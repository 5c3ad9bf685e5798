package registry_test

import (
	"strconv"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

const (
	gitlabSigningToken = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	gitlabDelivery     = "7a2b1c9e-0b51-4f0c-9d2e-5d7f4b9e8a10"
)

// gitlabSigned signs a body as GitLab does with a signing token: by Standard Webhooks, with the idempotency key as
// webhook-id.
func gitlabSigned(t *testing.T, at time.Time, body string,
	pairs ...string) (r *verification.Request, signature string) {
	t.Helper()
	library, err := standardwebhooks.NewWebhook(gitlabSigningToken)
	require.NoError(t, err)
	signature, err = library.Sign(gitlabDelivery, at, []byte(body))
	require.NoError(t, err)
	return deliver(at, body, append(pairs, "webhook-id", gitlabDelivery, "webhook-timestamp",
		strconv.FormatInt(at.Unix(), 10), "webhook-signature", signature, "Idempotency-Key", gitlabDelivery)...), signature
}

// A webhook that GitLab signed with a signing token, by the scheme of Standard Webhooks whose Go library signs here,
// verifies, and id, time and body are signed.
func TestGitLabSigningToken(t *testing.T) {
	t.Parallel()
	r, signature := gitlabSigned(t, time.Unix(1772600767, 0), `{"object_kind":"push","ref":"refs/heads/main"}`,
		"X-Gitlab-Event", "Push Hook")
	vector{
		slug: "gitlab", secret: gitlabSigningToken, otherSecret: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", request: r,
		at: "header:webhook-signature", label: "v1,", text: signature[3:], encoding: "base64",
		signed:    []string{"body", "header:webhook-id", "header:webhook-timestamp"},
		outside:   []string{"header:X-Gitlab-Event", "header:Idempotency-Key"},
		timestamp: "header:webhook-timestamp", maxAge: 5 * time.Minute, maxSkew: 5 * time.Minute,
	}.check(t)
	require.Equal(t, []string{"webhook-signature", "x-gitlab-token"}, connect(t, "gitlab", nil).RedactHeaders())
}

// GitLab's secret token, the header X-Gitlab-Token, is the other proof; it covers nothing, so nothing is
// called signed.
func TestGitLabSecretToken(t *testing.T) {
	t.Parallel()
	r := deliver(time.Unix(1772600767, 0), `{"object_kind":"issue","object_attributes":{"action":"open"}}`,
		"X-Gitlab-Token", "a secret token of GitLab", "X-Gitlab-Event", "Issue Hook", "Idempotency-Key", gitlabDelivery)
	vector{
		slug: "gitlab", secret: "a secret token of GitLab", scheme: "token", request: r, at: "header:X-Gitlab-Token",
		text: "a secret token of GitLab", outside: []string{"body", "header:X-Gitlab-Event", "header:Idempotency-Key"},
	}.check(t)
	require.Equal(t, verification.Event{Type: "issue.open", ID: gitlabDelivery, IDSource: "header:idempotency-key"},
		describe(t, connect(t, "gitlab", nil), r))
}

// While a webhook moves from one to the other, a delivery needs one right proof. A signature with the right token is no
// more trusted than any other, and the token's secret is no signing token.
func TestGitLabEither(t *testing.T) {
	t.Parallel()
	const token = "a secret token of GitLab"
	at := time.Unix(1772600767, 0)
	v := connect(t, "gitlab", nil, gitlabSigningToken, token)
	both, _ := gitlabSigned(t, at, "{}", "X-Gitlab-Token", token)
	requireProved(t, v, both, "hmac", "0")
	requireProved(t, connect(t, "gitlab", nil, token), both, "token", "0")
	signed, _ := gitlabSigned(t, at, "{}")
	requireReason(t, connect(t, "gitlab", nil, token), signed, verification.ReasonSignatureMissing)
	signed.Body = []byte("{ }")
	signed.Header.Set("X-Gitlab-Token", "a wrong token")
	requireReason(t, v, signed, verification.ReasonSignatureMismatch)
	require.Equal(t, verification.ReasonSignatureMissing, v.Precheck(deliver(at, "{}").Header).Reason)
}

// GitLab's events have the type that the body names, as in the payloads of GitLab's own Go client, and the
// header's where a custom template has taken the body's place.
func TestGitLabTypes(t *testing.T) {
	t.Parallel()
	v := connect(t, "gitlab", nil, gitlabSigningToken)
	for _, tt := range []struct{ header, body, want string }{
		{"Push Hook", `{"object_kind":"push","event_name":"push"}`, "push"},
		{"Tag Push Hook", `{"object_kind":"tag_push","event_name":"tag_push"}`, "tag_push"},
		{"Merge Request Hook", `{"object_kind":"merge_request","event_type":"merge_request","object_attributes":{"action":"open"}}`, "merge_request.open"},
		{"Confidential Issue Hook", `{"object_kind":"issue","object_attributes":{"action":"open"}}`, "issue.open"},
		{"Release Hook", `{"object_kind":"release","action":"create"}`, "release.create"},
		{"Pipeline Hook", `{"object_kind":"pipeline","object_attributes":{"status":"success"}}`, "pipeline"},
		{"Member Hook", `{"event_name":"user_add_to_group"}`, "user_add_to_group"},
		{"Resource Access Token Hook", `{"object_kind":"access_token","event_name":"expiring_access_token"}`, "access_token"},
		{"Merge Request Hook", `{"text":"a template"}`, "merge_request"},
		{"Wiki Page Hook", `{}`, "wiki_page"},
		{"A New Hook", `{}`, "unknown"},
	} {
		event := describe(t, v, deliver(time.Time{}, tt.body, "X-Gitlab-Event", tt.header, "webhook-id", "w", "Idempotency-Key",
			"k"))
		require.Equal(t, verification.Event{Type: tt.want, ID: "w", IDSource: "header:webhook-id"}, event)
	}
}
