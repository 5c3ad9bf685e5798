package registry_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/verification"
)

// sampleCase is a definition's settings, and types of which samples are made.
type sampleCase struct {
	params map[string]string
	secret string
	accept bool
	types  []string
	// keys is true for a provider that signs with a private key.
	keys bool
}

func sampleCases() map[string]sampleCase {
	const whsec = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	return map[string]sampleCase{
		"airtable":         {secret: "YSBtYWMgc2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0ZXM=", types: []string{"base.changed"}},
		"adyen":            {secret: adyenKey, types: []string{"balancePlatform.transfer.created"}},
		"asana":            {types: []string{"task.added", "changed"}},
		"attio":            {types: []string{"record.created", "task.updated"}},
		"aws-sns":          {keys: true, params: map[string]string{"topic_arn": snsTopic}, types: []string{"Notification"}},
		"bitbucket":        {types: []string{"repo.push", "diagnostics.ping"}},
		"box":              {types: []string{"FILE.UPLOADED"}},
		"cal-com":          {types: []string{"BOOKING_CREATED"}},
		"calendly":         {types: []string{"invitee.created"}},
		"circleci":         {types: []string{"workflow-completed", "job-completed"}},
		"clickup":          {types: []string{"taskUpdated"}},
		"chargebee":        {secret: "user:a password of the site", types: []string{"customer_created"}},
		"clerk":            {secret: whsec, types: []string{"user.created"}},
		"coinbase":         {types: []string{"charge.created"}},
		"cloudevents":      {types: []string{"com.example.object.deleted"}},
		"cloudflare":       {types: []string{"http_alert_origin_error"}},
		"discord":          {keys: true, secret: "e7a11b5dd1b8e0e1c2c1b5b3d3e2e4b7cbd0b6d3f9f3dcf2b0dbd9bc1d2a5f3e", types: []string{"ENTITLEMENT_CREATE"}},
		"docusign":         {types: []string{"envelope-completed"}},
		"dropbox":          {types: []string{"list_folder"}},
		"elevenlabs":       {types: []string{"voice_removed"}},
		"figma":            {types: []string{"FILE_UPDATE", "PING"}},
		"fusionauth":       {types: []string{"user.create"}},
		"auth0":            {types: []string{"s", "fp"}},
		"azure-event-grid": {types: []string{"Microsoft.Storage.BlobCreated"}},
		"generic-hmac": {params: map[string]string{"event_type_pointer": "/type", "event_id_pointer": "/id",
			"signed_content": "{ts}.{body}", "timestamp_header": "X-Timestamp", "prefix": "v1="}, types: []string{"order.paid"}},
		"generic-token":   {params: map[string]string{"event_type_header": "X-Event-Type"}, types: []string{"order.paid"}},
		"gitea":           {types: []string{"push", "issues.opened"}},
		"github":          {types: []string{"push", "issues.opened", "pull_request_review.submitted"}},
		"gitlab":          {types: []string{"push", "merge_request.open"}},
		"google-pubsub":   {keys: true, params: pubsubParams(), types: []string{"OBJECT_FINALIZE"}},
		"hubspot":         {types: []string{"contact.creation"}},
		"line":            {types: []string{"follow"}},
		"intercom":        {types: []string{"contact.user.created", "conversation.user.replied"}},
		"jira":            {types: []string{"jira.issue_created", "comment_created"}},
		"linear":          {types: []string{"Issue.create"}},
		"mailgun":         {types: []string{"delivered"}},
		"meta":            {params: map[string]string{"verify_token": "5dEd0B0yqCmVd3rLxRhP"}, types: []string{"whatsapp_business_account.messages", "page.feed"}},
		"microsoft":       {types: []string{"Microsoft.Graph.Message.created"}},
		"microsoft-graph": {types: []string{"Microsoft.Graph.Message.created", "lifecycle.missed"}},
		"monday":          {types: []string{"update_column_value"}},
		"mux":             {types: []string{"video.asset.created"}},
		"netlify":         {types: []string{"ready"}},
		"none":            {accept: true, params: map[string]string{"event_type_pointer": "/type"}, types: []string{"order.paid"}},
		"notion":          {types: []string{"page.created"}},
		"okta":            {types: []string{"user.account.lock"}},
		"paddle":          {types: []string{"subscription.created"}},
		"pagerduty":       {types: []string{"incident.triggered"}},
		"postmark":        {types: []string{"Bounce", "Inbound"}},
		"quickbooks":      {types: []string{"qbo.invoice.updated.v1"}},
		"razorpay":        {types: []string{"order.paid"}},
		"recurly":         {types: []string{"account.created", "subscription.pause.scheduled"}},
		"resend":          {secret: whsec, types: []string{"contact.created"}},
		"mailchimp":       {types: []string{"send"}},
		"paypal":          {keys: true, params: map[string]string{"webhook_id": paypalWebhookID}, types: []string{"PAYMENT.SALE.COMPLETED"}},
		"plaid": {keys: true, params: map[string]string{"client_id": "5fc4e2a1b09f3d0012ab34cd"}, secret: plaidSecret,
			types: []string{"ITEM.ERROR"}},
		"sendgrid":          {keys: true, secret: sendgridKey, types: []string{"delivered"}},
		"sentry":            {types: []string{"issue.created", "metric_alert.critical"}},
		"shopify":           {types: []string{"orders.create"}},
		"slack":             {types: []string{"message", "slash_command./weather"}},
		"square":            {types: []string{"payment.updated"}},
		"standard-webhooks": {secret: whsec, types: []string{"invoice.paid"}},
		"stripe":            {types: []string{"invoice.paid"}},
		"supabase":          {secret: whsec, types: []string{"send_email"}},
		"svix":              {secret: whsec, types: []string{"user.created"}},
		"telegram":          {types: []string{"callback_query"}},
		"trello":            {types: []string{"updateCard"}},
		"twilio":            {types: []string{"message.delivered", "call.completed", "onMessageAdded"}},
		"twitch":            {types: []string{"stream.online", "channel.follow"}},
		"typeform":          {types: []string{"form_response"}},
		"vercel":            {types: []string{"deployment.created"}},
		"webflow":           {types: []string{"site_publish"}},
		"woocommerce":       {types: []string{"product.updated", "action.woocommerce_add_to_cart"}},
		"workos":            {types: []string{"user.created"}},
		"x":                 {types: []string{"tweet_create_events", "profile.update.bio"}},
		"xero":              {types: []string{"INVOICE.CREATE"}},
		"zendesk":           {types: []string{"zen:event-type:user.created"}},
		"zoom":              {types: []string{"meeting.started"}},
	}
}

// For every definition that ships and whose secrets can sign, samples can be made, which the definition accepts as
// webhooks of the type; for the others the reason says why not.
func TestSamples(t *testing.T) {
	t.Parallel()
	builtin, err := registry.Builtin()
	require.NoError(t, err)
	cases := sampleCases()
	for _, p := range builtin.List() {
		if p.Webhooks == nil {
			continue
		}
		slug := p.Definition.Slug
		c, ok := cases[slug]
		require.True(t, ok, "the definition %s has no case", slug)
		var secrets []string
		if c.secret == "" && !c.keys {
			c.secret = "a secret of the provider"
		}
		if c.secret != "" && !c.accept {
			secrets = []string{"another secret 0123", c.secret}
			if c.keys {
				secrets = secrets[1:]
			}
			switch {
			case strings.HasPrefix(c.secret, "whsec_"):
				secrets[0] = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
			case slug == "airtable":
				secrets[0] = "C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
			case c.secret == adyenKey:
				secrets[0] = adyenOtherKey
			}
		}
		v := connectWith(t, slug, verification.Settings{Params: c.params, AcceptUnverified: c.accept}, secrets...)
		types := c.types
		for _, s := range p.Definition.Webhooks.Samples {
			types = append(types, s.Type)
		}
		for _, eventType := range types {
			t.Run(slug+" "+eventType, func(t *testing.T) {
				t.Parallel()
				c.check(t, v, eventType)
			})
		}
	}
}

func (c *sampleCase) check(t *testing.T, v *verification.Verifier, eventType string) {
	t.Helper()
	order := verification.SampleOrder{Type: eventType, ID: "sample_0b1c2d3e4f", PublicURL: "https://hooks.example.com",
		Path: "/api/v1/webhook/whk_x", Now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	s, err := v.Sample(t.Context(), order)
	if c.keys {
		require.ErrorIs(t, err, verification.ErrSampleKeys)
		return
	}
	require.NoError(t, err)
	t.Logf("%v ?%s\n%s", s.Header, s.RawQuery, s.Body)
	r := &verification.Request{Method: "POST", PublicURL: order.PublicURL, Path: order.Path, RawQuery: s.RawQuery,
		Header: s.Header, Body: s.Body, Now: order.Now}
	result, refusal := v.Verify(t.Context(), r)
	require.Nil(t, refusal)
	require.Equal(t, !c.accept, result.Verified)
	event := describe(t, v, r)
	require.Equal(t, eventType, event.Type)
	require.Equal(t, order.ID, s.Header.Get(verification.SampleHeader))
	requireUnique(t, v, s, order)
	if !c.accept {
		require.Equal(t, "1", result.KeyID, "the newest secret signs")
	}
	require.True(t, verification.IsSample(s.Body), "the gateway that gets it must know it")
	order.Data = json.RawMessage(`["a"]`)
	_, err = v.Sample(t.Context(), order)
	require.ErrorIs(t, err, verification.ErrSampleData, "it has no place for the mark")
}

// A sample has what the provider's own libraries read besides the signature: the headers of one generation of webhooks,
// and the kind of the request.
func TestSamplesAreWhole(t *testing.T) {
	t.Parallel()
	builtin, err := registry.Builtin()
	require.NoError(t, err)
	sample := func(slug, eventType string) *verification.Sample {
		p, _ := builtin.Get(slug)
		s, err := connectWith(t, slug, verification.Settings{}, "a secret of the provider").Sample(t.Context(),
			verification.SampleOrder{Type: eventType, Known: p.Webhooks.KnownTypes(), ID: "sample_0b1c2d3e4f",
				PublicURL: "https://hooks.example.com", Path: "/x", Now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)})
		require.NoError(t, err)
		return s
	}
	for eventType, topic := range map[string]string{"orders.create": "orders/create", "app.uninstalled": "app/uninstalled",
		"customer.tags_added": "customer.tags_added"} {
		h := sample("shopify", eventType).Header
		require.Equal(t, topic, h.Get("X-Shopify-Topic"))
		require.NotEmpty(t, h.Get("X-Shopify-Shop-Domain"))
		require.NotEmpty(t, h.Get("X-Shopify-Api-Version"))
		require.NotEmpty(t, h.Get("X-Shopify-Webhook-Id"))
		for _, name := range []string{"Shopify-Topic", "Shopify-Action", "Shopify-Hmac-Sha256"} {
			require.Empty(t, h.Get(name), "it is of the other generation")
		}
	}
	require.Equal(t, "Merge Request Hook", sample("gitlab", "merge_request.open").Header.Get("X-Gitlab-Event"))
	require.Equal(t, "Push Hook", sample("gitlab", "push").Header.Get("X-Gitlab-Event"))
	require.Contains(t, string(sample("slack", "app_mention").Body), `"type":"event_callback"`)
	require.NotContains(t, string(sample("slack", "slash_command./weather").Body), "event_callback")
}

// The types of a provider come with its other names, and with what limits the use of its signature behind the gateway.
func TestWhatIsKnownOfProviders(t *testing.T) {
	t.Parallel()
	builtin, err := registry.Builtin()
	require.NoError(t, err)
	of := func(key string) *eventtypes.Provider { return eventtypes.Of(builtin, key) }
	for key, seconds := range map[string]int{"stripe": 300, "slack": 300, "standard-webhooks": 300, "github": 0, "shopify": 0} {
		require.Equal(t, time.Duration(seconds)*time.Second, of(key).MaxAge, key)
	}
	for key, want := range map[string]bool{"standard-webhooks": true, "gitlab": true, "github": false, "stripe": false} {
		require.Equal(t, want, of(key).Replaced, key)
	}
	for key, want := range map[string]bool{"svix": true, "standard-webhooks": false, "github": false} {
		require.Equal(t, want, of(key).Svix, key)
	}
	for word, want := range map[string]string{"forgejo": "gitea", "WhatsApp": "meta", "githb": "github", "forgjo": "gitea"} {
		require.Equal(t, ". Did you mean "+want+"?", eventtypes.Suggest(builtin, word))
	}
	require.Empty(t, eventtypes.Suggest(builtin, "something-else"))
}

// requireUnique requires that the next sample is no duplicate of the one, by its id or its body.
func requireUnique(t *testing.T, v *verification.Verifier, one *verification.Sample, order verification.SampleOrder) {
	t.Helper()
	order.ID = "sample_another"
	next, err := v.Sample(t.Context(), order)
	require.NoError(t, err)
	require.NotEqual(t, string(one.Body), string(next.Body))
	if one.Event.ID != "" {
		require.NotEqual(t, one.Event.ID, next.Event.ID)
	}
}
