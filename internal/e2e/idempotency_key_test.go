package e2e_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
)

// once adds an Idempotency-Key to a caller's requests.
func once(c credentials, key string) credentials {
	return func(h http.Header) {
		c(h)
		h.Set("Idempotency-Key", key)
	}
}

const replayedHeader = "Idempotent-Replayed"

// replays requires that the response is that of an earlier request.
func (a response) replays(w *world, first response) {
	w.t.Helper()
	a.want(w, first.status)
	require.Equal(w.t, "true", a.header.Get(replayedHeader))
	require.Equal(w.t, string(first.body), string(a.body))
	for _, name := range []string{"Location", "Content-Type", "Cache-Control", "ETag"} {
		require.Equal(w.t, first.header.Values(name), a.header.Values(name), name)
	}
	require.NotEqual(w.t, first.header.Get("X-Request-Id"), a.header.Get("X-Request-Id"))
}

// Every operation that takes keys returns its response again, with everything that a client may need of it. The others
// ignore the header.
func TestEveryOperationWithAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		taken, samples := 0, map[string]int{}
		for _, s := range w.samples(f) {
			c := once(w.user(w.env), "the same for all"+strings.Repeat(" more", samples[s.op.ID]))
			samples[s.op.ID]++ // some operations have more than one
			first := w.callSample(c, s).want(w, s.status)
			require.Empty(w.t, first.header.Values(replayedHeader), s.op.ID)
			if s.op.TakesIdempotencyKey() {
				taken++
				w.callSample(c, s).replays(w, first)
			}
		}
		require.Positive(w.t, taken)
	})
}

// Many requests with one key at the same time, on all nodes, create one resource, and each response with it has the
// same secret.
func TestManyRequestsWithOneKey(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		nodes := []*world{w}
		if w.databaseURL != "" {
			nodes = append(nodes, w.node())
		}
		subscription := object{"event_types": []string{"*"}, "forward_url": "http://127.0.0.1:18081/hooks"}
		publication := object{"event_type": "invoice.paid", "data": object{"n": 1}}
		for path, body := range map[string]object{"/webhook-subscriptions": subscription, "/webhook-events": publication} {
			ask := func(n *world) response { return n.call(once(n.dev(), "k"), http.MethodPost, path, body) }
			responses := make([]response, 30)
			var all sync.WaitGroup
			for i := range responses {
				all.Go(func() { responses[i] = ask(nodes[i%len(nodes)]) })
			}
			all.Wait()
			final := ask(nodes[len(nodes)-1]).want(w, http.StatusCreated)
			require.Equal(w.t, "true", final.header.Get(replayedHeader))
			for _, a := range responses {
				if a.status == http.StatusConflict {
					a.refused(w, http.StatusConflict, apperr.CodeIdempotencyInProgress)
					require.Equal(w.t, "1", a.header.Get("Retry-After"))
					continue
				}
				a.want(w, http.StatusCreated)
				require.Equal(w.t, string(final.body), string(a.body))
			}
			var list []object
			w.call(w.dev(), http.MethodGet, path, nil).want(w, http.StatusOK).into(w, &list)
			require.Len(w.t, list, 1, path)
		}
	})
}

// A key is bound to its sender and to the request. A refused request may be corrected under the same key, and after a
// day the key is forgotten.
func TestIdempotencyKeyRules(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const path = "/connections"
		body := object{"provider": "generic-hmac", "connection_id": "acme", "webhook_secret": "a shared secret"}
		with := func(c credentials, key string, body any) response {
			return w.call(once(c, key), http.MethodPost, path, body)
		}
		with(w.dev(), "k", object{"provider": "no such"}).want(w, http.StatusUnprocessableEntity)
		first := with(w.dev(), "k", body).want(w, http.StatusCreated)
		require.NotEmpty(w.t, first.header.Get("Location"))
		with(w.dev(), "k", body).replays(w, first)
		with(w.dev(), "k", object{"provider": "github"}).refused(w, http.StatusUnprocessableEntity,
			apperr.CodeIdempotencyMismatch)
		w.call(once(w.dev(), "k"), http.MethodPost, path+"?a=b", body).refused(w, http.StatusUnprocessableEntity,
			apperr.CodeIdempotencyMismatch)
		with(w.user(w.env), "k", body).refused(w, http.StatusConflict, apperr.CodeConnectionExists)
		with(w.dev(), "other", body).refused(w, http.StatusConflict, apperr.CodeConnectionExists)

		// The stored response does not change with the resource.
		w.call(w.dev(), http.MethodDelete, path+"/generic-hmac/acme", nil).want(w, http.StatusNoContent)
		with(w.dev(), "k", body).replays(w, first)
		with(byKey("spk_test_nobody"), "k", body).refused(w, http.StatusUnauthorized, apperr.CodeUnauthorized)
		w.clk.Advance(24 * time.Hour)
		require.Empty(w.t, with(w.dev(), "k", body).want(w, http.StatusCreated).header.Get(replayedHeader))

		// A key of the wrong form is a validation error like any other, and reported with the others.
		for _, key := range []string{"", strings.Repeat("k", 256), "ключ"} {
			require.ElementsMatch(w.t, []string{"header.Idempotency-Key pattern", "body.provider type"},
				with(w.dev(), key, object{"provider": 1}).violations(w))
		}
		twice := func(h http.Header) {
			w.dev()(h)
			h["Idempotency-Key"] = []string{"a", "a"}
		}
		require.Equal(w.t, []string{"header.Idempotency-Key single"}, w.call(twice, http.MethodPost, path,
			object{"provider": "github"}).violations(w))
	})
}

// A stored response does not outlive the rights under which it was made: a caller who has lost some since gets neither
// the response, which may show a secret of what they may no longer see, nor a second effect. With the rights, the
// response is back.
func TestStoredResponsesEndWithTheRights(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.run("an API key", func(w *world) {
			k := w.newKey(w.env, allow("connections"))
			c := once(byKey(k.Key), "k")
			create := func() response {
				return w.call(c, http.MethodPost, "/connections", object{"provider": "github", "connection_id": "acme",
					"webhook_secret": "a shared secret"})
			}
			first := create().want(w, http.StatusCreated)
			grants := "/api-keys/" + k.ID + "/grants"
			grant := func(g object) string { return w.created(w.user(""), grants, g) }
			remove := func(id string) {
				w.call(w.user(""), http.MethodDelete, grants+"/"+id, nil).want(w, http.StatusNoContent)
			}
			grant(allow("webhooks")) // more is no less
			create().replays(w, first)
			denial := grant(object{"effect": "deny", "routes": []string{"connections"}, "connections": []string{"acme"}})
			w.call(byKey(k.Key), http.MethodGet, "/connections", nil).want(w, http.StatusOK) // the route stays open
			create().refused(w, http.StatusForbidden, apperr.CodeGrantDenied)
			remove(denial)
			create().replays(w, first)
		})
		w.run("a user", func(w *world) {
			const email = "leaving@example.test"
			user, production := w.newcomer(email), w.environment("production")
			w.give(user, "developer", object{"environment_id": w.env})
			role := w.give(user, "developer", object{"environment_id": production})
			c := once(byToken(w.login(email, w.password), ""), "k")
			create := func() response {
				return w.call(c, http.MethodPost, "/api-keys", object{"name": "mine", "environment_id": production})
			}
			first := create().want(w, http.StatusCreated)
			create().replays(w, first)
			w.call(w.user(""), http.MethodDelete, "/roles/bindings/"+role.ID, nil).want(w, http.StatusNoContent)
			create().refused(w, http.StatusForbidden, apperr.CodeForbidden)
			w.give(user, "admin", object{"environment_id": production})
			create().replays(w, first)
		})
	})
}
