package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/providers/connections"
)

type enrolment struct {
	Status          string  `json:"status"`
	Secret          *string `json:"secret"`
	WebhookSecretID *string `json:"webhook_secret_id"`
}

const (
	notionToken = "secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl"
	notionPath  = "/connections/notion/wiki/webhook-enrolment"
)

// notionEvent is an event of Notion, signed with a token.
func notionEvent(token, body string) message {
	return message{http.Header{"Content-Type": {"application/json"},
		"X-Notion-Signature": {"sha256=" + hexHMAC(token, body)}}, []byte(body)}
}

// A secret that a handshake brings is taken only while the operator waits for one, counts only after the operator has
// confirmed it, and never pushes out another. The handshake itself is no event.
func TestEnrolment(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		c := w.connect(w.dev(), object{"provider": "notion", "connection_id": "wiki", "webhook_secret": "an older secret"})
		handshake := func() response {
			return w.call(anonymous, http.MethodPost, "/webhook/"+c.pathToken(), raw(`{"verification_token":"`+notionToken+`"}`))
		}
		status := func() (e enrolment) {
			w.call(w.dev(), http.MethodGet, notionPath, nil).want(w, http.StatusOK).into(w, &e)
			return e
		}
		deliver := func(token, id string) response {
			return w.post(c.pathToken(), notionEvent(token, `{"id":"`+id+`","type":"page.created"}`))
		}

		w.call(w.dev(), http.MethodGet, notionPath, nil).refused(w, http.StatusNotFound, apperr.CodeNotFound)
		handshake().refused(w, http.StatusUnauthorized, apperr.CodeSignatureInvalid)
		require.Equal(w.t, "handshake_not_enrolled", w.rejections(w.dev(), "connection_id=wiki", 1)[0].Reason)

		open := func() { w.call(w.dev(), http.MethodPost, notionPath, nil).want(w, http.StatusCreated) }
		open()
		require.Equal(w.t, enrolment{Status: "open"}, status())
		w.clk.Advance(connections.EnrolmentTime)
		handshake().refused(w, http.StatusUnauthorized, apperr.CodeSignatureInvalid)
		require.Equal(w.t, enrolment{Status: "expired"}, status())

		open()
		handshake().want(w, http.StatusOK)
		require.Equal(w.t, notionToken, *status().Secret)
		handshake().refused(w, http.StatusUnauthorized, apperr.CodeSignatureInvalid)
		deliver(notionToken, "1").refused(w, http.StatusUnauthorized, apperr.CodeSignatureInvalid)

		var secret struct {
			ID string `json:"id"`
		}
		w.call(w.dev(), http.MethodPost, notionPath+"/confirm", nil).want(w, http.StatusOK).into(w, &secret)
		require.Equal(w.t, enrolment{Status: "captured", WebhookSecretID: &secret.ID}, status())
		w.call(w.dev(), http.MethodPost, notionPath+"/confirm", nil).refused(w, http.StatusConflict,
			apperr.CodeEnrolmentConflict)
		for _, token := range []string{notionToken, "an older secret"} {
			deliver(token, token).want(w, http.StatusOK)
		}
		require.Len(w.t, w.events(""), 2)
		require.NotContains(w.t, w.logs.String(), notionToken)

		w.call(w.dev(), http.MethodDelete, notionPath, nil).want(w, http.StatusNoContent)
		w.call(w.dev(), http.MethodDelete, notionPath, nil).refused(w, http.StatusNotFound, apperr.CodeNotFound)
		w.connectGitHub("acme")
		w.call(w.dev(), http.MethodPost, "/connections/github/acme/webhook-enrolment", nil).refused(w, http.StatusConflict,
			apperr.CodeEnrolmentConflict)
	})
}

// A stranger who guesses the alias cannot hand over a secret of his own while the operator waits for the provider's.
func TestEnrolmentByAlias(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		c := w.connect(w.dev(), object{"provider": "asana", "connection_id": "tasks"})
		w.call(w.dev(), http.MethodPost, "/connections/asana/tasks/webhook-enrolment", nil).want(w, http.StatusCreated)
		handshake := func(segment, secret string) response {
			return w.post(segment, message{http.Header{"X-Hook-Secret": {secret}}, nil})
		}
		handshake("tasks", "a secret of the stranger").refused(w, http.StatusUnauthorized, apperr.CodeSignatureInvalid)
		refused := w.rejections(w.dev(), "connection_id=tasks", 1)[0]
		require.Equal(w.t, "handshake_not_enrolled", refused.Reason)
		require.Contains(w.t, refused.Message, "alias")
		handshake(c.pathToken(), "a secret of the provider").want(w, http.StatusOK)
		event := func(secret string) message {
			body := `{"events":[{"action":"added"}]}`
			return message{http.Header{"X-Hook-Signature": {hexHMAC(secret, body)}}, []byte(body)}
		}
		w.post("tasks", event("a secret of the stranger")).refused(w, http.StatusUnauthorized, apperr.CodeSignatureInvalid)
		w.post("tasks", event("a secret of the provider")).want(w, http.StatusOK)
	})
}

// Of many handshakes at the same time one is captured, on any node.
func TestEnrolmentRace(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		c := w.connect(w.dev(), object{"provider": "notion", "connection_id": "wiki"})
		w.call(w.dev(), http.MethodPost, notionPath, nil).want(w, http.StatusCreated)
		responses := make(chan int)
		for i := range 8 {
			go func() {
				token := strings.Repeat("abcdefgh"[i:i+1], 20)
				status := 0 // of a request that failed the test
				defer func() { responses <- status }()
				status = w.call(anonymous, http.MethodPost, "/webhook/"+c.pathToken(), raw(`{"verification_token":"`+token+
					`"}`)).status
			}()
		}
		count := map[int]int{}
		for range 8 {
			count[<-responses]++
		}
		require.Equal(w.t, map[int]int{http.StatusOK: 1, http.StatusUnauthorized: 7}, count)
	})
}

// Deliveries from other networks than the connection's are refused, before anything of them is read.
func TestSourceNetworks(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		c := w.connectGitHub("acme")
		set := func(networks any) {
			w.call(w.dev(), http.MethodPatch, "/connections/github/acme",
				object{"webhook": object{"source_cidrs": networks}}).want(w, http.StatusOK)
		}
		set([]string{"192.0.2.0/24", "2001:db8::/32"})
		w.post(c.pathToken(), github(issueOpened)).refused(w, http.StatusUnauthorized, apperr.CodeSignatureInvalid)
		require.Equal(w.t, "source_refused", w.rejections(w.dev(), "connection_id=acme", 1)[0].Reason)
		set([]string{"192.0.2.0/24", "127.0.0.0/8", "::1/128"})
		w.deliver(c.pathToken(), github(issueOpened))
		set(nil)
		w.deliver(c.pathToken(), github(issueOpened))
	})
}

// A connection's limit counts verified deliveries alone, so that a stranger cannot use it up, and refuses deliveries
// beyond it for a time that the response names.
func TestConnectionRate(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		c := w.connect(w.dev(), object{"provider": "github", "connection_id": "acme", "webhook_secret": githubSecret,
			"webhook": object{"rate_limit_per_second": 2}})
		for range 5 {
			w.post(c.pathToken(), githubAs("another", "issues", "1", issueOpened)).want(w, http.StatusUnauthorized)
		}
		w.deliver(c.pathToken(), github(issueOpened))
		w.deliver(c.pathToken(), github(issueOpened))
		beyond := github(issueOpened)
		a := w.post(c.pathToken(), beyond)
		a.refused(w, http.StatusTooManyRequests, apperr.CodeRateLimited)
		require.Equal(w.t, "1", a.header.Get("Retry-After"))
		w.clk.Advance(time.Second)
		require.False(w.t, w.deliver(c.pathToken(), beyond).Duplicate)
	})
}

// The settings of deliveries are checked when they are saved, and every validation error is named.
func TestWebhookSettings(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		for _, c := range []struct {
			webhook object
			want    []string
		}{
			{object{"scheme": "hmac"}, []string{"body.webhook.scheme enum"}},
			{object{"scheme": "none"}, []string{"body.webhook.scheme coherent"}},
			{object{"url_base": "ftp://a", "rate_limit_per_second": 0}, []string{"body.webhook.rate_limit_per_second minimum",
				"body.webhook.url_base format"}},
			{object{"url_base": ""}, []string{"body.webhook.url_base min_length"}},
			{object{"source_cidrs": []string{"10.0.0.1/8", "x", "::ffff:1.2.3.0/120"}},
				[]string{"body.webhook.source_cidrs[0] format", "body.webhook.source_cidrs[1] format",
					"body.webhook.source_cidrs[2] format"}},
			{object{"rate_limit_per_second": 10_001}, []string{"body.webhook.rate_limit_per_second maximum"}},
		} {
			a := w.call(w.dev(), http.MethodPost, "/connections", object{"provider": "github", "connection_id": "acme",
				"webhook": c.webhook})
			var got []string
			for _, d := range a.envelope(w).Error.Details {
				got = append(got, d.Location+" "+d.Rule)
			}
			require.ElementsMatch(w.t, c.want, got, "%v", c.webhook)
		}
	})
}

// Meta gets its challenge back only with the connection's verify token. Another one is forbidden, and the record of
// rejections shows why.
func TestMetaVerifyToken(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const token = "a-made-up-text"
		c := w.connect(w.dev(), object{"provider": "meta", "connection_id": "page", "webhook_secret": "an app secret of Meta",
			"webhook": object{"params": object{"verify_token": token}}})
		ask := func(token string) response {
			return w.call(anonymous, http.MethodGet, "/webhook/"+c.pathToken()+
				"?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token="+token, nil)
		}
		require.Equal(w.t, "1158201444", string(ask(token).want(w, http.StatusOK).body))
		ask("another-text").refused(w, http.StatusForbidden, apperr.CodeHandshakeRefused)
		require.Equal(w.t, "handshake_refused", w.rejections(w.dev(), "connection_id=page", 1)[0].Reason)
		require.NotContains(w.t, w.snapshot().String(), "another-text")
	})
}
