package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit/await"
)

// rejection is a refused request as the API shows it.
type rejection struct {
	ID           string            `json:"id"`
	ConnectionID string            `json:"connection_id"`
	ReceivedAt   time.Time         `json:"received_at"`
	Reason       string            `json:"reason"`
	Message      string            `json:"message"`
	ByAlias      bool              `json:"by_alias"`
	ClientIP     string            `json:"client_ip"`
	Method       string            `json:"method"`
	Headers      map[string]string `json:"headers"`
	Body         string            `json:"body"`
	BodyEncoding string            `json:"body_encoding"`
	BodySize     int               `json:"body_size"`
	Truncated    bool              `json:"truncated"`
	Suppressed   int               `json:"suppressed"`
	Diagnosis    *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"diagnosis"`
}

// rejections returns the refused requests that the query selects, newest first, once there are n.
func (w *world) rejections(c credentials, query string, n int) []rejection {
	w.t.Helper()
	var list []rejection
	await.Condition(w.t, "refused requests", func() bool {
		list = nil
		w.call(c, http.MethodGet, "/webhook-rejections?limit=250&"+query, nil).want(w, http.StatusOK).into(w, &list)
		return len(list) >= n
	})
	require.Len(w.t, list, n)
	return list
}

// A user who sets up a provider sees each refused request with the reason and the content, credentials redacted. A
// refused request is no event, and a good delivery leaves nothing here.
func TestRejections(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connect(w.dev(), object{"provider": "github", "connection_id": "acme", "webhook_secret": githubSecret,
			"webhook": object{"max_body_bytes": 10_000}})
		w.fresh(conn.pathToken(), github(issueOpened))
		forged := githubAs("another secret", "issues", id.NewUUID(), issueOpened).with("Authorization",
			"Bearer of-the-sender").with("X-Gitlab-Token", "of-the-sender")
		w.post(conn.pathToken(), forged).want(w, http.StatusUnauthorized)
		w.post(conn.pathToken(), github(issueOpened).without("X-Hub-Signature-256")).want(w, http.StatusUnauthorized)
		w.post(conn.pathToken(), githubAs("another secret", "issues", id.NewUUID(), strings.Repeat("ü", 4000))).want(w,
			http.StatusUnauthorized)
		w.post(conn.pathToken(), github(strings.Repeat("x", 10_001))).want(w, http.StatusRequestEntityTooLarge)
		w.post("acme", forged).want(w, http.StatusUnauthorized)
		reencoded := github(issueOpened)
		reencoded.body = append(reencoded.body, '\n')
		w.post(conn.pathToken(), reencoded).want(w, http.StatusUnauthorized)

		list := w.rejections(w.dev(), "connection_id=acme", 6)
		changed, alias, large, long, unsigned, wrong := list[0], list[1], list[2], list[3], list[4], list[5]
		require.Equal(w.t, "body_rewritten", changed.Diagnosis.Code)
		require.Equal(w.t, "secret_wrong", wrong.Diagnosis.Code)
		for _, r := range list {
			if r.Diagnosis != nil {
				require.NotContains(w.t, r.Diagnosis.Message, githubSecret)
			}
		}
		require.Equal(w.t, "signature_mismatch", wrong.Reason)
		require.NotEmpty(w.t, wrong.Message)
		require.Equal(w.t, issueOpened, wrong.Body)
		require.Equal(w.t, "text", wrong.BodyEncoding)
		require.False(w.t, wrong.Truncated)
		require.Equal(w.t, "127.0.0.1", wrong.ClientIP)
		require.Equal(w.t, "issues", wrong.Headers["x-github-event"])
		require.Equal(w.t, secretbox.Redacted, wrong.Headers["authorization"])
		require.Equal(w.t, secretbox.Redacted, wrong.Headers["x-gitlab-token"], "another provider's token")
		require.Equal(w.t, secretbox.Redacted, wrong.Headers["x-hub-signature-256"])
		require.Equal(w.t, w.clk.Now().UTC(), wrong.ReceivedAt.UTC())
		require.Equal(w.t, "signature_missing", unsigned.Reason)
		require.Empty(w.t, unsigned.Body, "a delivery without a signature is refused before its body is read")
		require.Equal(w.t, len(issueOpened), unsigned.BodySize)
		require.True(w.t, long.Truncated)
		require.Equal(w.t, 8000, long.BodySize)
		require.Equal(w.t, strings.Repeat("ü", 2048), long.Body)
		require.Equal(w.t, "payload_too_large", large.Reason)
		require.True(w.t, alias.ByAlias)
		require.Equal(w.t, string(forged.body), alias.Body, "the body shows what is wrong, however the request came")
		require.False(w.t, alias.Truncated)

		for _, r := range list {
			var one rejection
			w.call(w.dev(), http.MethodGet, "/webhook-rejections/"+r.ID, nil).want(w, http.StatusOK).into(w, &one)
			require.Equal(w.t, r, one)
		}
		for _, missing := range []string{"rej_06dprg8dj1v6hckm0sjzmn2m1c", "x"} {
			w.call(w.dev(), http.MethodGet, "/webhook-rejections/"+missing, nil).refused(w, http.StatusNotFound,
				apperr.CodeNotFound)
		}
		require.Len(w.t, w.rejections(w.dev(), "reason=signature_missing,payload_too_large", 2), 2)
		require.Len(w.t, w.events(""), 1)
		w.call(w.dev(), http.MethodDelete, "/connections/github/acme", nil).want(w, http.StatusNoContent)
		w.rejections(w.dev(), "connection_id=acme", 0)
		require.NotContains(w.t, w.snapshot().String(), "of-the-sender")
	})
}

// A webhook that comes while its connection is disabled, or beyond the connection's limit, becomes no event, and many
// providers do not send it again: it leaves a trace with a reason.
func TestUnwantedWebhooksLeaveATrace(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connectGitHub("acme")
		item := "/connections/github/acme"
		w.call(w.dev(), http.MethodPatch, item, object{"webhook": object{"rate_limit_per_second": 1}}).want(w, http.StatusOK)
		w.deliver(conn.pathToken(), github(issueOpened))
		for w.post(conn.pathToken(), githubAs(githubSecret, "issues", id.NewUUID(), issueOpened)).status == http.StatusOK {
		}
		w.call(w.dev(), http.MethodPost, item, object{"operation": "disable"}).want(w, http.StatusOK)
		w.post(conn.pathToken(), github(issueOpened)).refused(w, http.StatusServiceUnavailable,
			apperr.CodeConnectionDisabled)
		list := w.rejections(w.dev(), "connection_id=acme", 2)
		require.Equal(w.t, "connection_disabled", list[0].Reason)
		require.Contains(w.t, list[0].Message, "Enable it")
		require.Empty(w.t, list[0].Body)
		require.Equal(w.t, "rate_limited", list[1].Reason)
		require.Contains(w.t, list[1].Message, "rate_limit_per_second")
		require.Equal(w.t, issueOpened, list[1].Body)
		require.Equal(w.t, secretbox.Redacted, list[1].Headers["x-hub-signature-256"])
	})
}

// An active secret shows when it last verified a delivery, or that it verified none, so that the old one of a rotation
// can be seen to be unused.
func TestRotationOfASecret(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connect(w.dev(), object{"provider": "github", "connection_id": "acme", "webhook_secret": githubSecret})
		const path = "/connections/github/acme/webhook-secrets"
		var next struct {
			ID string `json:"id"`
		}
		w.call(w.dev(), http.MethodPost, path, object{"secret": "the next secret of GitHub", "label": "next"}).want(w,
			http.StatusCreated).into(w, &next)
		matched := func() map[string]*time.Time {
			var list []struct {
				Label         string     `json:"label"`
				LastMatchedAt *time.Time `json:"last_matched_at"`
			}
			w.call(w.dev(), http.MethodGet, path, nil).want(w, http.StatusOK).into(w, &list)
			out := map[string]*time.Time{}
			for _, s := range list {
				out[s.Label] = s.LastMatchedAt
			}
			return out
		}
		uuid := w.fresh(conn.pathToken(), githubAs("the next secret of GitHub", "issues", id.NewUUID(), issueOpened))
		require.Equal(w.t, next.ID, *w.event(uuid).Verification.KeyID)
		await.Condition(w.t, "the secret's last match", func() bool {
			w.clk.Advance(5 * time.Second) // as often as the worker that stores it runs
			return matched()["next"] != nil
		})
		require.Nil(w.t, matched()[""])
		w.fresh(conn.pathToken(), github(issueOpened))
		await.Condition(w.t, "the old secret's last match", func() bool {
			w.clk.Advance(5 * time.Second)
			return matched()[""] != nil
		})
	})
}
