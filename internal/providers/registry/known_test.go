package registry_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/providers/registry"
)

// Types of families that are easily missed in a provider's packages are known: each is one that the provider's
// package or documentation names, so that a subscription to it gets no warning. Families are there where a part is
// the sender's own.
func TestKnownTypesOfFamilies(t *testing.T) {
	t.Parallel()
	shipped, err := registry.Builtin()
	require.NoError(t, err)
	for slug, types := range map[string]string{
		"airtable": "base.changed",
		"github": "projects_v2.closed projects_v2.reopened projects_v2_item.reordered projects_v2_item.restored " +
			"projects_v2_status_update.deleted repository_dispatch.on-demand-test sub_issues.sub_issue_added",
		"shopify": "orders.create customers.data_request customers.redact shop.redact",
		"stripe": "invoice.paid v1.billing.meter.error_report_triggered v2.core.event_destination.ping " +
			"v2.money_management.transaction.created",
		"slack": "app_mention slash_command./deploy",
		"bitbucket": "repo.push pullrequest.created pullrequest.changes_request_removed repo.refs_changed pr.opened " +
			"pr.reviewer.approved repo.comment.added mirror.repo_synchronized",
		"meta":            "page.feed page.message whatsapp_business_account.messages instagram.comments",
		"line":            "message memberJoined delivery",
		"mux":             "video.asset.ready video.live_stream.simulcast_target.idle robots.job.summarize.completed",
		"okta":            "user.lifecycle.create group.user_membership.add application.user_membership.add",
		"paddle":          "transaction.completed subscription.past_due api_key_exposure.created",
		"quickbooks":      "qbo.customer.created.v1 Customer.Create BillPayment.Delete",
		"razorpay":        "payment.captured payment.dispute.under_review product.route.activated account.payments_enabled",
		"recurly":         "account.created subscription.renewal.scheduled dunning_event.created",
		"resend":          "email.bounced contact.created inbox.email.received",
		"supabase":        "INSERT.public.orders send_sms",
		"vercel":          "deployment.succeeded project.domain.verified marketplace.invoice.paid",
		"woocommerce":     "order.created product.published action.woocommerce_add_to_cart",
		"workos":          "dsync.group.user_added authentication.password_failed session.created",
		"xero":            "INVOICE.UPDATE CREDITNOTE.CREATE",
		"sendgrid":        "processed spamreport group_resubscribe account_status_change",
		"typeform":        "form_response form_response_partial",
		"zendesk":         "zen:event-type:ticket.created zen:event-type:user.active_changed",
		"zoom":            "meeting.started recording.completed phone.voicemail_received app_deauthorized",
		"x":               "post.create profile.update.bio tweet_create_events direct_message_events",
		"microsoft":       "created lifecycle.missed Microsoft.Graph.Message.created",
		"microsoft-graph": "deleted lifecycle.subscriptionRemoved Microsoft.Graph.chatMessage.updated",
	} {
		p, ok := shipped.Get(slug)
		require.True(t, ok)
		known := p.Webhooks.KnownTypes()
		for kind := range strings.FieldsSeq(types) {
			require.True(t, slices.ContainsFunc(known, func(k eventtypes.Known) bool {
				family, isFamily := strings.CutSuffix(k.Type, "*")
				return k.Type == kind || isFamily && strings.HasPrefix(kind, family)
			}), "%s %s", slug, kind)
		}
	}
}
