package subscriptions

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/providers/registry"
)

// A pattern that no known type fits suggests the type that is probably meant: with its action, in the provider's own
// spelling, within the family that it belongs to, or the nearest one. Another word suggests none.
func TestNearestType(t *testing.T) {
	t.Parallel()
	shipped, err := registry.Builtin()
	require.NoError(t, err)
	for slug, cases := range map[string]map[string]string{
		"github": {"issues": "issues.*", "pull_request": "pull_request.*", "issue.opened": "issues.opened",
			"issue.*": "issues.*", "Issues.Opened": "issues.opened", "puhs": "push",
			"pull-request.opened": "pull_request.opened",
			"repository_dispatch": "repository_dispatch.*", "invoice.paid": "", "acme.*": "", "user.created": ""},
		"shopify": {"ORDERS_CREATE": "orders/create", "order/create": "orders/create", "orders.craete": "orders/create",
			"order/*": "orders/*", "orders": "orders.*", "SHOP_REDACT": "shop/redact", "push": ""},
		"slack": {"/deploy": "slash_command./deploy", "slash_command": "slash_command.*", "app_mentions": "app_mention",
			"AppMention": "app_mention", "~": "slash_command.~", "*.*.*": ""},
		"stripe": {"invoice_paid": "invoice.paid", "invoices.paid": "invoice.paid", "invoice": "invoice.*",
			"/invoice": ""},
	} {
		provider := knownProvider(t, shipped, slug)
		for text, want := range cases {
			require.Equal(t, want, nearestType([]*eventtypes.Provider{provider}, text), "%s %s", slug, text)
		}
	}
	require.Empty(t, nearestType(nil, "issues"))
}

// Every suggestion is a pattern that a known type fits.
func TestNearestTypeFits(t *testing.T) {
	t.Parallel()
	shipped, err := registry.Builtin()
	require.NoError(t, err)
	list := []*eventtypes.Provider{knownProvider(t, shipped, "shopify"), knownProvider(t, shipped, "slack")}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`[a-zA-Z/._*-]{0,30}`), rapid.Custom(func(t *rapid.T) string {
			known := list[rapid.IntRange(0, 1).Draw(t, "provider")].Known
			text := rapid.SampledFrom(known).Draw(t, "known").Written
			at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
			return text[:at] + rapid.StringMatching(`[a-z/.*]?`).Draw(t, "letter") + text[at+1:]
		})).Draw(t, "text")
		for _, p := range list {
			one := []*eventtypes.Provider{p}
			if nearest := nearestType(one, text); nearest != "" && !strings.HasPrefix(nearest, "slash_command.") &&
				!mayFit(one, nearest) {
				t.Fatalf("%q suggests %q, which fits no type of %s", text, nearest, p.Name)
			}
		}
	})
}

func knownProvider(t *testing.T, shipped *registry.Registry, slug string) *eventtypes.Provider {
	t.Helper()
	p, ok := shipped.Get(slug)
	require.True(t, ok)
	return &eventtypes.Provider{Slug: slug, Name: p.Definition.DisplayName, Rules: p.Webhooks.TypeRules(),
		Known: p.Webhooks.KnownTypes()}
}
