package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A delivery made by Atlassian's documentation (sha256= and the HMAC-SHA256 of the body in hexadecimal;
// computed with openssl dgst) verifies.
func TestBitbucket(t *testing.T) {
	t.Parallel()
	const secret, signature = "It's a Secret to Everybody",
		"a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9"
	r := deliver(time.Unix(1772600767, 0), "Hello World!", "X-Hub-Signature", "sha256="+signature, "X-Event-Key",
		"repo:push", "X-Request-UUID", "5a46ab5a-5a5a-4a64-8d6a-5e9a7c1d8b5f", "X-Hook-UUID",
		"d1a2c3f4-9d0e-4b1a-8f44-6f8d4f2f2b3c", "X-Attempt-Number", "1")
	vector{
		slug: "bitbucket", secret: secret, request: r, at: "header:X-Hub-Signature", label: "sha256=", text: signature,
		encoding: "hex", signed: []string{"body"}, outside: []string{"header:X-Event-Key", "header:X-Request-UUID",
			"header:X-Hook-UUID", "header:X-Attempt-Number"},
	}.check(t)
	requireReason(t, connect(t, "bitbucket", nil, secret), deliver(r.Now, "Hello World!", "X-Hub-Signature", "sha1="+
		signature[:40]), verification.ReasonSignatureMalformed)
}

// Events of Cloud and Data Center have their event key as type, with dots so that patterns match them, and the
// id of the request and not that of the webhook, which is the same for all; Data Center's test is marked.
func TestBitbucketEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "bitbucket", nil, "the secret")
	for _, tt := range []struct {
		key, id string
		want    verification.Event
	}{
		{"repo:push", "X-Request-UUID", verification.Event{Type: "repo.push", IDSource: "header:x-request-uuid"}},
		{"pullrequest:comment_created", "X-Request-UUID", verification.Event{Type: "pullrequest.comment_created",
			IDSource: "header:x-request-uuid"}},
		{"pr:comment:added", "X-Request-Id", verification.Event{Type: "pr.comment.added", IDSource: "header:x-request-id"}},
		{"diagnostics:ping", "X-Request-Id", verification.Event{Type: "diagnostics.ping", IDSource: "header:x-request-id",
			Control: true}},
	} {
		r := deliver(time.Time{}, `{"test":true}`, "X-Hub-Signature", "sha256="+hmacHex("the secret", `{"test":true}`),
			"X-Event-Key", tt.key, tt.id, "1", "X-Hook-UUID", "h")
		requireProved(t, v, r, "hmac", "0")
		tt.want.ID = "1"
		require.Equal(t, tt.want, describe(t, v, r))
	}
}
