package subscriptions_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/subscriptions"
)

// violationsOf returns the entries of a validation error as "location rule".
func violationsOf(t *testing.T, err error) []string {
	t.Helper()
	var e *apperr.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, apperr.CodeValidation, e.Code)
	var out []string
	for _, d := range e.Details {
		require.NotEmpty(t, d.Message)
		out = append(out, d.Location+" "+d.Rule)
	}
	return out
}

// Each rule refuses what breaks it, at its field and by its name, on creation and on change alike.
func TestRules(t *testing.T) {
	t.Parallel()
	url := func(raw string) func(*subscriptions.Change) {
		return func(ch *subscriptions.Change) { ch.ForwardURL = patch.Some(raw) }
	}
	secret := func(s string) func(*subscriptions.Change) {
		return func(ch *subscriptions.Change) { ch.SigningSecret = patch.To(secretbox.Secret(s)) }
	}
	header := func(name, value string) func(*subscriptions.Change) {
		return func(ch *subscriptions.Change) { ch.Headers = patch.To(map[string]*string{name: &value}) }
	}
	types := func(list ...string) func(*subscriptions.Change) {
		return func(ch *subscriptions.Change) { ch.EventTypes = patch.Some(list) }
	}
	cases := []struct {
		name string
		set  func(*subscriptions.Change)
		want []string
	}{
		{"no pattern", types(), []string{"event_types min_items"}},
		{"101 patterns", types(make([]string, 101)...), []string{"event_types max_items"}},
		{"bad patterns", types("a*", "a..b", "ok", "", "ok", strings.Repeat("a", 257)), []string{
			"event_types[0] pattern", "event_types[1] pattern", "event_types[3] min_length",
			"event_types[4] unique", "event_types[5] max_length"}},
		{"private target", url("https://10.0.0.1/"), []string{"forward_url target_refused"}},
		{"loopback target", url("https://localhost/"), []string{"forward_url target_refused"}},
		{"metadata service", url("https://169.254.169.254/latest"), []string{"forward_url target_refused"}},
		{"plain http", url("http://198.51.99.7/"), []string{"forward_url scheme_refused"}},
		{"other scheme", url("ftp://198.51.99.7/"), []string{"forward_url scheme_refused"}},
		{"userinfo", url("https://a:b@198.51.99.7/"), []string{"forward_url userinfo_refused"}},
		{"no URL", url("nowhere"), []string{"forward_url url_invalid"}},
		{"no host", url("https://:443/"), []string{"forward_url url_invalid"}},
		{"fragment", url("https://198.51.99.7/#a"), []string{"forward_url url_invalid"}},
		{"long URL", url("https://198.51.99.7/" + strings.Repeat("a", 2048)), []string{"forward_url url_invalid"}},
		{"short secret", secret("fifteen bytes.."), []string{"signing_secret min_length"}},
		{"long secret", secret(strings.Repeat("a", 257)), []string{"signing_secret max_length"}},
		{"secret of a broken paste", secret("a secret with a newline\n"), []string{"signing_secret pattern"}},
		{"whsec_ of 23 bytes", secret("whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 23))),
			[]string{"signing_secret pattern"}},
		{"whsec_ of 24 bytes", secret("whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 24))), nil},
		{"whsec_ of 64 bytes", secret("whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 64))), nil},
		{"whsec_ of 65 bytes", secret("whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))),
			[]string{"signing_secret pattern"}},
		{"whsec no base64", secret("whsec_" + strings.Repeat("?", 40)), []string{"signing_secret pattern"}},
		{"description", func(ch *subscriptions.Change) { ch.Description = patch.To(strings.Repeat("é", 1001)) },
			[]string{"description max_length"}},
		{"description PostgreSQL cannot hold", func(ch *subscriptions.Change) { ch.Description = patch.To("a\x00") },
			[]string{"description pattern"}},
		{"payload mode", func(ch *subscriptions.Change) {
			ch.PayloadMode = patch.Some(subscriptions.PayloadMode("cloudevents"))
		},
			[]string{"payload_mode enum"}},
		{"schedule", func(ch *subscriptions.Change) {
			ch.RetrySchedule = patch.Some([]float64{0.1, 0.09, 604800, 604800.1})
		},
			[]string{"retry_schedule_seconds[1] minimum", "retry_schedule_seconds[3] maximum"}},
		{"long schedule", func(ch *subscriptions.Change) { ch.RetrySchedule = patch.Some(make([]float64, 51)) },
			[]string{"retry_schedule_seconds max_items"}},
		{"short timeout", func(ch *subscriptions.Change) {
			ch.TimeoutMs = patch.Some(int64(999))
		}, []string{"timeout_ms minimum"}},
		{"long timeout", func(ch *subscriptions.Change) {
			ch.TimeoutMs = patch.Some(int64(30001))
		}, []string{"timeout_ms maximum"}},
		{"header name", header("X A", "v"), []string{"headers pattern"}},
		{"long header name", header(strings.Repeat("a", 129), "v"), []string{"headers pattern"}},
		{"header value", header("X-A", "a\r\nX-B: b"), []string{"headers.X-A pattern"}},
		{"header value ends in a blank", header("X-A", "a "), []string{"headers.X-A pattern"}},
		{"long header value", header("X-A", strings.Repeat("a", 4097)), []string{"headers.X-A max_length"}},
		{"same header twice", func(ch *subscriptions.Change) {
			ch.Headers = patch.To(map[string]*string{"X-A": ptr("1"), "x-a": ptr("2")})
		}, []string{"headers.x-a unique"}},
		{"21 headers", func(ch *subscriptions.Change) {
			many := map[string]*string{}
			for i := range 21 {
				many[fmt.Sprintf("X-%d", i)] = ptr("v")
			}
			ch.Headers = patch.To(many)
		}, []string{"headers max_properties"}},
		{"metadata", func(ch *subscriptions.Change) {
			ch.Metadata = patch.To(patch.Object{"a": strings.Repeat("a", 16<<10)})
		}, []string{"metadata max_length"}},
		{"unknown provider configuration", func(ch *subscriptions.Change) { ch.ProviderConfigKey = patch.To("none") },
			[]string{"provider_config_key exists"}},
		{"unknown connection", func(ch *subscriptions.Change) { ch.ConnectionID = patch.To("none") },
			[]string{"connection_id exists"}},
		{"connection that no database can hold", func(ch *subscriptions.Change) {
			ch.ConnectionID = patch.To("a\x00")
		},
			[]string{"connection_id exists"}},
		{"connection of another provider", func(ch *subscriptions.Change) {
			ch.ProviderConfigKey, ch.ConnectionID = patch.To("slack"), patch.To("acme")
		}, []string{"connection_id exists"}},
		{"empty names", func(ch *subscriptions.Change) {
			ch.ProviderConfigKey, ch.ConnectionID = patch.To(""), patch.To("")
		}, []string{"provider_config_key min_length", "connection_id min_length"}},
	}
	for _, name := range []string{"Host", "connection", "Keep-Alive", "Proxy-Authorization", "TE", "Trailer",
		"Transfer-Encoding", "Upgrade", "Expect", "Accept-Encoding", "Content-Type", "Webhook-Id", "webhook-timestamp",
		"webhook-signature", "Sallyport-Anything", "User-Agent", "user_agent", "Webhook_Signature", "webhook_id",
		"WEBHOOK_TIMESTAMP", "Webhook.Signature", "Sallyport_Hops", "Content_Type", "Transfer_Encoding"} {
		cases = append(cases, struct {
			name string
			set  func(*subscriptions.Change)
			want []string
		}{"refused header " + name, header(name, "v"), []string{"headers." + name + " reserved"}})
	}
	cases = append(cases, struct {
		name string
		set  func(*subscriptions.Change)
		want []string
	}{"names that only resemble refused ones", func(ch *subscriptions.Change) {
		ch.Headers = patch.To(map[string]*string{"X_Webhook_Id": ptr("v"), "Webhook-Ids": ptr("v"),
			"Agent": ptr("v")})
	}, nil})
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.create(t, "*")
		for _, c := range cases {
			creation := change("*")
			c.set(&creation)
			var update subscriptions.Change
			c.set(&update)
			_, _, createErr := w.Create(t.Context(), w.p, creation)
			_, updateErr := w.Update(t.Context(), w.p, sub.ID, update)
			if len(c.want) == 0 {
				require.NoError(t, createErr, c.name)
				require.NoError(t, updateErr, c.name)
				continue
			}
			require.Equal(t, c.want, violationsOf(t, createErr), c.name)
			require.Equal(t, c.want, violationsOf(t, updateErr), c.name)
		}
	})
}

// All validation errors of a request are reported together, from all rules, and none contains a value.
func TestAllViolationsTogether(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		_, _, err := w.Create(t.Context(), w.p,
			subscriptions.Change{ForwardURL: patch.Some("https://10.6.6.6/OFFENDING"),
				Headers: patch.To(map[string]*string{"OFFENDING NAME": ptr("OFFENDING")}),
				Settings: subscriptions.Settings{SigningSecret: patch.To(secretbox.Secret("OFFENDING")),
					TimeoutMs: patch.Some(int64(1)), ProviderConfigKey: patch.To("OFFENDING"),
					Filter: patch.To(`OFFENDING == event.OFFENDING`)}})
		require.ElementsMatch(t, []string{
			"event_types required", "forward_url target_refused", "signing_secret min_length",
			"timeout_ms minimum", "provider_config_key exists", "headers pattern",
			"filter reference", "filter reference",
		}, violationsOf(t, err))
		var e *apperr.Error
		require.ErrorAs(t, err, &e)
		for _, d := range e.Details {
			require.NotContains(t, d.Location+d.Message, "OFFENDING")
		}
	})
}

// Moving a subscription to a provider configuration without its connection is refused at the field that was sent. A
// connection that was deleted later does not block other changes.
func TestScopeOfAChange(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		ch := change("*")
		ch.ConnectionID = patch.To("acme")
		sub, _, err := w.Create(t.Context(), w.p, ch)
		require.NoError(t, err)
		_, err = w.Update(t.Context(), w.p, sub.ID,
			subscriptions.Change{Settings: subscriptions.Settings{ProviderConfigKey: patch.To("slack")}})
		require.Equal(t, []string{"provider_config_key exists"}, violationsOf(t, err))
		w.exec(t, "UPDATE webhook_subscriptions SET connection_id = 'gone' WHERE id = $1", sub.ID)
		_, err = w.Update(t.Context(), w.p, sub.ID,
			subscriptions.Change{Settings: subscriptions.Settings{Description: patch.To("still mine")}})
		require.NoError(t, err)
	})
}

// A header that is refused today, and was accepted when it was stored, can be taken away.
func TestRefusedHeaderCanBeRemoved(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.create(t, "*")
		_, err := w.Update(t.Context(), w.p, sub.ID, subscriptions.Change{
			Headers: patch.To(map[string]*string{"User-Agent": nil, "Webhook_Id": nil, "X-New": ptr("v")}),
		})
		require.NoError(t, err)
	})
}
