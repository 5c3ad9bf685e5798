package subscriptions_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/subscriptions"
)

// A subscription cannot send the gateway's events back into the gateway, with any spelling of its public URL, neither
// when it is created nor when it is changed. A URL that merely resembles it is accepted.
func TestTargetIsNotTheGateway(t *testing.T) {
	t.Parallel()
	cases := []struct {
		public  string
		refused []string
		allowed []string
	}{
		{"https://gateway.example", []string{
			"https://gateway.example", "https://gateway.example/", "https://gateway.example:443/api/v1/webhook/acme",
			"https://GATEWAY.example/api/v1/webhook/acme?a=b", "https://gateway.example./api/v1/webhook/acme",
			"http://gateway.example/api/v1/webhook/acme", "http://gateway.example:80/hooks",
		}, []string{
			"https://gateway.example:8443/api/v1/webhook/acme", "https://hooks.gateway.example/", "https://gateway.example.org/",
			"https://example/gateway.example/api/v1/webhook/acme", "http://gateway.example:443/",
		}},
		{"https://gateway.example:8443", []string{
			"https://gateway.example:8443/api/v1/webhook/acme", "http://gateway.example:8443/api/v1/webhook/acme",
		}, []string{"https://gateway.example/api/v1/webhook/acme"}},
		{"http://127.0.0.1:8080", []string{
			"http://127.0.0.1:8080/api/v1/webhook/acme", "http://localhost:8080/", "http://app.localhost:8080/",
			"http://[::1]:8080/", "http://127.8.9.1:8080/", "http://[::ffff:127.0.0.1]:8080/", "http://0.0.0.0:8080/",
			"http://[::]:8080/",
		}, []string{"http://127.0.0.1:8081/api/v1/webhook/acme", "http://localhost/", "http://198.51.99.7:8080/"}},
		{"https://198.51.99.7", []string{"https://198.51.99.7/api/v1/webhook/acme", "https://[::ffff:198.51.99.7]/"},
			[]string{"https://198.51.99.70/"}},
		{"", nil, []string{"https://gateway.example/api/v1/webhook/acme"}},
	}
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		lax := egress.New(egress.Policy{AllowHTTP: true, AllowLoopback: true}, egress.Options{})
		t.Cleanup(lax.Close)
		for _, c := range cases {
			w.cfg.Targets, w.cfg.PublicURL = lax, c.public
			s := w.process()
			for target, want := range both(c.refused, c.allowed) {
				creation := change("*")
				creation.ForwardURL = patch.Some(target)
				sub := w.create(t, "*")
				_, _, createErr := s.Create(t.Context(), w.p, creation)
				_, updateErr := s.Update(t.Context(), w.p, sub.ID, subscriptions.Change{ForwardURL: patch.Some(target)})
				if want {
					require.NoError(t, createErr, "%s at %s", target, c.public)
					require.NoError(t, updateErr, "%s at %s", target, c.public)
					continue
				}
				require.Equal(t, []string{"forward_url forward_loop"}, violationsOf(t, createErr), "%s at %s", target, c.public)
				require.Equal(t, []string{"forward_url forward_loop"}, violationsOf(t, updateErr), "%s at %s", target, c.public)
			}
		}
	})
}

// both maps the refused to false and the allowed to true.
func both(refused, allowed []string) map[string]bool {
	out := map[string]bool{}
	for _, target := range refused {
		out[target] = false
	}
	for _, target := range allowed {
		out[target] = true
	}
	return out
}
