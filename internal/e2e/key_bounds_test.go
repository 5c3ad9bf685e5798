package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
)

// bounded makes a key of the environment that may do everything with the connections that are listed, or with all
// others.
func (w *world) bounded(except bool, connections ...string) apiKey {
	w.t.Helper()
	routes := []string{"webhooks", "events", "events:write", "connections", "catalog", "actions"}
	if except {
		return w.newKey(w.env, allow(routes...), object{"effect": "deny", "routes": routes, "connections": connections})
	}
	return w.newKey(w.env, object{"routes": routes, "connections": connections})
}

// neighbours adds globex, another customer next to acme, and returns an event and a subscription of it, with keys that
// may see globex and nothing of acme: one by what it names, one by what it leaves out.
func (w *world) neighbours() (event string, sub subscription, keys map[string]apiKey) {
	w.t.Helper()
	globex := w.connectGitHub("globex")
	sub = w.subscribe(fixtureServers().refusing, object{"connection_id": "globex", "event_types": []string{"nothing"}})
	event = w.fresh(globex.pathToken(), github(issueOpened))
	return event, sub, map[string]apiKey{
		"a key for globex alone": w.bounded(false, "globex"),
		"a key for all but acme": w.bounded(true, "acme", "acme-second", "acme-enrolling", "acme-api",
			"acme-tokens", "acme-calls"),
	}
}

// A connection that is not granted to a key does not exist for it, nor do the resources of that connection: every
// operation that a key reaches and that names a resource returns not found and changes nothing, as it would for another
// environment. Lists and references in bodies show nothing of it, with any filter. Operations come from the route
// table, so that a new one is covered.
func TestBoundedKeys(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, own fixtures) {
		event, sub, keys := w.neighbours()
		secrets := append(own.private()[1:], own.replay(), `"acme`) // but its environment's id
		filters := map[string]string{"connection_id": "acme", "subscription_id": own.subscription().ID,
			"idempotency_key": w.event(own.event()).IdempotencyKey, "q": own.event()}
		named, lists := 0, 0
		var pages []string
		for _, s := range w.listSamples(own) {
			pages = append(pages, s.op.ID)
		}
		w.unchanged(func() {
			for _, s := range w.samples(own) {
				if s.op.Route != "" {
					// A user who opens a route to a key must hold the permissions of all its operations.
					require.Contains(w.t, s.op.Route.Permissions(), s.op.Permission, s.op.ID)
				}
				for who, k := range keys {
					c := byKey(k.Key)
					switch {
					case s.op.Route == "", s.op.Route == access.RouteCatalog: // it has nothing of connections
						continue
					case len(s.path) > 0:
						named++
						code := apperr.CodeNotFound
						if s.op.ID == "check-action" { // its path names no resource of a connection, and its body one
							code = apperr.CodeConnectionNotFound
						}
						w.callSample(c, s).refused(w, http.StatusNotFound, code)
					case slices.Contains(pages, s.op.ID):
						lists++
						for _, query := range append(w.filters(s), "limit=250") {
							if name, _, _ := strings.Cut(query, "="); filters[name] != "" {
								query = name + "=" + filters[name]
							}
							a := w.call(c, s.op.Method, s.url("", "")+"?"+query, nil).want(w, http.StatusOK)
							for _, secret := range secrets {
								require.NotContains(w.t, string(a.body), secret, "%s?%s for %s", s.op.ID, query, who)
							}
						}
					}
				}
			}
			for _, k := range keys {
				c := byKey(k.Key)
				refused := func(method, path string, body object) {
					w.t.Helper()
					w.call(c, method, path, body).refused(w, http.StatusForbidden, apperr.CodeGrantDenied)
				}
				for _, connection := range []any{"acme", nil} { // nil takes the events of all of them
					body := object{"event_types": []string{"*"}, "forward_url": fixtureServers().refusing}
					if connection != nil {
						body["connection_id"] = connection
					}
					refused(http.MethodPost, "/webhook-subscriptions", body)
					refused(http.MethodPatch, "/webhook-subscriptions/"+sub.ID, object{"connection_id": connection})
				}
				refused(http.MethodPost, "/webhook-events", object{"event_type": "a.b", "data": 1, "connection_id": "acme"})
				refused(http.MethodPost, "/connections", object{"provider": "github", "connection_id": "acme",
					"on_conflict": "update"})
				require.Contains(w.t, w.call(c, http.MethodPost, "/webhook-replays",
					object{"filter": object{"event_uuids": []string{event}}, "to_subscription_id": own.subscription().ID}).violations(
					w), "body.to_subscription_id exists")
				w.call(c, http.MethodPost, "/webhook-subscriptions/"+sub.ID+"/test", object{"event_uuid": own.event(),
					"dry_run": true}).
					refused(w, http.StatusNotFound, apperr.CodeNotFound)
				w.call(c, http.MethodGet, "/webhook-events/"+event+"/explain", nil).want(w, http.StatusOK)
				var p replayPreview
				w.call(c, http.MethodPost, "/webhook-replays", object{"filter": object{"event_uuids": []string{own.event()}},
					"force": true, "dry_run": true}).
					want(w, http.StatusOK).into(w, &p)
				require.Zero(w.t, p.Matched)
			}
			only := byKey(keys["a key for globex alone"].Key)
			w.call(only, http.MethodPost, "/webhook-events", object{"event_type": "a.b", "data": 1}).refused(w,
				http.StatusForbidden, apperr.CodeGrantDenied)
			w.call(only, http.MethodPost, "/connections", object{"provider": "github"}).refused(w, http.StatusForbidden,
				apperr.CodeGrantDenied)
		})
		require.Greater(w.t, named, 40)
		require.GreaterOrEqual(w.t, lists, 2*5)
		for _, k := range keys { // and what they are granted is there
			c := byKey(k.Key)
			for _, path := range []string{"/webhook-events/" + event, "/webhook-subscriptions/" + sub.ID,
				"/connections/github/globex", "/webhook-events/" + event + "/attempts"} {
				w.call(c, http.MethodGet, path, nil).want(w, http.StatusOK)
			}
			var rows []object
			w.call(c, http.MethodGet, "/webhook-events", nil).want(w, http.StatusOK).into(w, &rows)
			require.Len(w.t, rows, 1)
			require.Equal(w.t, event, rows[0]["event_uuid"])
			var explained []object
			w.call(c, http.MethodGet, "/webhook-events/"+event+"/explain", nil).want(w, http.StatusOK).into(w, &explained)
			require.Len(w.t, explained, 1, "an explanation tells of subscriptions that the key cannot see")
		}
		for _, k := range keys {
			w.subscribeAs(byKey(k.Key), fixtureServers().refusing, object{"connection_id": "globex",
				"event_types": []string{"nothing"}})
		}
	})
}

// A bound cannot be walked around: not by a ticket for the stream, which is bounded as its key is when it is used; not
// by a cursor or a place in the stream that a broader key was given; not by a bulk replay that names no connection, and
// that its bound outlives the grants of the key that made it.
func TestBoundsHoldThroughDetours(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, own fixtures) {
		event, sub, keys := w.neighbours()
		only := keys["a key for globex alone"]
		c := byKey(only.Key)

		var made struct {
			Ticket string `json:"ticket"`
		}
		w.call(c, http.MethodPost, "/webhook-events/stream-ticket?connection_id=acme,globex", nil).want(w,
			http.StatusCreated).into(w, &made)
		broad := w.stream(w.dev(), "")
		byTicket, byKeyAlone := w.stream(anonymous, "?ticket="+made.Ticket), w.stream(c, "?connection_id=acme,globex")
		hidden := w.fresh(own.connection().pathToken(), github(`{"action":"reopened"}`))
		shown := w.fresh("globex", github(`{"action":"reopened"}`))
		require.Equal(w.t, []string{hidden, shown}, broad.waits(2))
		require.Equal(w.t, []string{shown}, byTicket.waits(1))
		require.Equal(w.t, []string{shown}, byKeyAlone.waits(1))
		place := broad.lastID()
		broad.quit()
		again := w.fresh(own.connection().pathToken(), github(`{"action":"assigned"}`))
		last := w.fresh("globex", github(`{"action":"assigned"}`))
		back := w.stream(c, "?last_event_id="+place)
		require.Equal(w.t, []string{last}, back.waits(1))
		require.NotContains(w.t, []string{again, hidden}, last)

		// Grants that change end the streams of the key, which would show what the old ones opened.
		w.call(w.user(""), http.MethodPost, "/api-keys/"+only.ID+"/grants",
			object{"effect": "deny", "routes": []string{"events:write"}}).want(w, http.StatusCreated)
		w.call(c, http.MethodGet, "/webhook-events/"+event, nil).want(w, http.StatusOK)
		var denial struct {
			ID string `json:"id"`
		}
		w.call(w.user(""), http.MethodPost, "/api-keys/"+only.ID+"/grants",
			object{"effect": "deny", "routes": []string{"events"}, "connections": []string{"globex"}}).
			want(w, http.StatusCreated).into(w, &denial)
		w.call(c, http.MethodGet, "/webhook-events/"+event, nil).refused(w, http.StatusForbidden, apperr.CodeGrantDenied)
		kind, reason := back.ends()
		require.Equal(w.t, []string{"stream.closed", "credential_ended"}, []string{kind, reason})
		w.call(w.user(""), http.MethodDelete, "/api-keys/"+only.ID+"/grants/"+denial.ID, nil).want(w, http.StatusNoContent)

		cursor := w.call(w.dev(), http.MethodGet, "/webhook-events?limit=1", nil).want(w, http.StatusOK).header.Get(
			"X-Next-Cursor")
		require.NotEmpty(w.t, cursor)
		var rows []object
		w.call(c, http.MethodGet, "/webhook-events?limit=1&cursor="+cursor, nil).want(w, http.StatusOK).into(w, &rows)
		require.Len(w.t, rows, 1)
		require.Equal(w.t, shown, rows[0]["event_uuid"])

		job := w.startReplay(c, object{"filter": object{"all": true}, "force": true, "to_subscription_id": sub.ID,
			"rate_per_second": 100})
		w.call(w.user(""), http.MethodPost, "/api-keys/"+only.ID+"/grants", object{"routes": []string{"webhooks"}}).want(w,
			http.StatusCreated)
		w.call(c, http.MethodGet, "/webhook-replays/"+job.ID, nil).want(w, http.StatusOK)
		w.ticking("the end of the replay", func() bool { return w.replayJob(w.dev(), job.ID).Status == "completed" })
		require.Equal(w.t, 3, w.replayJob(w.dev(), job.ID).Counts.Matched, "globex has three events")
	})
}
