package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/verification"
)

// The examples of RFC 6750, sections 2.1 and 2.3, are taken where the parameters say so.
func TestGenericTokenVectors(t *testing.T) {
	t.Parallel()
	bearer := verification.Settings{Params: map[string]string{"token_header": "Authorization", "token_prefix": "Bearer "}}
	vector{
		slug: "generic-token", settings: bearer, secret: "mF_9.B5f-4.1JqM", scheme: "token",
		request: deliver(time.Unix(1772600767, 0), "{}", "Authorization", "Bearer mF_9.B5f-4.1JqM"),
		at:      "header:Authorization", label: "Bearer ", text: "mF_9.B5f-4.1JqM", outside: []string{"body"},
	}.check(t)
	vector{
		slug: "generic-token", settings: verification.Settings{Params: map[string]string{"token_query": "access_token"}},
		secret: "mF_9.B5f-4.1JqM", scheme: "token",
		request: at(deliver(time.Unix(1772600767, 0), "{}"), "POST", "access_token=mF_9.B5f-4.1JqM"),
		at:      "query:access_token", text: "mF_9.B5f-4.1JqM", outside: []string{"body"},
	}.check(t)
}

// Without parameters generic-token reads the whole X-Webhook-Token and nothing else, and never the query.
func TestGenericTokenDefaults(t *testing.T) {
	t.Parallel()
	const token = "mF_9.B5f-4.1JqM"
	r := deliver(time.Unix(1772600767, 0), `{"type":"t","id":"1"}`, "X-Webhook-Token", token)
	vector{slug: "generic-token", secret: token, scheme: "token", request: r, at: "header:X-Webhook-Token", text: token,
		outside: []string{"body"}}.check(t)
	v := connect(t, "generic-token", nil, token)
	require.Equal(t, verification.Event{Type: "unknown", TypeSigned: true}, describe(t, v, r))
	require.Equal(t, []string{"x-webhook-token"}, v.RedactHeaders())
	for _, r := range []*verification.Request{
		at(deliver(time.Time{}, "{}"), "POST", "access_token="+token), at(deliver(time.Time{}, "{}"), "POST", "token="+token),
		deliver(time.Time{}, "{}", "Authorization", "Bearer "+token),
	} {
		requireReason(t, v, r, verification.ReasonSignatureMissing)
	}
	requireReason(t, v, deliver(time.Time{}, "{}", "X-Webhook-Token", "Bearer "+token),
		verification.ReasonSignatureMismatch)
}

// The parameters that say where type and id stand do so for generic-token and none alike, none of it is called
// signed, and ids by convention count where no other is there.
func TestGenericTypesAndIDs(t *testing.T) {
	t.Parallel()
	params := map[string]string{
		"event_type_header": "X-Acme-Event", "event_type_pointer": "/kind", "event_id_header": "X-Acme-Id",
		"event_id_pointer": "/meta/id",
	}
	for slug, settings := range map[string]verification.Settings{
		"generic-token": {Params: params}, "none": {Params: params, AcceptUnverified: true},
	} {
		v := connectWith(t, slug, settings)
		for _, tt := range []struct {
			body  string
			pairs []string
			want  verification.Event
		}{
			{`{"kind":"k","meta":{"id":7}}`, []string{"X-Acme-Event", "e", "X-Acme-Id", "h", "webhook-id", "w"},
				verification.Event{Type: "e", ID: "h", IDSource: "header:x-acme-id"}},
			{`{"kind":"k","meta":{"id":7}}`, []string{"webhook-id", "w"}, verification.Event{Type: "k", ID: "7",
				IDSource: "json:/meta/id"}},
			{`{}`, []string{"webhook-id", "w"}, verification.Event{Type: "unknown", ID: "w", IDSource: "header:webhook-id"}},
			{`no JSON`, []string{"ce-source", "/s", "ce-id", "1"}, verification.Event{Type: "unknown", ID: "/s 1",
				IDSource: "header:ce-source+header:ce-id"}},
			{``, nil, verification.Event{Type: "unknown"}},
		} {
			require.Equal(t, tt.want, describe(t, v, deliver(time.Time{}, tt.body, tt.pairs...)), slug)
		}
		for _, header := range []string{"authorization", "Cookie", "x-api-key"} {
			loaded, err := registry.Builtin()
			require.NoError(t, err)
			provider, ok := loaded.Get(slug)
			require.True(t, ok)
			_, err = provider.Webhooks.Bind(verification.Settings{Params: map[string]string{"event_id_header": header},
				AcceptUnverified: true})
			require.ErrorContains(t, err, "stored in clear", slug)
		}
	}
}

// None takes a delivery only of a connection that has said that it takes what nothing proves, has no use for a
// secret, and calls nothing verified.
func TestNone(t *testing.T) {
	t.Parallel()
	loaded, err := registry.Builtin()
	require.NoError(t, err)
	provider, ok := loaded.Get("none")
	require.True(t, ok)
	_, err = provider.Webhooks.Bind(verification.Settings{})
	require.ErrorContains(t, err, "accept_unverified")
	_, err = provider.Webhooks.Bind(verification.Settings{AcceptUnverified: true,
		Secrets: []verification.Secret{{ID: "0", Value: "a secret of no use"}}})
	require.ErrorContains(t, err, "has no use")

	v := connectWith(t, "none", verification.Settings{AcceptUnverified: true})
	r := deliver(time.Time{}, `{}`, "Authorization", "Bearer x")
	require.Nil(t, v.Precheck(r.Header))
	result, refusal := v.Verify(t.Context(), r)
	require.Nil(t, refusal)
	require.Equal(t, verification.Result{Scheme: "none"}, result)
	require.Empty(t, v.HandshakeMethods())
}
