package apikeyshttp_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"

	"sallyport/internal/identity/apikeys"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/id"
)

// The life of a key: created with defaults, shown once, used, listed without its secret, revoked with immediate effect,
// deleted.
func TestKeyLife(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		r := s.As(http.MethodPost, "/api-keys", map[string]any{
			"name": "billing", "environment_id": s.Development(),
			"grants": []any{map[string]any{"routes": []string{"webhooks"}}},
		})
		require.Equal(t, http.StatusCreated, r.Status, r.Text)
		require.Equal(t, "no-store", r.Header.Get("Cache-Control"))
		k := r.Object(t)
		keyID, _ := k["id"].(string)
		key, _ := k["key"].(string)
		require.Equal(t, "/api/v1/api-keys/"+keyID, r.Header.Get("Location"))
		require.Equal(t, "active", k["status"])
		require.Equal(t, "2026-11-02T09:30:00.250Z", k["created_at"])
		require.Equal(t, "2027-01-31T09:30:00.250Z", k["expires_at"])
		require.Nil(t, k["revoked_at"])
		require.Contains(t, k, "revoked_at")
		require.True(t, strings.HasPrefix(key, "spk_test_"))
		grants, _ := k["grants"].([]any)
		require.Len(t, grants, 1)
		g, _ := grants[0].(map[string]any)
		delete(g, "id")
		require.Equal(t, map[string]any{"effect": "allow", "routes": []any{"webhooks"}, "connections": []any{"*"},
			"not_after": nil}, g)

		used := s.Probe(key)
		require.Equal(t, http.StatusOK, used.Status, used.Text)
		require.Equal(t, s.Development(), used.Object(t)["environment"])

		got := s.As(http.MethodGet, "/api-keys/"+keyID, nil)
		require.Equal(t, http.StatusOK, got.Status)
		require.NotContains(t, got.Text, strings.Split(key, "_")[3])
		require.NotContains(t, got.Object(t), "key")
		require.Equal(t, got.Object(t), s.As(http.MethodGet, "/api-keys", nil).List(t)[0])

		s.Clock.Advance(1500 * time.Millisecond)
		revoked := s.As(http.MethodPost, "/api-keys/"+keyID+"/revoke", nil)
		require.Equal(t, http.StatusOK, revoked.Status, revoked.Text)
		require.Equal(t, "revoked", revoked.Object(t)["status"])
		require.Equal(t, "2026-11-02T09:30:01.750Z", revoked.Object(t)["revoked_at"])
		require.Equal(t, http.StatusUnauthorized, s.Probe(key).Status)
		require.Equal(t, revoked.Text, s.As(http.MethodPost, "/api-keys/"+keyID+"/revoke", nil).Text)

		deleted := s.As(http.MethodDelete, "/api-keys/"+keyID, nil)
		require.Equal(t, http.StatusNoContent, deleted.Status)
		require.Empty(t, deleted.Text)
		for _, again := range []identitytest.Response{
			s.As(http.MethodDelete, "/api-keys/"+keyID, nil),
			s.As(http.MethodGet, "/api-keys/"+keyID, nil),
			s.As(http.MethodPost, "/api-keys/"+keyID+"/revoke", nil),
			s.As(http.MethodGet, "/api-keys/nonsense", nil),
			s.As(http.MethodGet, "/api-keys/"+strings.Repeat("x", 500), nil),
		} {
			require.Equal(t, http.StatusNotFound, again.Status, again.Text)
			require.Equal(t, "not_found", again.Code(t))
		}
		require.JSONEq(t, "[]", s.As(http.MethodGet, "/api-keys", nil).Text)
	})
}

// Grants decide what a key may do. The response names the missing permission, and only the holder of the secret learns
// of an expiry.
func TestKeyRights(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		grant := func(effect string, routes ...string) map[string]any {
			return map[string]any{"effect": effect, "routes": routes, "connections": []string{"*"}}
		}
		for name, grants := range map[string][]any{
			"no grants":       {},
			"another route":   {grant("allow", "connections")},
			"denied":          {grant("allow", "events"), grant("deny", "events")},
			"denied together": {grant("deny", "events"), grant("allow", "webhooks")},
		} {
			k := s.CreateKey(map[string]any{"name": name, "environment_id": s.Development(), "grants": grants})
			key, _ := k["key"].(string)
			r := s.Probe(key)
			require.Equal(t, http.StatusForbidden, r.Status, name)
			require.Equal(t, "grant_denied", r.Code(t), name)
			require.Contains(t, r.Text, "events", name)
		}
		k := s.CreateKey(map[string]any{
			"name": "short", "environment_id": s.Production(), "expires_at": "2026-11-02T10:30:01+01:00",
			"grants": []any{grant("allow", "events")},
		})
		require.Equal(t, "2026-11-02T09:30:01.000Z", k["expires_at"])
		key, _ := k["key"].(string)
		require.True(t, strings.HasPrefix(key, "spk_live_"))
		require.Equal(t, http.StatusOK, s.Probe(key).Status)
		s.Clock.Advance(time.Second)
		r := s.Probe(key)
		require.Equal(t, http.StatusUnauthorized, r.Status)
		require.Equal(t, "api_key_expired", r.Code(t))
		require.Equal(t, "expired", s.As(http.MethodGet, "/api-keys", nil).List(t)[0]["status"])
	})
}

// Every validation error of a request is in one response, those of rules with those of the schema.
func TestCreateKeyViolations(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		r := s.As(http.MethodPost, "/api-keys", map[string]any{
			"name": "a\tb", "expires_at": "2026-11-02T09:30:00Z",
			"rate_limit": map[string]any{"per_second": 0},
			"grants": []any{
				map[string]any{"routes": []string{"webhooks", "teleport"}},
				map[string]any{"routes": []string{}, "effect": "maybe"},
				map[string]any{"routes": []string{"events"}, "connections": []string{"a b"}, "max_risk": "low"},
				map[string]any{"routes": []string{"events"}, "connections": []string{}},
				map[string]any{},
			},
		})
		require.ElementsMatch(t, []string{
			"body.name", "body.expires_at", "body.rate_limit.per_second", "body.rate_limit.burst", "body.environment_id",
			"body.grants[0].routes[1]", "body.grants[1].routes", "body.grants[1].effect", "body.grants[2].connections[0]",
			"body.grants[2].max_risk", "body.grants[3].connections", "body.grants[4].routes",
		}, r.Locations(t))
		require.NotContains(t, r.Text, "teleport")
		require.Equal(t, []string{"body"}, s.As(http.MethodPost, "/api-keys", "{").Locations(t))
		require.Equal(t, []string{"body.name"}, s.As(http.MethodPost, "/api-keys",
			map[string]any{"name": " ", "environment_id": s.Development()}).Locations(t))
		for _, env := range []string{s.ForeignEnvironment(), "env_\x00", ""} {
			r := s.As(http.MethodPost, "/api-keys", map[string]any{"name": "x", "environment_id": env})
			require.Equal(t, http.StatusNotFound, r.Status, r.Text)
			require.Equal(t, "not_found", r.Code(t))
		}
		require.JSONEq(t, "[]", s.As(http.MethodGet, "/api-keys", nil).Text)
	})
}

// A key's limit is shown as it is set, and null returns it to that of the service. An invalid limit is refused with all
// its validation errors.
func TestKeyRateLimit(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		limit := func(perSecond, burst any) map[string]any {
			return map[string]any{"per_second": perSecond, "burst": burst}
		}
		require.Nil(t, s.CreateKey(map[string]any{"name": "plain", "environment_id": s.Production()})["rate_limit"])
		k := s.CreateKey(map[string]any{"name": "own", "environment_id": s.Production(),
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
					body["environment_id"] = s.Production()
				}
				r := s.As(method, at, body)
				require.Equal(t, http.StatusUnprocessableEntity, r.Status, "%s %v: %s", method, c.limit, r.Text)
				require.ElementsMatch(t, c.want, r.Locations(t), "%s %v", method, c.limit)
			}
		}
		patched := s.As(http.MethodPatch, path, map[string]any{"rate_limit": limit(5, 50)})
		require.Equal(t, limit(5.0, 50.0), patched.Object(t)["rate_limit"])
		require.Equal(t, limit(5.0, 50.0), s.As(http.MethodPatch, path, map[string]any{"name": "kept"}).Object(
			t)["rate_limit"])
		require.Nil(t, s.As(http.MethodPatch, path, map[string]any{"rate_limit": nil}).Object(t)["rate_limit"])
	})
}

// Pages cover every key once, in either order, and a cursor belongs to its filters.
func TestListKeys(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		var newest []string
		actor := access.Principal{Kind: access.KindUser, ID: s.Profile.User.ID, Team: s.Profile.Team.ID,
			Rights: access.Owner.Rights()}
		for i := range 5 {
			k, _, err := s.Keys.CreateKey(t.Context(), actor, apikeys.NewKey{
				Name: "k", Environment: s.Profile.Environments[i%2].ID,
			})
			require.NoError(t, err)
			newest = append([]string{k.ID}, newest...)
		}
		walk := func(query string) (ids []string) {
			for path := "/api-keys?limit=2" + query; path != ""; {
				r := s.As(http.MethodGet, path, nil)
				require.Equal(t, http.StatusOK, r.Status, r.Text)
				for _, k := range r.List(t) {
					keyID, _ := k["id"].(string)
					ids = append(ids, keyID)
				}
				path = ""
				if m := regexp.MustCompile(`^</api/v1(/api-keys\?.*)>; rel="next"$`).FindStringSubmatch(
					r.Header.Get("Link")); m != nil {
					path = m[1]
					require.NotEmpty(t, r.Header.Get("X-Next-Cursor"))
				}
			}
			return ids
		}
		require.Equal(t, newest, walk(""))
		require.Equal(t, []string{newest[4], newest[3], newest[2], newest[1], newest[0]}, walk("&order=asc"))
		require.Equal(t, []string{newest[0], newest[2], newest[4]}, walk("&environment_id="+s.Development()))
		require.Equal(t, newest, walk("&environment_id="+s.Development()+","+s.Production()))
		require.Equal(t, newest, walk("&environment_id="+s.Production()+"&environment_id="+s.Development()))

		cursor := s.As(http.MethodGet, "/api-keys?limit=1", nil).Header.Get("X-Next-Cursor")
		require.NotEmpty(t, cursor)
		for _, query := range []string{"environment_id=" + s.Development() + "&cursor=" + cursor, "order=asc&cursor=" +
			cursor, "cursor=x"} {
			require.Equal(t, []string{"query.cursor"}, s.As(http.MethodGet, "/api-keys?"+query, nil).Locations(t), query)
		}
		require.Equal(t, []string{"query.limit"}, s.As(http.MethodGet, "/api-keys?limit=251", nil).Locations(t))
		require.Equal(t, []string{"query.team"}, s.As(http.MethodGet, "/api-keys?team=x", nil).Locations(t))
		for _, env := range []string{s.ForeignEnvironment(), id.New(id.PrefixEnvironment), "development"} {
			require.Equal(t, http.StatusNotFound, s.As(http.MethodGet, "/api-keys?environment_id="+env, nil).Status)
		}
	})
}

// The trail says from which address and in which request a change was made.
func TestTrailNamesTheRequest(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		r := s.As(http.MethodPost, "/api-keys", map[string]any{"name": "x", "environment_id": s.Development()})
		require.Equal(t, http.StatusCreated, r.Status, r.Text)
		var request, ip, actor string
		require.NoError(t, s.Store.DB.Read().QueryRowContext(t.Context(),
			"SELECT request_id, ip, actor_name FROM audit_events WHERE action = 'api_key.create'").Scan(&request, &ip, &actor))
		require.Equal(t, r.Header.Get("X-Request-Id"), request)
		require.Equal(t, "127.0.0.1", ip)
		require.Equal(t, identitytest.Email, actor)
	})
}

// The document says what the code does: secrets are marked, once-shown values have a schema of their own, sets are
// closed.
func TestDocument(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		raw, err := s.API.Document()
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
		require.Equal(t, []string{"webhooks", "events", "events:write", "connections", "catalog", "actions"},
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
