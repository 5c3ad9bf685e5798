package subscriptionshttp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/filters"
)

const minimal = `{"event_types":["*"],"forward_url":"https://198.51.99.7/hook"}`

// A creation with the two mandatory fields gets every documented default, in the documented form, and the generated
// secret that once.
func TestCreateWithDefaults(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		a := s.Do(t, "key", http.MethodPost, path, minimal)
		require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
		require.Equal(t, "no-store", a.Header.Get("Cache-Control"))
		got := a.Object(t)
		subscriptionID, ok := got["id"].(string)
		require.True(t, ok)
		require.Equal(t, path+"/"+subscriptionID, a.Header.Get("Location"))
		secret, ok := got["signing_secret"].(string)
		require.True(t, ok)
		require.Regexp(t, `^whsec_[A-Za-z0-9+/]{43}=$`, secret)
		want := fmt.Sprintf(`{"id":%q,"event_types":["*"],"forward_url":"https://198.51.99.7/hook","has_signing_secret":true,
			"signing_secret_hint":%q,"retiring_signing_secrets":[],"disabled_reason":null,"headers":{},
			"health":{"state":"healthy","failing_since":null,"next_probe_at":null,"consecutive_failures":0,
			"success_rate_1h":null,"p95_ms":null},
			"created_at":"2025-06-15T15:06:40.123Z","updated_at":"2025-06-15T15:06:40.123Z"`,
			subscriptionID, secret[len(secret)-4:])
		for _, f := range writables() {
			want += fmt.Sprintf(",%q:%s", f.name, f.initial)
		}
		want += "}"
		read := s.Do(t, "key", http.MethodGet, path+"/"+subscriptionID, "")
		require.JSONEq(t, want, string(read.Body))
		delete(got, "signing_secret")
		require.Equal(t, []any{}, got["warnings"])
		delete(got, "warnings")
		rest, err := json.Marshal(got)
		require.NoError(t, err)
		require.JSONEq(t, want, string(rest))
	})
}

// A caller's values come back, except secrets: those show at most their last four characters, and a secret that the
// caller chose is never returned.
func TestCreateWithEverything(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		a := s.Do(t, "developer", http.MethodPost, path, `{"event_types":["issues.*","push"],
			"forward_url":"https://198.51.99.7/hook?a=SECRET&b",
			"provider_config_key":"github","connection_id":"acme","signing_secret":"SECRET-of-the-caller","description":"d",
			"enabled":false,"payload_mode":"raw","retry_schedule_seconds":[],"timeout_ms":1000,
			"headers":{"Authorization":"Bearer SECRET-token","X-Short":"SECRET"},
			"metadata":{"n":12345678901234567890,"z":null}}`)
		require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
		require.NotContains(t, strings.Replace(string(a.Body), "a=SECRET", "", 1), "SECRET")
		require.Contains(t, string(a.Body), `"metadata":{"n":12345678901234567890,"z":null}`)
		got := a.Object(t)
		require.NotContains(t, got, "signing_secret")
		require.Equal(t, "ller", got["signing_secret_hint"])
		require.Equal(t, map[string]any{"Authorization": "…oken", "X-Short": "[redacted]"}, got["headers"])
		require.Equal(t, []any{}, got["retry_schedule_seconds"])
		require.Equal(t, "https://198.51.99.7/hook?a=SECRET&b", got["forward_url"])

		// A viewer may see where events go, not the credentials in the query.
		item := fmt.Sprintf("%s/%s", path, got["id"])
		for _, target := range []string{item, path} {
			viewed := s.Do(t, "viewer", http.MethodGet, target, "")
			require.Equal(t, http.StatusOK, viewed.Status)
			require.Contains(t, string(viewed.Body), `"forward_url":"https://198.51.99.7/hook?a=***`)
			require.NotContains(t, string(viewed.Body), "SECRET")
		}
	})
}

// Validation errors of the schema and of the rules are in one response, each once, and unknown fields are refused.
func TestViolationsComeTogether(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		for name, c := range map[string]struct {
			body string
			want []string
		}{
			"nothing":   {`{}`, []string{"body.event_types required", "body.forward_url required"}},
			"no object": {`[]`, []string{"body type"}},
			"rules of every kind": {`{"event_types":["a*","b"],"forward_url":"https://10.0.0.1/","connection_id":"none",
				"timeout_ms":1,"payload_mode":"xml","description":"` + strings.Repeat("a", 1001) + `"}`,
				[]string{"body.event_types[0] pattern", "body.forward_url target_refused", "body.connection_id exists",
					"body.timeout_ms minimum", "body.payload_mode enum", "body.description max_length"}},
			"schema and rules": {`{"event_types":["a*"],"forward_url":"ftp://198.51.99.7/","timeout_ms":1,"bogus":true}`,
				[]string{"body.bogus unknown_field", "body.event_types[0] pattern", "body.forward_url scheme_refused",
					"body.timeout_ms minimum"}},
			"a type and nothing else": {`{"enabled":"yes","forward_url":"https://198.51.99.7/","event_types":["*"]}`,
				[]string{"body.enabled type"}},
			"types and unknown fields": {`{"enabled":"yes","bogus":true,"event_types":["a*"]}`,
				[]string{"body.enabled type", "body.bogus unknown_field", "body.forward_url required"}},
			"filter and rules": {`{"event_types":["*"],"forward_url":"https://198.51.99.7/","filter":"event.typ == 1 || ` +
				`event.type > 1","bogus":1}`,
				[]string{"body.bogus unknown_field", "body.filter reference", "body.filter type"}},
			"missing and rules": {`{"forward_url":"https://198.51.99.7/","signing_secret":"short"}`,
				[]string{"body.event_types required", "body.signing_secret min_length"}},
			"null": {`{"event_types":null,"forward_url":"https://198.51.99.7/","enabled":null,"timeout_ms":1}`,
				[]string{"body.event_types not_null", "body.enabled not_null", "body.timeout_ms minimum"}},
			"null and rules": {`{"event_types":["a*"],"forward_url":"https://198.51.99.7/","enabled":null,"timeout_ms":1}`,
				[]string{"body.event_types[0] pattern", "body.enabled not_null", "body.timeout_ms minimum"}},
			"null among headers": {`{"event_types":["*"],"forward_url":"https://198.51.99.7/","headers":{"X-A":null}}`,
				[]string{"body.headers.X-A not_null"}},
			"not built": {`{"event_types":["*"],"forward_url":"https://198.51.99.7/","delivery_mode":"at_least_once",
				"ordering_key":"/a","max_rate_per_second":1,"max_in_flight":1,"health":{},"secret_grace_seconds":0,"id":"x",
				"disabled_reason":"x"}`,
				[]string{"body.delivery_mode unknown_field", "body.ordering_key unknown_field",
					"body.max_rate_per_second unknown_field", "body.max_in_flight unknown_field", "body.health unknown_field",
					"body.secret_grace_seconds unknown_field", "body.id unknown_field", "body.disabled_reason unknown_field"}},
			"not built mode": {`{"event_types":["*"],"forward_url":"https://198.51.99.7/","payload_mode":"cloudevents"}`,
				[]string{"body.payload_mode enum"}},
		} {
			require.ElementsMatch(t, c.want, s.Do(t, "key", http.MethodPost, path, c.body).Violations(t), name)
		}
		require.Equal(t, []string{"body json"}, s.Do(t, "key", http.MethodPost, path, `{"event_types":`).Violations(t)[:1])
		require.Equal(t, "[]\n", string(s.Do(t, "key", http.MethodGet, path, "").Body), "nothing was stored")
	})
}

// A patch keeps what it does not name, clears by null what can be cleared, and refuses null elsewhere.
func TestPatch(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		item := path + "/" + s.create(t, `{"event_types":["*"],"forward_url":"https://198.51.99.7/hook",
			"provider_config_key":"github",
			"connection_id":"acme","description":"d","filter":"event.type != \"a\"","headers":{"X-A":"1","X-B":"2"},
			"metadata":{"a":1,"b":{"c":2}}}`)
		before := s.Do(t, "key", http.MethodGet, item, "").Object(t)

		a := s.Do(t, "key", http.MethodPatch, item, `{}`)
		require.Equal(t, http.StatusOK, a.Status)
		after := a.Object(t)
		require.Equal(t, []any{}, after["warnings"])
		delete(after, "warnings")
		require.Equal(t, before, after, "an empty patch changes nothing, not even the time")

		a = s.Do(t, "key", http.MethodPatch, item,
			`{"headers":{"x-a":null,"X-C":"3"},"metadata":{"b":{"c":null}},"timeout_ms":2000}`)
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
		got := a.Object(t)
		require.Equal(t, map[string]any{"X-B": "[redacted]", "X-C": "[redacted]"}, got["headers"])
		require.Equal(t, map[string]any{"a": 1.0, "b": map[string]any{}}, got["metadata"])
		require.InDelta(t, 2000, got["timeout_ms"], 0)
		require.Equal(t, "d", got["description"])
		require.Equal(t, `event.type != "a"`, got["filter"])
		require.NotEqual(t, before["updated_at"], got["updated_at"])

		a = s.Do(t, "key", http.MethodPatch, item,
			`{"provider_config_key":null,"connection_id":null,"description":null,"filter":null,"headers":null,"metadata":null}`)
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
		got = a.Object(t)
		require.Nil(t, got["provider_config_key"])
		require.Nil(t, got["connection_id"])
		require.Empty(t, got["description"])
		require.Nil(t, got["filter"])
		require.Equal(t, map[string]any{}, got["headers"])
		require.Equal(t, map[string]any{}, got["metadata"])

		a = s.Do(t, "key", http.MethodPatch, item,
			`{"signing_secret":"another secret of 16 bytes","secret_grace_seconds":60}`)
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
		old := a.Object(t)["retiring_signing_secrets"]
		require.Equal(t, []any{map[string]any{"hint": before["signing_secret_hint"],
			"signs_until": "2025-06-15T15:07:40.123Z"}}, old)
		require.Equal(t, []string{"body.secret_grace_seconds coherent"}, s.Do(t, "key", http.MethodPatch, item,
			`{"secret_grace_seconds":60}`).Violations(t))
		require.Empty(t, s.Do(t, "key", http.MethodPatch, item, `{"secret_grace_seconds":0}`).Object(
			t)["retiring_signing_secrets"])

		got = s.Do(t, "key", http.MethodPatch, item, `{"signing_secret":null,"secret_grace_seconds":60}`).Object(t)
		secret, _ := got["signing_secret"].(string)
		require.True(t, strings.HasPrefix(secret, "whsec_"), got)
		require.Equal(t, secret[len(secret)-4:], got["signing_secret_hint"])
		require.Len(t, got["retiring_signing_secrets"], 1)

		require.ElementsMatch(t, []string{
			"body.event_types not_null", "body.forward_url not_null", "body.enabled not_null",
			"body.payload_mode not_null", "body.retry_schedule_seconds not_null", "body.timeout_ms not_null",
		}, s.Do(t, "key", http.MethodPatch, item, `{"event_types":null,"forward_url":null,
			"enabled":null,"payload_mode":null,"retry_schedule_seconds":null,"timeout_ms":null}`).Violations(t))
		require.Equal(t, []string{"body.signing_secret_hint unknown_field", "body.event_types min_items"},
			s.Do(t, "key", http.MethodPatch, item, `{"signing_secret_hint":"x","event_types":[]}`).Violations(t))
	})
}

// The list is newest first, pages by cursor, and its filters narrow as documented.
func TestList(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		first := s.create(t, minimal)
		second := s.create(t, `{"event_types":["*"],"forward_url":"https://198.51.99.7/","provider_config_key":"github"}`)
		third := s.create(t, `{"event_types":["*"],"forward_url":"https://198.51.99.7/","connection_id":"acme",`+
			`"enabled":false}`)
		ids := func(query string) []string {
			var rows []struct{ ID string }
			a := s.Do(t, "key", http.MethodGet, path+query, "")
			require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
			a.Into(t, &rows)
			out := []string{}
			for _, r := range rows {
				out = append(out, r.ID)
			}
			return out
		}
		require.Equal(t, []string{third, second, first}, ids(""))
		require.Equal(t, []string{first, second, third}, ids("?order=asc"))
		require.Equal(t, []string{second}, ids("?provider_config_key=github,none"))
		require.Equal(t, []string{third}, ids("?connection_id=none&connection_id=acme"))
		require.Equal(t, []string{second, first}, ids("?enabled=true"))
		require.Equal(t, []string{third, second, first}, ids("?enabled=true,false"))
		require.Empty(t, ids("?enabled=false&provider_config_key=github"))
		require.Equal(t, []string{"query.connection_id[0] text"}, s.Do(t, "key", http.MethodGet, path+"?connection_id=%00",
			"").Violations(t))

		a := s.Do(t, "key", http.MethodGet, path+"?limit=2", "")
		require.Contains(t, a.Header.Get("Link"), `rel="next"`)
		cursor := a.Header.Get("X-Next-Cursor")
		require.Equal(t, []string{first}, ids("?limit=2&cursor="+cursor))
		require.Equal(t, []string{"query.cursor cursor"}, s.Do(t, "key", http.MethodGet, path+"?enabled=true&cursor="+cursor,
			"").Violations(t))
		require.Equal(t, []string{"query.enabled[0] enum"}, s.Do(t, "key", http.MethodGet, path+"?enabled=yes",
			"").Violations(t))
		require.Equal(t, []string{"query.bogus unknown_parameter"}, s.Do(t, "key", http.MethodGet, path+"?bogus=1",
			"").Violations(t))
	})
}

// Another environment's subscription, a deleted one and an id that cannot be one are the same 404 to every operation.
func TestNotFound(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		kept, deleted := s.create(t, minimal), s.create(t, minimal)
		a := s.Do(t, "key", http.MethodDelete, path+"/"+deleted, "")
		require.Equal(t, http.StatusNoContent, a.Status)
		require.Empty(t, a.Body)
		for _, c := range [][2]string{{"foreign", kept}, {"key", deleted}, {"key", "sub_none"}} {
			for method, body := range map[string]string{http.MethodGet: "", http.MethodPatch: `{"enabled":false}`,
				http.MethodDelete: ""} {
				a := s.Do(t, c[0], method, path+"/"+c[1], body)
				require.Equal(t, http.StatusNotFound, a.Status, "%s %v", method, c)
				require.Equal(t, "not_found", a.Code(t))
			}
		}
		require.Equal(t, "[]\n", string(s.Do(t, "foreign", http.MethodGet, path, "").Body))
		require.Equal(t, http.StatusOK, s.Do(t, "key", http.MethodGet, path+"/"+kept, "").Status)
	})
}

// A viewer reads and writes nothing; a key without the webhooks grant does neither; no one does without a credential.
func TestAccess(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		item := path + "/" + s.create(t, minimal)
		for _, c := range []struct{ method, target, body string }{
			{http.MethodPost, path, minimal}, {http.MethodPatch, item, `{}`}, {http.MethodDelete, item, ""},
		} {
			a := s.Do(t, "viewer", c.method, c.target, c.body)
			require.Equal(t, http.StatusForbidden, a.Status, c.method)
			require.Equal(t, "forbidden", a.Code(t))
		}
		for _, target := range []string{path, item} {
			require.Equal(t, http.StatusOK, s.Do(t, "viewer", http.MethodGet, target, "").Status)
			require.Equal(t, "grant_denied", s.Do(t, "narrow", http.MethodGet, target, "").Code(t))
			require.Equal(t, http.StatusUnauthorized, s.Do(t, "", http.MethodGet, target, "").Status)
		}
	})
}

// The document states the limits and hides secrets, although the checks are not the schema's.
func TestDocument(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		raw, err := newServer(t, store).API.Document()
		require.NoError(t, err)
		var doc struct {
			Components struct {
				Schemas map[string]struct {
					Required   []string
					Properties map[string]map[string]any
				}
			}
		}
		require.NoError(t, json.Unmarshal(raw, &doc))
		schemas := doc.Components.Schemas
		creation := schemas["subscriptions.Creation"]
		require.Equal(t, []string{"event_types", "forward_url"}, creation.Required)
		require.Equal(t, true, creation.Properties["signing_secret"]["writeOnly"])
		require.Equal(t, true, creation.Properties["headers"]["writeOnly"])
		require.Equal(t, []any{"envelope", "raw"}, creation.Properties["payload_mode"]["enum"])
		require.InDelta(t, 30000, creation.Properties["timeout_ms"]["maximum"], 0)
		require.InDelta(t, 100, creation.Properties["event_types"]["maxItems"], 0)
		require.InDelta(t, filters.MaxLength, creation.Properties["filter"]["maxLength"], 0)
		require.Equal(t, []any{"string", "null"}, creation.Properties["filter"]["type"])
		require.Equal(t, []any{"string", "null"}, creation.Properties["connection_id"]["type"])
		for _, f := range writables() {
			if f.name == "retry_schedule_seconds" {
				described, _ := creation.Properties[f.name]["description"].(string)
				require.Contains(t, strings.ReplaceAll(described, ", ", ","), "Default `"+f.initial+"`")
			}
		}
		created := schemas["subscriptions.SubscriptionCreated"].Properties["signing_secret"]
		require.Equal(t, true, created["readOnly"])
		require.Regexp(t, "^Generated", created["description"])
		require.Empty(t, schemas["subscriptions.Patch"].Required)
		for name, schema := range schemas {
			for property, p := range schema.Properties {
				if strings.HasPrefix(name, "subscriptions.") && p["$ref"] == nil { // those of the other schema have theirs
					require.NotEmpty(t, p["description"], "%s.%s", name, property)
				}
			}
		}
	})
}
