package e2e_test

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

// refusals collects the texts of 401 responses: they must not reveal the reason.
type refusals map[string]bool

// Without the right credential nothing is done, written or revealed: not why a credential fails, and not whether the
// body would have been right. That an operation needs a user is documented, so that its response to a key says it. A
// response also says where a credential belongs that is in the wrong place by its form, but never whether it is valid.
func TestCredentials(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		samples := w.samples(f)
		revoked, deleted := w.newKey(w.env, allow("webhooks", "connections")),
			w.newKey(w.env, allow("webhooks", "connections"))
		w.call(w.user(""), http.MethodPost, "/api-keys/"+revoked.ID+"/revoke", nil).want(w, http.StatusOK)
		w.call(w.user(""), http.MethodDelete, "/api-keys/"+deleted.ID, nil).want(w, http.StatusNoContent)
		token, texts, needUser := w.token(), refusals{}, refusals{}
		bad := map[string]credentials{
			"nothing": anonymous, "an empty key": byKey(""), "no key": byKey(canary),
			"a key with a typo": byKey(w.key[:len(w.key)-1] + "~"), "another checksum": byKey(w.key[:len(w.key)-6] + "000000"),
			"a revoked key": byKey(revoked.Key), "a deleted key": byKey(deleted.Key),
			"no token": byToken("", w.env), "half a token": byToken(token[:len(token)/2], w.env),
			"a token without signature": byToken(token[:strings.LastIndex(token, ".")+1], w.env),
			"another scheme":            func(h http.Header) { h.Set("Authorization", "Basic dXNlcjpwYXNzd29yZA==") },
			"a scheme alone":            func(h http.Header) { h.Set("Authorization", "Bearer") },
		}
		basic := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
		header := func(name, value string) credentials { return func(h http.Header) { h.Set(name, value) } }
		elsewhere := map[string][]credentials{
			"Send API keys in the API-Key header": {byToken(w.key, w.env), byToken(revoked.Key, w.env),
				byToken("spk_nothing", ""), header("Authorization", w.key), header("Authorization", "ApiKey "+w.key),
				header("X-API-Key", w.key), header("X-API-Key", canary), header("Api-Token", w.key),
				header("X-Auth-Token", revoked.Key), header("Authorization", "Basic "+basic(w.key+":")),
				header("Authorization", "basic "+basic("api:"+w.key))},
			"Send the API key alone in the API-Key header, without a word before it": {byKey("Bearer " + w.key),
				byKey("ApiKey " + revoked.Key)},
			"Send access tokens in the Authorization header, after the word Bearer": {byKey(token), byKey(token + "x"),
				header("Authorization", token), header("Authorization", "Token "+token)},
		}
		ambiguous := map[string]credentials{
			"both":       func(h http.Header) { w.dev()(h); w.user(w.env)(h) },
			"two keys":   func(h http.Header) { h["Api-Key"] = []string{w.key, w.key} },
			"two tokens": func(h http.Header) { h["Authorization"] = []string{"Bearer " + token, "Bearer " + token} },
		}
		w.unchanged(func() {
			for _, s := range samples {
				if s.op.Public {
					continue
				}
				for _, c := range bad {
					text := w.callSample(c, s).refused(w, http.StatusUnauthorized, apperr.CodeUnauthorized).Error.Message
					if s.op.Route == "" && sendsKey(c) {
						needUser[text] = true
					} else {
						texts[text] = true
					}
					if s.body != nil {
						w.callSample(c, s, raw("{")).refused(w, http.StatusUnauthorized, apperr.CodeUnauthorized)
					}
				}
				for hint, list := range elsewhere {
					for _, c := range list {
						text := w.callSample(c, s).refused(w, http.StatusUnauthorized, apperr.CodeUnauthorized).Error.Message
						if s.op.Route == "" && strings.Contains(hint, "API-Key header") {
							needUser[text] = true
						} else {
							require.Equal(w.t, hint, text)
						}
					}
				}
				for _, c := range ambiguous {
					w.callSample(c, s).refused(w, http.StatusBadRequest, apperr.CodeAmbiguousCredentials)
				}
				if s.op.Route == "" {
					valid := w.callSample(w.dev(), s).refused(w, http.StatusUnauthorized, apperr.CodeUnauthorized)
					needUser[valid.Error.Message] = true
				}
			}
		})
		for _, name := range []string{"api_key", "token", "apikey"} {
			text := w.call(anonymous, http.MethodGet, "/connections?limit=1&"+name+"="+w.key, nil).refused(w,
				http.StatusUnauthorized, apperr.CodeUnauthorized).Error.Message
			require.Equal(w.t, "Send API keys in the API-Key header", text)
		}
		stray := func(h http.Header) { w.dev()(h); h.Set("X-API-Key", canary) }
		w.call(stray, http.MethodGet, "/connections", nil).want(w, http.StatusOK) // X-API-Key never counts
		require.Len(w.t, texts, 1, "one text for every reason")
		require.Len(w.t, needUser, 1, "one text for every key, valid or not")
		for _, secret := range []string{w.key, revoked.Key, deleted.Key, token, canary} {
			require.NotContains(w.t, w.logs.String(), secret)
		}
	})
}

// sendsKey reports whether the credentials are an API key.
func sendsKey(c credentials) bool {
	h := http.Header{}
	c(h)
	return len(h.Values("Api-Key")) > 0
}

// Keys and tokens end when they expire. Only the holder of the key learns that it did.
func TestExpiry(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		samples := w.samples(f)
		var k apiKey
		w.call(w.user(""), http.MethodPost, "/api-keys", object{"name": "short", "environment_id": w.env,
			"grants":     []object{allow("webhooks", "events", "events:write", "connections", "catalog", "actions")},
			"expires_at": w.clk.Now().Add(time.Minute)}).want(w, http.StatusCreated).into(w, &k)
		token := w.token()
		w.clk.Advance(time.Minute - time.Millisecond)
		w.call(byKey(k.Key), http.MethodGet, "/connections", nil).want(w, http.StatusOK)
		w.clk.Advance(time.Millisecond)
		w.unchanged(func() {
			for _, s := range samples {
				if s.op.Route != "" {
					w.callSample(byKey(k.Key), s).refused(w, http.StatusUnauthorized, apperr.CodeAPIKeyExpired)
				}
			}
		})
		w.call(byToken(token, ""), http.MethodGet, "/team/me", nil).want(w, http.StatusOK)
		w.clk.Advance(15 * time.Minute)
		w.unchanged(func() {
			for _, s := range samples {
				if !s.op.Public {
					w.callSample(byToken(token, w.env), s).refused(w, http.StatusUnauthorized, apperr.CodeUnauthorized)
				}
			}
		})
	})
}

// A key may do what its grants open and nothing else. A deny overrides every allow, and denying events denies webhooks
// too, which bring events. The response names the missing permission.
func TestGrants(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		samples := w.samples(f)
		all := []string{"webhooks", "events", "events:write", "connections", "catalog", "actions"}
		open := map[access.Route][]access.Route{ // what a grant of one route opens
			access.RouteWebhooks: {access.RouteWebhooks, access.RouteEvents}, access.RouteEvents: {access.RouteEvents},
			access.RouteConnections: {access.RouteConnections}, access.RouteEventsWrite: {access.RouteEventsWrite},
			access.RouteCatalog: {access.RouteCatalog}, access.RouteActions: {access.RouteActions},
		}
		type holder struct {
			key  apiKey
			open []access.Route
		}
		holders := []holder{{w.newKey(w.env), nil}, {w.newKey(w.env, deny(all...), allow(all...)), nil},
			{w.newKey(w.env, allow(all...), deny("events")), []access.Route{access.RouteEventsWrite, access.RouteConnections,
				access.RouteCatalog, access.RouteActions}}}
		for route, routes := range open {
			holders = append(holders, holder{w.newKey(w.env, allow(string(route))), routes})
		}
		w.unchanged(func() {
			for _, s := range samples {
				for _, h := range holders {
					switch {
					case s.op.Public:
					case s.op.Route == "":
						w.callSample(byKey(h.key.Key), s).refused(w, http.StatusUnauthorized, apperr.CodeUnauthorized)
					case !slices.Contains(h.open, s.op.Route):
						e := w.callSample(byKey(h.key.Key), s).refused(w, http.StatusForbidden, apperr.CodeGrantDenied)
						require.Contains(w.t, e.Error.Message, string(s.op.Route))
					case s.op.Route == access.RouteActions && s.path["id"] != "": // a key sees its own executions
						w.callSample(byKey(h.key.Key), s).refused(w, http.StatusNotFound, apperr.CodeNotFound)
					case s.op.Method == http.MethodGet:
						w.callSample(byKey(h.key.Key), s).want(w, s.status)
					}
				}
			}
		})
	})
}

// A viewer sees what the role shows and changes nothing. The response names the permission. A revoked role ends with
// the next request, regardless of the token.
func TestViewer(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		samples := w.samples(f)
		sub := w.subscribe("http://127.0.0.1:9/?token=in-the-url&in-the-url", object{"enabled": false})
		viewer := byToken(w.member(w.team(), "viewer@example.test", "viewer"), w.env)
		w.unchanged(func() {
			for _, s := range samples {
				switch {
				case s.op.Public:
				case s.op.ID == "create-webhook-event-stream-ticket": // opens no more than its maker could read
					w.callSample(viewer, s).want(w, s.status)
				case s.op.Permission == access.AccountWrite: // everyone's own account is theirs; see TestOwnAccount
				case slices.Contains(append(access.Viewer.Permissions(), access.OwnAccount()...), s.op.Permission):
					require.Equal(w.t, http.MethodGet, s.op.Method)
					a := w.callSample(viewer, s).want(w, s.status)
					require.NotContains(w.t, string(a.body), "in-the-url")
				default:
					e := w.callSample(viewer, s).refused(w, http.StatusForbidden, apperr.CodeForbidden)
					require.Contains(w.t, e.Error.Message, string(s.op.Permission))
				}
			}
			var seen subscription
			w.call(viewer, http.MethodGet, "/webhook-subscriptions/"+sub.ID, nil).want(w, http.StatusOK).into(w, &seen)
			require.Equal(w.t, "http://127.0.0.1:9/?token=***&***", seen.ForwardURL)
		})
		w.removeMember("viewer@example.test")
		for _, s := range samples {
			if !s.op.Public {
				w.callSample(viewer, s).refused(w, http.StatusUnauthorized, apperr.CodeUnauthorized)
			}
		}
	})
}

// Where an operation works in an environment, a user names one. A key has its own and may name no other.
func TestEnvironmentHeader(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		samples := w.samples(f)
		with := func(c credentials, values ...string) credentials {
			return func(h http.Header) {
				c(h)
				h["Environment-Id"] = values
			}
		}
		user, other := w.user(""), w.environment("production")
		w.unchanged(func() {
			for _, s := range samples {
				if !s.op.Environment {
					continue
				}
				w.callSample(user, s).refused(w, http.StatusBadRequest, apperr.CodeEnvironmentRequired)
				w.callSample(with(user, ""), s).refused(w, http.StatusBadRequest, apperr.CodeEnvironmentRequired)
				require.Equal(w.t, []string{"header.Environment-Id single"}, w.callSample(with(user, w.env, w.env),
					s).violations(w))
				for _, unknown := range []string{canary, "development", id.New(id.PrefixEnvironment), strings.ToUpper(w.env),
					w.env + "0"} {
					w.callSample(with(user, unknown), s).refused(w, http.StatusNotFound, apperr.CodeNotFound)
				}
				if s.op.Route == "" {
					continue
				}
				for _, foreign := range []string{other, canary, ""} {
					w.callSample(with(w.dev(), foreign), s).refused(w, http.StatusNotFound, apperr.CodeNotFound)
				}
				if s.op.Method == http.MethodGet {
					w.callSample(with(w.dev(), w.env), s).want(w, s.status)
				}
			}
		})
	})
}

// A failed sign-in does not reveal why.
func TestSignIn(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		texts := refusals{}
		w.unchanged(func() {
			for _, c := range []object{
				{"email": w.email, "password": "wrong"}, {"email": "nobody@example.test", "password": w.password},
				{"email": "x", "password": "y"}, {"email": w.email + " ", "password": w.password + " "},
				{"email": "a\x00@example.test", "password": "\x00"},
			} {
				e := w.call(anonymous, http.MethodPost, "/team/login", c).refused(w, http.StatusUnauthorized,
					apperr.CodeUnauthorized)
				texts[e.Error.Message] = true
			}
			w.change("DELETE FROM sign_in_failures") // failures are counted, and nothing else is written
		})
		require.Len(w.t, texts, 1)
		require.NotEmpty(w.t, w.login(strings.ToUpper(w.email), w.password))
		require.NotContains(w.t, w.logs.String(), w.password)
	})
}
