package identityhttp_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/apikeys"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/id"
)

// The life of a key: made with defaults, shown once, used, listed without its secret, revoked at once, deleted.
func TestKeyLife(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		r := s.as(http.MethodPost, "/api-keys", map[string]any{
			"name": "billing", "environment_id": s.development(),
			"grants": []any{map[string]any{"routes": []string{"webhooks"}}},
		})
		require.Equal(t, http.StatusCreated, r.status, r.text)
		require.Equal(t, "no-store", r.header.Get("Cache-Control"))
		k := r.body(t)
		keyID, _ := k["id"].(string)
		key, _ := k["key"].(string)
		require.Equal(t, "/api/v1/api-keys/"+keyID, r.header.Get("Location"))
		require.Equal(t, "active", k["status"])
		require.Equal(t, "2026-11-02T09:30:00.000Z", k["created_at"])
		require.Equal(t, "2027-01-31T09:30:00.000Z", k["expires_at"])
		require.Nil(t, k["revoked_at"])
		require.Contains(t, k, "revoked_at")
		require.True(t, strings.HasPrefix(key, "spk_test_"))
		grants, _ := k["grants"].([]any)
		require.Len(t, grants, 1)
		g, _ := grants[0].(map[string]any)
		delete(g, "id")
		require.Equal(t, map[string]any{"effect": "allow", "routes": []any{"webhooks"}, "connections": []any{"*"},
			"not_after": nil}, g)

		used := s.probe(key)
		require.Equal(t, http.StatusOK, used.status, used.text)
		require.Equal(t, s.development(), used.body(t)["environment"])

		got := s.as(http.MethodGet, "/api-keys/"+keyID, nil)
		require.Equal(t, http.StatusOK, got.status)
		require.NotContains(t, got.text, strings.Split(key, "_")[3])
		require.NotContains(t, got.body(t), "key")
		require.Equal(t, got.body(t), s.as(http.MethodGet, "/api-keys", nil).list(t)[0])

		s.clk.Advance(1500 * time.Millisecond)
		revoked := s.as(http.MethodPost, "/api-keys/"+keyID+"/revoke", nil)
		require.Equal(t, http.StatusOK, revoked.status, revoked.text)
		require.Equal(t, "revoked", revoked.body(t)["status"])
		require.Equal(t, "2026-11-02T09:30:01.500Z", revoked.body(t)["revoked_at"])
		require.Equal(t, http.StatusUnauthorized, s.probe(key).status)
		require.Equal(t, revoked.text, s.as(http.MethodPost, "/api-keys/"+keyID+"/revoke", nil).text)

		deleted := s.as(http.MethodDelete, "/api-keys/"+keyID, nil)
		require.Equal(t, http.StatusNoContent, deleted.status)
		require.Empty(t, deleted.text)
		for _, again := range []reply{
			s.as(http.MethodDelete, "/api-keys/"+keyID, nil),
			s.as(http.MethodGet, "/api-keys/"+keyID, nil),
			s.as(http.MethodPost, "/api-keys/"+keyID+"/revoke", nil),
			s.as(http.MethodGet, "/api-keys/nonsense", nil),
			s.as(http.MethodGet, "/api-keys/"+strings.Repeat("x", 500), nil),
		} {
			require.Equal(t, http.StatusNotFound, again.status, again.text)
			require.Equal(t, "not_found", again.code(t))
		}
		require.JSONEq(t, "[]", s.as(http.MethodGet, "/api-keys", nil).text)
	})
}

// Grants decide what a key may do; the answer names what is missing, and expiry is told to the holder of the secret.
func TestKeyRights(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		grant := func(effect string, routes ...string) map[string]any {
			return map[string]any{"effect": effect, "routes": routes, "connections": []string{"*"}}
		}
		for name, grants := range map[string][]any{
			"no grants":       {},
			"another route":   {grant("allow", "connections")},
			"denied":          {grant("allow", "events"), grant("deny", "events")},
			"denied together": {grant("deny", "events"), grant("allow", "webhooks")},
		} {
			k := s.create(map[string]any{"name": name, "environment_id": s.development(), "grants": grants})
			key, _ := k["key"].(string)
			r := s.probe(key)
			require.Equal(t, http.StatusForbidden, r.status, name)
			require.Equal(t, "grant_denied", r.code(t), name)
			require.Contains(t, r.text, "events", name)
		}
		k := s.create(map[string]any{
			"name": "short", "environment_id": s.production(), "expires_at": "2026-11-02T10:30:01+01:00",
			"grants": []any{grant("allow", "events")},
		})
		require.Equal(t, "2026-11-02T09:30:01.000Z", k["expires_at"])
		key, _ := k["key"].(string)
		require.True(t, strings.HasPrefix(key, "spk_live_"))
		require.Equal(t, http.StatusOK, s.probe(key).status)
		s.clk.Advance(time.Second)
		r := s.probe(key)
		require.Equal(t, http.StatusUnauthorized, r.status)
		require.Equal(t, "api_key_expired", r.code(t))
		require.Equal(t, "expired", s.as(http.MethodGet, "/api-keys", nil).list(t)[0]["status"])
	})
}

// Every validation error of a request comes in one answer, those of rules with those of the schema.
func TestCreateKeyViolations(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		r := s.as(http.MethodPost, "/api-keys", map[string]any{
			"name": "a\tb", "expires_at": "2026-11-02T09:30:00Z", "rate_limit": 5,
			"grants": []any{
				map[string]any{"routes": []string{"webhooks", "teleport"}},
				map[string]any{"routes": []string{}, "effect": "maybe"},
				map[string]any{"routes": []string{"events"}, "connections": []string{"a b"}, "max_risk": "low"},
				map[string]any{"routes": []string{"events"}, "connections": []string{}},
				map[string]any{},
			},
		})
		require.ElementsMatch(t, []string{
			"body.name", "body.expires_at", "body.rate_limit", "body.environment_id", "body.grants[0].routes[1]",
			"body.grants[1].routes", "body.grants[1].effect", "body.grants[2].connections[0]", "body.grants[2].max_risk",
			"body.grants[3].connections", "body.grants[4].routes",
		}, r.locations(t))
		require.NotContains(t, r.text, "teleport")
		require.Equal(t, []string{"body"}, s.as(http.MethodPost, "/api-keys", "{").locations(t))
		require.Equal(t, []string{"body.name"}, s.as(http.MethodPost, "/api-keys",
			map[string]any{"name": " ", "environment_id": s.development()}).locations(t))
		for _, env := range []string{s.foreignEnvironment(), "env_\x00", ""} {
			r := s.as(http.MethodPost, "/api-keys", map[string]any{"name": "x", "environment_id": env})
			require.Equal(t, http.StatusNotFound, r.status, r.text)
			require.Equal(t, "not_found", r.code(t))
		}
		require.JSONEq(t, "[]", s.as(http.MethodGet, "/api-keys", nil).text)
	})
}

// A key's limit is shown as it is set, and null returns it to that of the service. What is no limit is refused with
// every validation error of it.
func TestKeyRateLimit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		limit := func(perSecond, burst any) map[string]any {
			return map[string]any{"per_second": perSecond, "burst": burst}
		}
		require.Nil(t, s.create(map[string]any{"name": "plain", "environment_id": s.production()})["rate_limit"])
		k := s.create(map[string]any{"name": "own", "environment_id": s.production(),
			"rate_limit": limit(100_000, 1_000_000)})
		require.Equal(t, limit(100_000.0, 1_000_000.0), k["rate_limit"])
		path := "/api-keys/" + k["id"].(string) //nolint:errcheck,forcetypeassert // it panics, which fails the test
		for _, c := range []struct {
			limit any
			want  []string
		}{
			{limit(0, 0), []string{"body.rate_limit.per_second", "body.rate_limit.burst"}},
			{limit(100_001, 1_000_001), []string{"body.rate_limit.per_second", "body.rate_limit.burst"}},
			{limit(1.5, "5"), []string{"body.rate_limit.per_second", "body.rate_limit.burst"}},
			{map[string]any{"per_second": 5}, []string{"body.rate_limit.burst"}},
			{map[string]any{"per_second": 5, "burst": 5, "per_minute": 1}, []string{"body.rate_limit.per_minute"}},
			{"5/s", []string{"body.rate_limit"}},
		} {
			for method, at := range map[string]string{http.MethodPost: "/api-keys", http.MethodPatch: path} {
				body := map[string]any{"name": "x", "rate_limit": c.limit}
				if method == http.MethodPost {
					body["environment_id"] = s.production()
				}
				r := s.as(method, at, body)
				require.Equal(t, http.StatusUnprocessableEntity, r.status, "%s %v: %s", method, c.limit, r.text)
				require.ElementsMatch(t, c.want, r.locations(t), "%s %v", method, c.limit)
			}
		}
		patched := s.as(http.MethodPatch, path, map[string]any{"rate_limit": limit(5, 50)})
		require.Equal(t, limit(5.0, 50.0), patched.body(t)["rate_limit"])
		require.Equal(t, limit(5.0, 50.0), s.as(http.MethodPatch, path, map[string]any{"name": "kept"}).body(t)["rate_limit"])
		require.Nil(t, s.as(http.MethodPatch, path, map[string]any{"rate_limit": nil}).body(t)["rate_limit"])
	})
}

// Pages cover every key once, in either order, and a cursor belongs to its filters.
func TestListKeys(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		var newest []string
		actor := access.Principal{Kind: access.KindUser, ID: s.owner.User.ID, Team: s.owner.Team.ID,
			Rights: access.Owner.Rights()}
		for i := range 5 {
			k, _, err := s.identity.Keys.CreateKey(t.Context(), actor, apikeys.NewKey{
				Name: "k", Environment: s.owner.Environments[i%2].ID,
			})
			require.NoError(t, err)
			newest = append([]string{k.ID}, newest...)
		}
		walk := func(query string) (ids []string) {
			for path := "/api-keys?limit=2" + query; path != ""; {
				r := s.as(http.MethodGet, path, nil)
				require.Equal(t, http.StatusOK, r.status, r.text)
				for _, k := range r.list(t) {
					keyID, _ := k["id"].(string)
					ids = append(ids, keyID)
				}
				path = ""
				if m := regexp.MustCompile(`^</api/v1(/api-keys\?.*)>; rel="next"$`).FindStringSubmatch(
					r.header.Get("Link")); m != nil {
					path = m[1]
					require.NotEmpty(t, r.header.Get("X-Next-Cursor"))
				}
			}
			return ids
		}
		require.Equal(t, newest, walk(""))
		require.Equal(t, []string{newest[4], newest[3], newest[2], newest[1], newest[0]}, walk("&order=asc"))
		require.Equal(t, []string{newest[0], newest[2], newest[4]}, walk("&environment_id="+s.development()))
		require.Equal(t, newest, walk("&environment_id="+s.development()+","+s.production()))
		require.Equal(t, newest, walk("&environment_id="+s.production()+"&environment_id="+s.development()))

		cursor := s.as(http.MethodGet, "/api-keys?limit=1", nil).header.Get("X-Next-Cursor")
		require.NotEmpty(t, cursor)
		for _, query := range []string{"environment_id=" + s.development() + "&cursor=" + cursor, "order=asc&cursor=" +
			cursor, "cursor=x"} {
			require.Equal(t, []string{"query.cursor"}, s.as(http.MethodGet, "/api-keys?"+query, nil).locations(t), query)
		}
		require.Equal(t, []string{"query.limit"}, s.as(http.MethodGet, "/api-keys?limit=251", nil).locations(t))
		require.Equal(t, []string{"query.team"}, s.as(http.MethodGet, "/api-keys?team=x", nil).locations(t))
		for _, env := range []string{s.foreignEnvironment(), id.New(id.PrefixEnvironment), "development"} {
			require.Equal(t, http.StatusNotFound, s.as(http.MethodGet, "/api-keys?environment_id="+env, nil).status)
		}
	})
}

// The trail tells from where and in which request a change was made.
func TestTrailNamesTheRequest(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		r := s.as(http.MethodPost, "/api-keys", map[string]any{"name": "x", "environment_id": s.development()})
		require.Equal(t, http.StatusCreated, r.status, r.text)
		var request, ip, actor string
		require.NoError(t, s.store.DB.Read().QueryRowContext(t.Context(),
			"SELECT request_id, ip, actor_name FROM audit_events WHERE action = 'api_key.create'").Scan(&request, &ip, &actor))
		require.Equal(t, r.header.Get("X-Request-Id"), request)
		require.Equal(t, "127.0.0.1", ip)
		require.Equal(t, email, actor)
	})
}

// The document says what the code does: secrets are marked, once-shown values have a schema of their own, sets are
// closed.
func TestDocument(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		raw, err := s.api.Document()
		require.NoError(t, err)
		var doc struct {
			Components struct {
				Schemas map[string]struct {
					Properties map[string]struct {
						Description string `json:"description"`
						WriteOnly   bool   `json:"writeOnly"`
						ReadOnly    bool   `json:"readOnly"`
						Enum        []any  `json:"enum"`
						Items       struct {
							Enum []string `json:"enum"`
						} `json:"items"`
					} `json:"properties"`
				} `json:"schemas"`
			} `json:"components"`
		}
		require.NoError(t, json.Unmarshal(raw, &doc))
		schemas := doc.Components.Schemas
		require.True(t, schemas["identity.LoginRequest"].Properties["password"].WriteOnly)
		key := schemas["identity.APIKeyCreated"].Properties["key"]
		require.True(t, key.ReadOnly)
		require.True(t, strings.HasPrefix(key.Description, "Generated"))
		require.NotContains(t, schemas["identity.APIKey"].Properties, "key")
		require.Equal(t, []string{"webhooks", "events", "events:write", "connections"},
			schemas["identity.NewGrant"].Properties["routes"].Items.Enum)
		require.Equal(t, []any{"allow", "deny"}, schemas["identity.NewGrant"].Properties["effect"].Enum)
		require.Equal(t, []any{"active", "disabled", "revoked", "expired"},
			schemas["identity.APIKey"].Properties["status"].Enum)
		for name, schema := range schemas {
			for property, p := range schema.Properties {
				if strings.HasPrefix(name, "identity.") {
					require.NotEmpty(t, p.Description, name+"."+property)
				}
			}
		}
	})
}
