package e2e_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/testkit/await"
)

// api is a provider's API. Each path responds as its name says, and the requests are counted by it.
type api struct {
	url   string
	mu    sync.Mutex
	seen  map[string]int
	hang  chan struct{}
	close func()
}

const callToken = "secret-token-of-the-connection"

func newAPI(t *testing.T) *api {
	t.Helper()
	a := &api{seen: map[string]int{}, hang: make(chan struct{})}
	a.close = sync.OnceFunc(func() { close(a.hang) })
	server := httptest.NewServer(a)
	a.url = server.URL
	await.Close(t, server)
	t.Cleanup(a.close)
	return a
}

// count returns how many requests a path has had.
func (a *api) count(path string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen[path]
}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	a.mu.Lock()
	a.seen[r.URL.Path]++
	n := a.seen[r.URL.Path]
	a.mu.Unlock()
	reply := func(status int, text string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) //nolint:gosec // it is not shown in a browser
	}
	switch name := strings.Trim(r.URL.Path, "/"); name {
	case "quotes":
		w.Header().Set("X-Quoted", r.Header.Get("Authorization"))
		reply(http.StatusUnprocessableEntity, `{"message":"bad `+r.Header.Get("Authorization")+`"}`)
	case "recovers":
		if n < 3 {
			reply(http.StatusServiceUnavailable, `{}`)
			return
		}
		reply(http.StatusOK, `{"n":3}`)
	case "down":
		reply(http.StatusServiceUnavailable, `{"message":"down"}`)
	case "limited":
		w.Header().Set("Retry-After", "3600")
		reply(http.StatusTooManyRequests, `{"message":"slow down"}`)
	case "hangs":
		<-a.hang
	case "resets":
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	case "half":
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
	case "gzip":
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "application/json")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, `{"zipped":true}`)
		_ = z.Close()
	case "broken-gzip":
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "no gzip")
	case "large":
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, strings.Repeat("0123456789", 300_000))
	case "endless":
		w.Header().Set("Content-Type", "text/plain")
		for range 40_000 {
			if _, err := io.WriteString(w, strings.Repeat("0123456789", 100)); err != nil {
				return
			}
		}
	case "redirects":
		http.Redirect(w, r, "http://127.0.0.1:9/elsewhere", http.StatusFound)
	case "text":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "plain")
	case "empty":
		w.WriteHeader(http.StatusNoContent)
	default:
		text, err := json.Marshal(map[string]any{"method": r.Method, "path": r.URL.RequestURI(),
			"body": string(body), "n": n})
		if err == nil {
			reply(http.StatusOK, string(text))
		}
	}
}

// apiConnection makes a connection to the API.
func (w *world) apiConnection(c credentials, a *api, connectionID string) {
	w.t.Helper()
	w.connect(c, object{"provider": "http", "connection_id": connectionID, "auth_mode": "bearer",
		"credentials": object{"token": callToken}, "connection_config": object{"base_url": a.url}})
}

// act asks for an action at a path of the API.
func (w *world) act(c credentials, connectionID, action, path string, more object) response {
	w.t.Helper()
	body := object{"provider": "http", "connection_id": connectionID, "action": action, "input": object{"path": path}}
	for name, value := range more {
		body[name] = value
	}
	return w.call(c, http.MethodPost, "/actions/execute", body)
}

// failedCall returns the error of a call, which has the status and the code.
func (a response) failedCall(w *world, status int, code apperr.Code) callError {
	w.t.Helper()
	var e struct{ Error callError }
	a.want(w, status).into(w, &e)
	require.Equal(w.t, string(code), e.Error.Code)
	return e.Error
}

// An action reaches the provider with the connection's credentials, and its result comes back without them. The
// execution and the call are on record afterwards.
func TestExecute(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		a := newAPI(w.t)
		w.apiConnection(w.dev(), a, "acme")
		var e execution
		w.call(w.dev(), http.MethodPost, "/actions/execute", raw(`{"provider":"http","connection_id":"acme","action":"post",
			"input":{"path":"things/1","query":{"q":["a b","c"]},"body":{"n":12345678901234567890.10,
			"password":"hunter2","tokens":["hunter2"]}},
			"metadata":{"order":1},"context":{"user":"u1","reason":"because"}}`)).want(w, http.StatusOK).into(w, &e)
		require.Equal(w.t, "succeeded", e.Status)
		require.Equal(w.t, map[string]any{"method": "POST", "path": "/things/1?q=a+b&q=c", "n": 1.0,
			"body": `{"n":12345678901234567890.10,
			"password":"hunter2","tokens":["hunter2"]}`}, e.Output)
		require.Equal(w.t, "allow", e.Policy.Decision)
		require.True(w.t, e.Stored)
		recorded := w.awaitRecorded(w.env, e.ID)
		require.Equal(w.t, "succeeded", recorded.Status)
		require.Equal(w.t, e.Output, recorded.Output)
		require.Equal(w.t, "[redacted]", recorded.Input["body"].(map[string]any)["password"]) //nolint:errcheck // it panics
		tokens := recorded.Input["body"].(map[string]any)["tokens"]                           //nolint:errcheck // it panics
		require.Equal(w.t, []any{"[redacted]"}, tokens)
		a2 := w.call(w.dev(), http.MethodGet, "/actions/executions/"+e.ID, nil).want(w, http.StatusOK)
		require.Contains(w.t, string(a2.body), "12345678901234567890.10")

		var decision struct {
			Outcome, Action, Method string
			Principal               struct{ ID string }
			UpstreamStatus          int    `json:"upstream_status"`
			ExecutionID             string `json:"execution_id"`
		}
		w.call(w.user(w.env), http.MethodGet, "/governance/policies/decisions/"+e.Policy.DecisionID, nil).
			want(w, http.StatusOK).into(w, &decision)
		require.Equal(w.t, "succeeded", decision.Outcome)
		require.Equal(w.t, e.ID, decision.ExecutionID)
		require.Equal(w.t, 200, decision.UpstreamStatus)
		require.NotContains(w.t, w.logs.tail(), callToken)
		require.NotContains(w.t, w.logs.tail(), "hunter2")
	})
}

// Each thing that can go wrong at a provider ends in the documented response, which says where it failed, whether the
// provider may have acted, and whether the same call may succeed later. No response has the credentials.
func TestFailingProviders(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		a := newAPI(w.t)
		w.apiConnection(w.dev(), a, "acme")
		for _, c := range []struct {
			action, path string
			status       int
			code         apperr.Code
			source       string
			effect       string
			retryable    bool
		}{
			{"get", "quotes", 424, apperr.CodeProviderError, "provider", "none", false},
			{"post", "quotes", 424, apperr.CodeProviderError, "provider", "none", false},
			{"get", "limited", 424, apperr.CodeProviderRateLimited, "provider", "none", true},
			{"post", "down", 502, apperr.CodeProviderUnavailable, "provider", "unknown", true},
			{"post", "resets", 502, apperr.CodeProviderUnreachable, "network", "unknown", true},
			{"post", "half", 502, apperr.CodeProviderUnreachable, "network", "unknown", true},
			{"post", "broken-gzip", 502, apperr.CodeProviderUnreachable, "network", "unknown", true},
			{"post", "redirects", 424, apperr.CodeProviderError, "provider", "none", false},
			{"post", "hangs", 504, apperr.CodeProviderTimeout, "network", "unknown", true},
			{"get", "hangs", 504, apperr.CodeProviderTimeout, "network", "none", true},
		} {
			name := c.action + " " + c.path
			w.apiConnection(w.dev(), a, strings.ReplaceAll(name, " ", "-")) // a limit of one connection is not another's
			got := w.act(w.dev(), strings.ReplaceAll(name, " ", "-"), c.action, c.path, object{"timeout_ms": 1000})
			e := got.failedCall(w, c.status, c.code)
			require.Equal(w.t, []any{c.source, c.effect, c.retryable}, []any{e.Source, e.Effect, e.Retryable}, name)
			require.NotContains(w.t, string(got.body), callToken, name)
			require.NotEmpty(w.t, e.ExecutionID)
			recorded := w.awaitRecorded(w.env, e.ExecutionID)
			require.Equal(w.t, "failed", recorded.Status)
			require.Equal(w.t, string(c.code), recorded.Error.Code)
			require.Equal(w.t, 1, a.count("/"+c.path)-boolInt(c.path == "quotes" && c.action == "post")-
				boolInt(c.path == "hangs" && c.action == "get"), "%s is sent once", name)
		}
		e := w.act(w.dev(), "get-quotes", "get", "quotes", nil).failedCall(w, 424, apperr.CodeProviderError)
		require.Equal(w.t, 422, e.Upstream.Status)
		require.Equal(w.t, map[string]any{"message": "bad [redacted]"}, e.Upstream.Body)
	})
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A read that fails is sent again while there is time, and a write is not: the provider may have acted.
func TestRetries(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		a := newAPI(w.t)
		w.apiConnection(w.dev(), a, "acme")
		answers := make(chan response, 1)
		go func() { answers <- w.act(w.dev(), "acme", "get", "recovers", nil) }()
		var got response
		w.ticking("a read that is sent again", func() bool {
			select {
			case got = <-answers:
				return true
			default:
				return false
			}
		})
		var e execution
		got.want(w, http.StatusOK).into(w, &e)
		require.Len(w.t, e.Attempts, 3)
		require.Equal(w.t, []string{"provider_unavailable", "provider_unavailable", ""},
			[]string{e.Attempts[0].Code, e.Attempts[1].Code, e.Attempts[2].Code})
		require.Equal(w.t, 3, a.count("/recovers"))
	})
}

// Every response of a provider comes back: no JSON, nothing, coded, and one that is too large for the response, which
// can be downloaded.
func TestOutputs(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		a := newAPI(w.t)
		w.apiConnection(w.dev(), a, "acme")
		get := func(path string) (e execution) {
			w.act(w.dev(), "acme", "get", path, nil).want(w, http.StatusOK).into(w, &e)
			return e
		}
		require.Equal(w.t, map[string]any{"content_type": "text/plain", "text": "plain"}, get("text").Output)
		require.Nil(w.t, get("empty").Output)
		require.Equal(w.t, map[string]any{"zipped": true}, get("gzip").Output)
		large := get("large")
		require.True(w.t, large.Cut)
		require.Len(w.t, large.Output.(map[string]any)["text"], 2<<20) //nolint:errcheck // it panics
		w.awaitRecorded(w.env, large.ID)
		whole := w.call(w.dev(), http.MethodGet, strings.TrimPrefix(large.URL, prefix), nil).want(w, http.StatusOK)
		require.Len(w.t, whole.body, 3_000_000)
		require.Equal(w.t, "attachment", whole.header.Get("Content-Disposition"))
		endless := get("endless")
		require.True(w.t, endless.Cut)
		w.awaitRecorded(w.env, endless.ID)
		require.Len(w.t, w.call(w.dev(), http.MethodGet, strings.TrimPrefix(endless.URL, prefix), nil).want(w,
			http.StatusOK).body, 10<<20)
	})
}

// A request with a key takes effect once: the same request gets what came of the first, another one with the key is
// refused, and one whose first failed before anything was sent is made.
func TestExecutionKeys(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		a := newAPI(w.t)
		w.apiConnection(w.dev(), a, "acme")
		key := object{"idempotency_key": "order-1"}
		var first, again execution
		w.act(w.dev(), "acme", "post", "once", key).want(w, http.StatusOK).into(w, &first)
		w.awaitRecorded(w.env, first.ID)
		replay := w.act(w.dev(), "acme", "post", "once", key).want(w, http.StatusOK)
		replay.into(w, &again)
		require.True(w.t, again.Replayed)
		require.Equal(w.t, "true", replay.header.Get("Idempotent-Replayed"))
		require.Equal(w.t, first.ID, again.ID)
		require.Equal(w.t, first.Output, again.Output)
		require.Equal(w.t, 1, a.count("/once"))
		w.act(w.dev(), "acme", "post", "other", key).failedCall(w, 422, apperr.CodeIdempotencyMismatch)
		// The key belongs to its action and to its caller.
		w.act(w.dev(), "acme", "put", "once", key).want(w, http.StatusOK)
		other := w.newKey(w.env, allow("actions"))
		w.act(byKey(other.Key), "acme", "post", "once", key).want(w, http.StatusOK)
		require.Equal(w.t, 3, a.count("/once"))

		// The failure of a request that left is the outcome too.
		lost := object{"idempotency_key": "order-2"}
		failed := w.act(w.dev(), "acme", "post", "down", lost).failedCall(w, 502, apperr.CodeProviderUnavailable)
		w.awaitRecorded(w.env, failed.ExecutionID)
		require.Equal(w.t, failed.ExecutionID, w.act(w.dev(), "acme", "post", "down", lost).failedCall(w, 502,
			apperr.CodeProviderUnavailable).ExecutionID)
		require.Equal(w.t, 1, a.count("/down"))

		// One that never left is made when it is sent again.
		w.call(w.dev(), http.MethodPost, "/connections/http/acme", object{"operation": "disable"}).want(w, http.StatusOK)
		unsent := object{"idempotency_key": "order-3"}
		w.act(w.dev(), "acme", "post", "later", unsent).failedCall(w, 409, apperr.CodeConnectionNotReady)
		w.call(w.dev(), http.MethodPost, "/connections/http/acme", object{"operation": "enable"}).want(w, http.StatusOK)
		w.act(w.dev(), "acme", "post", "later", unsent).want(w, http.StatusOK)
		require.Equal(w.t, 1, a.count("/later"))

		// Two at the same time: one is made, and the others get 409.
		type outcome struct{ status int }
		results := make(chan outcome, 4)
		for range 4 {
			go func() {
				results <- outcome{w.act(w.dev(), "acme", "post", "race", object{"idempotency_key": "order-4"}).status}
			}()
		}
		for range 4 {
			require.Contains(w.t, []int{http.StatusOK, http.StatusConflict}, (<-results).status)
		}
		require.Equal(w.t, 1, a.count("/race"))
	})
}

// A request that is wrong is refused with everything that is wrong with it, before anything is sent or stored.
func TestBadCalls(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		a := newAPI(w.t)
		w.apiConnection(w.dev(), a, "acme")
		run := func(body object) response {
			return w.call(w.dev(), http.MethodPost, "/actions/execute", body)
		}
		ok := object{"provider": "http", "connection_id": "acme", "action": "get", "input": object{"path": "a"}}
		with := func(more object) object {
			out := object{}
			for name, value := range ok {
				out[name] = value
			}
			for name, value := range more {
				out[name] = value
			}
			return out
		}
		run(with(object{"provider": "nothing"})).failedCall(w, 404, apperr.CodeProviderNotFound)
		run(with(object{"connection_id": "nothing"})).failedCall(w, 404, apperr.CodeConnectionNotFound)
		run(with(object{"action": "nothing"})).failedCall(w, 404, apperr.CodeActionNotFound)
		run(with(object{"version": "other"})).failedCall(w, 412, apperr.CodePreconditionFailed)
		require.ElementsMatch(w.t, []string{"body.input.path required", "body.input.headers type",
			"body.input.more additional_properties"}, run(with(object{"input": object{"headers": 1, "more": 2}})).violations(w))
		require.Equal(w.t, []string{"body.input input"}, run(with(object{"input": []int{1}})).violations(w))
		require.Equal(w.t, []string{"body.input.path input"},
			run(with(object{"input": object{"path": "a/../b"}})).violations(w))
		require.Equal(w.t, []string{"body.timeout_ms minimum"}, run(with(object{"timeout_ms": 1})).violations(w))
		require.Equal(w.t, []string{"body.metadata type"}, run(with(object{"metadata": 1})).violations(w))
		require.Equal(w.t, []string{"body.dry_run coherent"},
			run(with(object{"dry_run": true, "idempotency_key": "k"})).violations(w))
		bad := w.call(w.dev(), http.MethodPost, "/actions/execute",
			raw(`{"provider":"http","connection_id":"acme","action":"get","input":{"path":"a","query":{"n":1e1000001}}}`))
		require.Equal(w.t, []string{"body type"}, bad.violations(w))
		var dry execution
		run(with(object{"dry_run": true, "action": "post", "input": object{"path": "a", "body": object{"b": 1}}})).
			want(w, http.StatusOK).into(w, &dry)
		require.Equal(w.t, "dry_run", dry.Status)
		require.Equal(w.t, []string{"POST", a.url + "/a", `{"b":1}`, "[redacted]"}, []string{dry.Request.Method,
			dry.Request.URL, dry.Request.Body, dry.Request.Headers["Authorization"]})
		require.Empty(w.t, a.count("/a"))
		require.Zero(w.t, w.countRows(`SELECT count(*) FROM executions`))
	})
}

// A key runs what its grants permit: by action, method and risk, and with the connections that they name. A connection
// that they do not name does not exist for it.
func TestGrantsOfActions(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		a := newAPI(w.t)
		w.apiConnection(w.dev(), a, "acme")
		w.apiConnection(w.dev(), a, "globex")
		allowed := func(key apiKey, connection, action string) bool {
			got := w.act(byKey(key.Key), connection, action, "a", nil)
			if got.status == http.StatusForbidden {
				got.refused(w, http.StatusForbidden, apperr.CodeGrantDenied)
				return false
			}
			got.want(w, http.StatusOK)
			return true
		}
		of := func(more object) object {
			g := object{"routes": []string{"actions"}}
			for name, value := range more {
				g[name] = value
			}
			return g
		}
		reads := w.newKey(w.env, of(object{"max_risk": "low"}))
		require.True(w.t, allowed(reads, "acme", "get"))
		require.False(w.t, allowed(reads, "acme", "post"))
		posts := w.newKey(w.env, of(object{"actions": []string{"http/p*"}, "methods": []string{"POST"}}))
		require.True(w.t, allowed(posts, "acme", "post"))
		require.False(w.t, allowed(posts, "acme", "put"))
		require.False(w.t, allowed(posts, "acme", "get"))
		denied := w.newKey(w.env, allow("actions"), of(object{"effect": "deny", "actions": []string{"*/delete"}}))
		require.True(w.t, allowed(denied, "acme", "get"))
		require.False(w.t, allowed(denied, "acme", "delete"))
		one := w.newKey(w.env, of(object{"connections": []string{"acme"}}))
		require.True(w.t, allowed(one, "acme", "post"))
		w.act(byKey(one.Key), "globex", "post", "a", nil).failedCall(w, 404, apperr.CodeConnectionNotFound)
		// Whether an action exists is only said to those who may run it.
		w.act(byKey(posts.Key), "acme", "nothing", "a", nil).refused(w, http.StatusForbidden, apperr.CodeGrantDenied)
		w.act(byKey(posts.Key), "acme", "pnothing", "a", nil).failedCall(w, 404, apperr.CodeActionNotFound)
		for field, value := range map[string]any{"actions": []string{"github"}, "methods": []string{"GET", "TRACE"},
			"max_risk": "unknown"} {
			w.call(w.user(""), http.MethodPost, "/api-keys", object{"name": "x", "environment_id": w.env,
				"grants": []object{of(object{field: value})}}).want(w, http.StatusUnprocessableEntity)
		}
		w.call(w.user(""), http.MethodPost, "/api-keys", object{"name": "x", "environment_id": w.env,
			"grants": []object{{"routes": []string{"events"}, "max_risk": "low"}}}).want(w, http.StatusUnprocessableEntity)

		// A key sees its own executions and no other's.
		var list []execution
		w.ticking("the records of a key", func() bool {
			list = nil
			w.call(byKey(one.Key), http.MethodGet, "/actions/executions", nil).want(w, http.StatusOK).into(w, &list)
			return len(list) == 1
		})
		w.call(byKey(posts.Key), http.MethodGet, "/actions/executions/"+list[0].ID, nil).refused(w, http.StatusNotFound,
			apperr.CodeNotFound)
	})
}

// An execution whose process has ended between the request and the response is never made again, and says so; a request
// with its key gets that as an error.
func TestAbandonedExecutions(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		a := newAPI(w.t)
		w.apiConnection(w.dev(), a, "acme")
		key := object{"idempotency_key": "order-1"}
		var e execution
		w.act(w.dev(), "acme", "post", "once", key).want(w, http.StatusOK).into(w, &e)
		w.awaitRecorded(w.env, e.ID)
		// As the row is while the call is in progress.
		w.change(`UPDATE executions SET status = 'running', lease_ms = $1, finished_ms = 0 WHERE id = $2`, 1, e.ID)
		w.change(`UPDATE calls SET outcome = 'running' WHERE id = $1`, e.ID)
		recorded := w.awaitRecorded(w.env, e.ID)
		require.Equal(w.t, "failed", recorded.Status)
		require.Equal(w.t, "outcome_unknown", recorded.Error.Code)
		require.Equal(w.t, "unknown", recorded.Error.Effect)
		w.act(w.dev(), "acme", "post", "once", key).failedCall(w, 409, apperr.CodeIdempotencyOutcomeUnknown)
		require.Equal(w.t, 1, a.count("/once"))
		require.Equal(w.t, 1, w.countRows(`SELECT count(*) FROM calls WHERE outcome = 'outcome_unknown' AND id = $1`, e.ID))
	})
}
