package registry_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// Of the headers that events do not show, only signatures over the body may reach a receiver, which can verify a
// webhook with them and make none. Tokens, handed-over secrets and signatures that the gateway does not verify never
// do.
func TestSignatureHeaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		slug     string
		settings verification.Settings
		want     []string
	}{
		{slug: "github", want: []string{"x-hub-signature-256"}},
		{slug: "gitlab", want: []string{"webhook-signature"}},
		{slug: "gitea", want: []string{"x-forgejo-signature", "x-gitea-signature"}},
		{slug: "shopify", want: []string{"shopify-hmac-sha256", "x-shopify-hmac-sha256"}},
		{slug: "slack", want: []string{"x-slack-signature"}},
		{slug: "stripe", want: []string{"stripe-signature"}},
		{slug: "hubspot", want: []string{"x-hubspot-signature-v3"}},
		{slug: "asana", want: []string{"x-hook-signature"}},
		{slug: "twilio", want: []string{"x-twilio-signature"}},
		{slug: "svix", want: []string{"svix-signature", "webhook-signature"}},
		{slug: "circleci", want: []string{"circleci-signature"}},
		{slug: "clickup", want: []string{"x-signature"}},
		{slug: "elevenlabs", want: []string{"elevenlabs-signature"}},
		{slug: "line", want: []string{"x-line-signature"}},
		{slug: "mux", want: []string{"mux-signature"}},
		{slug: "paddle", want: []string{"paddle-signature"}},
		{slug: "quickbooks", want: []string{"intuit-signature"}},
		{slug: "razorpay", want: []string{"x-razorpay-signature"}},
		{slug: "recurly", want: []string{"recurly-signature"}},
		{slug: "resend", want: []string{"svix-signature"}},
		{slug: "supabase", want: []string{"webhook-signature"}},
		{slug: "vercel", want: []string{"x-vercel-signature"}},
		{slug: "webflow", want: []string{"x-webflow-signature"}},
		{slug: "woocommerce", want: []string{"x-wc-webhook-signature"}},
		{slug: "workos", want: []string{"workos-signature"}},
		{slug: "xero", want: []string{"x-xero-signature"}},
		{slug: "monday"},
		{slug: "okta"},
		{slug: "postmark"},
		{slug: "telegram"},
		{slug: "box", want: []string{"box-signature-primary", "box-signature-secondary"}},
		{slug: "twitch", want: []string{"twitch-eventsub-message-signature"}},
		{slug: "mailgun"},
		{slug: "azure-event-grid"},
		{slug: "auth0"},
		{slug: "chargebee"},
		{slug: "figma"},
		{slug: "microsoft-graph"},
		{slug: "cloudevents"},
		{slug: "generic-token"},
		{slug: "none", settings: verification.Settings{AcceptUnverified: true}},
	} {
		v := connectWith(t, c.slug, c.settings)
		require.Equal(t, c.want, v.SignatureHeaders(), c.slug)
		for _, name := range c.want {
			require.Contains(t, v.RedactHeaders(), name, c.slug)
		}
	}
}
