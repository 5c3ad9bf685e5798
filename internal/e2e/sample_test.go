package e2e_test

import (
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/providers/registry"
)

// sampled are connections to providers and a type of each, by provider. A provider that is not listed gets an ordinary
// secret and no parameters.
func sampled() map[string]struct {
	eventType string
	settings  object
} {
	type settings = struct {
		eventType string
		settings  object
	}
	params := func(p object) object { return object{"webhook": object{"params": p}} }
	return map[string]settings{
		"airtable":        {"base.changed", object{"webhook_secret": "YSBtYWMgc2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0ZXM="}},
		"asana":           {"task.added", nil},
		"bitbucket":       {"repo.push", nil},
		"calendly":        {"invitee.created", nil},
		"circleci":        {"workflow-completed", nil},
		"clickup":         {"taskUpdated", nil},
		"cloudevents":     {"com.example.created", nil},
		"cloudflare":      {"http_alert_origin_error", nil},
		"dropbox":         {"list_folder", nil},
		"elevenlabs":      {"voice_removed", nil},
		"generic-hmac":    {"order.paid", params(object{"event_type_pointer": "/type"})},
		"generic-token":   {"order.paid", params(object{"event_type_header": "X-Event-Type"})},
		"gitea":           {"issues.opened", nil},
		"github":          {"issues.opened", nil},
		"gitlab":          {"push", nil},
		"hubspot":         {"contact.creation", nil},
		"line":            {"follow", nil},
		"intercom":        {"contact.user.created", nil},
		"jira":            {"jira.issue_created", nil},
		"linear":          {"Issue.create", nil},
		"mailgun":         {"delivered", nil},
		"meta":            {"page.feed", params(object{"verify_token": "5dEd0B0yqCmVd3rLxRhP"})},
		"microsoft":       {"Microsoft.Graph.Message.created", nil},
		"microsoft-graph": {"Microsoft.Graph.Message.created", nil},
		"monday":          {"create_pulse", nil},
		"mux":             {"video.asset.created", nil},
		"adyen": {"balancePlatform.transfer.created", object{
			"webhook_secret": "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"}},
		"attio":            {"record.created", nil},
		"auth0":            {"fp", nil},
		"azure-event-grid": {"Microsoft.Storage.BlobCreated", nil},
		"box":              {"FILE.UPLOADED", nil},
		"cal-com":          {"BOOKING_CREATED", nil},
		"chargebee":        {"customer_created", object{"webhook_secret": "user:a password of the site"}},
		"clerk":            {"user.created", object{"webhook_secret": standardSecret}},
		"coinbase":         {"charge.created", nil},
		"docusign":         {"envelope-completed", nil},
		"figma":            {"FILE_UPDATE", nil},
		"fusionauth":       {"user.create", nil},
		"mailchimp":        {"send", nil},
		"none": {"order.paid", object{"webhook_secret": nil, "webhook": object{"scheme": "none",
			"params": object{"event_type_pointer": "/type"}}}},
		"netlify":           {"ready", nil},
		"notion":            {"page.created", nil},
		"okta":              {"user.account.lock", nil},
		"paddle":            {"subscription.created", nil},
		"pagerduty":         {"incident.triggered", nil},
		"postmark":          {"Bounce", nil},
		"quickbooks":        {"qbo.invoice.updated.v1", nil},
		"razorpay":          {"order.paid", nil},
		"recurly":           {"account.created", nil},
		"resend":            {"contact.created", object{"webhook_secret": standardSecret}},
		"sentry":            {"issue.created", nil},
		"shopify":           {"orders.create", nil},
		"slack":             {"message", nil},
		"square":            {"payment.updated", nil},
		"standard-webhooks": {"invoice.paid", object{"webhook_secret": standardSecret}},
		"stripe":            {"invoice.paid", nil},
		"supabase":          {"INSERT.public.orders", nil},
		"svix":              {"user.created", object{"webhook_secret": standardSecret}},
		"telegram":          {"callback_query", nil},
		"trello":            {"updateCard", nil},
		"twilio":            {"message.delivered", nil},
		"twitch":            {"stream.online", nil},
		"typeform":          {"form_response", nil},
		"vercel":            {"deployment.created", nil},
		"webflow":           {"site_publish", nil},
		"woocommerce":       {"product.updated", nil},
		"workos":            {"user.created", nil},
		"x":                 {"tweet_create_events", nil},
		"xero":              {"INVOICE.CREATE", nil},
		"zendesk":           {"zen:event-type:user.created", nil},
		"zoom":              {"meeting.started", nil},
	}
}

// privateKeys are the providers that sign with a private key, with the settings of a connection to each: a public key,
// or what binds the keys that the provider publishes to the connection.
func privateKeys() map[string]object {
	bound := func(params object) object {
		return object{"webhook_secret": nil, "webhook": object{"params": params}}
	}
	return map[string]object{
		"aws-sns": bound(object{"topic_arn": "arn:aws:sns:us-west-2:123456789012:MyTopic"}),
		"discord": {"webhook_secret": "e7a11b5dd1b8e0e1c2c1b5b3d3e2e4b7cbd0b6d3f9f3dcf2b0dbd9bc1d2a5f3e"},
		"google-pubsub": bound(object{"audience": "https://hooks.example.com",
			"service_account": "push@my-project.iam.gserviceaccount.com"}),
		"paypal": bound(object{"webhook_id": "1JE4291016473214C"}),
		"plaid":  {"webhook": object{"params": object{"client_id": "5fc4e2a1b09f3d0012ab34cd"}}},
		"sendgrid": {"webhook_secret": "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8" +
			"kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g=="},
	}
}

// sampleSent is the response to a sample.
type sampleSent struct {
	receipt
	EventType     string `json:"event_type"`
	SampleID      string `json:"sample_id"`
	MinimalBody   bool   `json:"minimal_body"`
	Subscriptions int    `json:"subscriptions"`
	Warnings      []struct{ Location, Rule, Message string }
}

// A sample of every provider that ships goes the whole way of a webhook: it is verified under the connection's secret,
// stored with its type, and forwarded. Another one is no duplicate. Where only the provider has the key, the response
// gives the reason and another way.
func TestSample(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		builtin, err := registry.Builtin()
		require.NoError(w.t, err)
		sink := newReceiver(w.t, status(http.StatusOK))
		w.subscribe(sink.url, object{"event_types": []string{"*"}, "payload_mode": "raw"})
		cases, keys := sampled(), privateKeys()
		sent := 0
		for _, p := range builtin.List() {
			if p.Webhooks == nil {
				continue
			}
			slug := p.Definition.Slug
			path := "/connections/" + slug + "/sample-" + slug + "/webhook-sample"
			body := object{"provider": slug, "connection_id": "sample-" + slug, "webhook_secret": "a secret of the provider"}
			if key, ok := keys[slug]; ok {
				maps.Copy(body, key)
				if body["webhook_secret"] == nil {
					delete(body, "webhook_secret")
				}
				w.connect(w.dev(), body)
				w.call(w.dev(), http.MethodPost, path, object{"event_type": "delivered"}).refused(w,
					http.StatusConflict, apperr.CodeSampleUnavailable)
				continue
			}
			c, ok := cases[slug]
			require.True(w.t, ok, "the provider %s has no case", slug)
			maps.Copy(body, c.settings)
			if body["webhook_secret"] == nil {
				delete(body, "webhook_secret")
			}
			w.connect(w.dev(), body)
			for range 2 {
				var out sampleSent
				a := w.call(w.dev(), http.MethodPost, path, object{"event_type": c.eventType}).want(w, http.StatusCreated)
				a.into(w, &out)
				require.Equal(w.t, prefix+"/webhook-events/"+out.EventUUID, a.header.Get("Location"))
				require.False(w.t, out.Duplicate, slug)
				w.awaitEvent(out.EventUUID, "forwarded")
				var e struct {
					EventType    string            `json:"event_type"`
					Suspect      *string           `json:"suspect"`
					Headers      map[string]string `json:"headers"`
					Verification struct{ Result string }
				}
				w.call(w.dev(), http.MethodGet, "/webhook-events/"+out.EventUUID, nil).want(w, http.StatusOK).into(w, &e)
				require.Equal(w.t, c.eventType, e.EventType)
				require.Equal(w.t, out.SampleID, e.Headers["sallyport-sample"])
				require.Nil(w.t, e.Suspect, slug)
				require.Equal(w.t, map[bool]string{true: "unverified", false: "verified"}[slug == "none"], e.Verification.Result)
				sent++
			}
		}
		require.Len(w.t, sink.wait(w.t, sent), sent)
	})
}

// A sample takes the caller's data; it is for the connections that a key may change, is recorded, and reports what it
// cannot do.
func TestSampleRules(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connect(w.dev(), object{"provider": "github", "connection_id": "acme", "webhook_secret": githubSecret,
			"webhook": object{"source_cidrs": []string{"192.0.2.0/24"}}})
		const path = "/connections/github/acme/webhook-sample"
		var out sampleSent
		w.call(w.dev(), http.MethodPost, path, object{"event_type": "issues.opened", "data": object{"action": "closed",
			"issue": object{"number": 7}}}).want(w, http.StatusCreated).into(w, &out)
		var e struct {
			EventType      string `json:"event_type"`
			Body           object `json:"body"`
			IdempotencyKey string `json:"idempotency_key"`
		}
		w.call(w.dev(), http.MethodGet, "/webhook-events/"+out.EventUUID, nil).want(w, http.StatusOK).into(w, &e)
		require.Equal(w.t, object{"action": "opened", "issue": object{"number": float64(7)},
			"sallyport_sample": out.SampleID}, e.Body)
		require.Equal(w.t, out.SampleID, e.IdempotencyKey)

		var trail []struct {
			Details struct {
				SampleID  string `json:"sample_id"`
				EventType string `json:"event_type"`
			} `json:"details"`
		}
		records := "environment_id=" + w.env + "&action=connection.send_webhook_sample"
		require.Equal(w.t, conn.UUID, w.trail(records, 1)[0].Target.ID)
		w.call(w.user(""), http.MethodGet, "/admin/audit-events?"+records, nil).want(w, http.StatusOK).into(w, &trail)
		require.Equal(w.t, out.SampleID, trail[0].Details.SampleID)
		require.Equal(w.t, "issues.opened", trail[0].Details.EventType)

		invalid := func(body object, location string) {
			w.t.Helper()
			require.Regexp(w.t, "(?m)^"+regexp.QuoteMeta(location)+" ",
				strings.Join(w.call(w.dev(), http.MethodPost, path, body).violations(w), "\n"))
		}
		for _, kind := range []string{"two words", "issues.*", "*", "issues..x", ".push", "push.", "sallyport.ping"} {
			invalid(object{"event_type": kind}, "body.event_type")
		}
		invalid(object{"event_type": "push", "data": "text"}, "body.data")
		invalid(object{"event_type": "push", "data": []int{1}}, "body.data")
		invalid(object{}, "body.event_type")
		w.call(w.dev(), http.MethodPost, strings.Replace(path, "acme", "nowhere", 1), object{"event_type": "push"}).
			refused(w, http.StatusNotFound, apperr.CodeNotFound)
		w.connect(w.dev(), object{"provider": "github", "connection_id": "bare"})
		w.call(w.dev(), http.MethodPost, "/connections/github/bare/webhook-sample", object{"event_type": "push"}).
			refused(w, http.StatusConflict, apperr.CodeSampleUnavailable)
		w.call(w.dev(), http.MethodPost, "/connections/github/acme", object{"operation": "disable"}).want(w, http.StatusOK)
		w.call(w.dev(), http.MethodPost, path, object{"event_type": "push"}).refused(w, http.StatusConflict,
			apperr.CodeSampleUnavailable)
	})
}

// Receivers know a sample by the gateway's own header, in both modes, and take no real webhook for one, also if it says
// so. The response names the stored type, the subscriptions that get it, a minimal body, and a type that is not known.
func TestSampleIsMarked(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		raw, envelope := newReceiver(w.t, status(http.StatusOK)), newReceiver(w.t, status(http.StatusOK))
		w.subscribe(raw.url, object{"payload_mode": "raw"})
		w.subscribe(envelope.url)
		conn := w.connectGitHub("acme")
		const path = "/connections/github/acme/webhook-sample"
		send := func(kind string) (out sampleSent) {
			w.call(w.dev(), http.MethodPost, path, object{"event_type": kind}).want(w, http.StatusCreated).into(w, &out)
			w.awaitEvent(out.EventUUID, "forwarded")
			return out
		}
		known := send("issues.opened")
		require.False(w.t, known.MinimalBody)
		require.Equal(w.t, 2, known.Subscriptions)
		require.Empty(w.t, known.Warnings)
		unknown := send("issues.flown")
		require.True(w.t, unknown.MinimalBody)
		require.Equal(w.t, "event_type", unknown.Warnings[0].Location)
		require.Contains(w.t, unknown.Warnings[0].Message, "sallyport providers show github")
		for _, sink := range []*receiver{raw, envelope} {
			got := sink.wait(w.t, 2)
			require.ElementsMatch(w.t, []string{known.SampleID, unknown.SampleID},
				[]string{got[0].header.Get("Sallyport-Sample"), got[1].header.Get("Sallyport-Sample")})
		}
		m := githubAs(githubSecret, "push", "a stranger's", `{"ref":"a"}`).with("Sallyport-Sample", "smp_x")
		genuine := w.deliver(conn.pathToken(), m).EventUUID
		w.awaitEvent(genuine, "forwarded")
		require.Empty(w.t, raw.wait(w.t, 3)[2].header.Get("Sallyport-Sample"))
		require.Empty(w.t, envelope.wait(w.t, 3)[2].header.Get("Sallyport-Sample"))
		var e struct{ Headers map[string]string }
		w.call(w.dev(), http.MethodGet, "/webhook-events/"+genuine, nil).want(w, http.StatusOK).into(w, &e)
		require.NotContains(w.t, e.Headers, "sallyport-sample")
	})
}

// A sample is no way to have content signed with a secret that no one may read: its signature counts at no gateway,
// that of a body which the caller chose reaches no receiver, and only a caller who may publish events chooses one.
func TestSampleSignsNothingForOthers(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		raw := newReceiver(w.t, status(http.StatusOK))
		w.subscribe(raw.url, object{"payload_mode": "raw"})
		w.connectGitHub("acme")
		other := w.connectGitHub("other")
		const path, signature = "/connections/github/acme/webhook-sample", "X-Hub-Signature-256"
		order := object{"event_type": "push"}
		w.call(w.dev(), http.MethodPost, path, order).want(w, http.StatusCreated)
		got := raw.wait(w.t, 1)[0]
		require.NotEmpty(w.t, got.header.Get(signature))
		again := message{http.Header{}, got.body}
		for _, name := range []string{"Content-Type", signature, "X-Github-Event", "X-Github-Delivery"} {
			again = again.with(name, got.header.Get(name))
		}
		w.post(other.pathToken(), again).refused(w, http.StatusUnauthorized, apperr.CodeSignatureInvalid)

		order["data"] = object{"ref": "chosen"}
		w.call(w.dev(), http.MethodPost, path, order).want(w, http.StatusCreated)
		got = raw.wait(w.t, 2)[1]
		require.Contains(w.t, string(got.body), "chosen")
		require.Empty(w.t, got.header.Get(signature))

		key := byKey(w.newKey(w.env, allow("connections")).Key)
		w.call(key, http.MethodPost, path, order).refused(w, http.StatusForbidden, apperr.CodeGrantDenied)
		delete(order, "data")
		w.call(key, http.MethodPost, path, order).want(w, http.StatusCreated)
	})
}
