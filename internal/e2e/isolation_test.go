package e2e_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
)

// strangers are the ways to ask for an environment's resources from outside it.
func (w *world) strangers(environment, otherEnvironment, otherToken string) map[string]credentials {
	w.t.Helper()
	return map[string]credentials{
		"a key of another environment": byKey(w.newKey(environment, allow("webhooks", "events", "events:write",
			"connections")).Key),
		"a user in another environment": w.user(environment),
		"a user of another team":        byToken(otherToken, otherEnvironment),
	}
}

// What belongs to one environment is not there for another: every operation that names a resource of it answers not
// found to a key of another environment, to a user who works in another, and to a user of another team, and changes
// nothing. Every operation is covered, because every operation has a sample.
func TestForeignResources(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		own := w.furnish(w.dev(), w.env, "acme")
		production := w.environment("production")
		w.furnish(w.user(production), production, "elsewhere")
		otherEnvironment, otherToken := w.otherTeam()
		strangers := w.strangers(production, otherEnvironment, otherToken)
		asked := 0
		w.unchanged(func() {
			for _, s := range w.samples(own) {
				for who, c := range strangers {
					switch {
					case len(s.path) == 0, s.op.Public, s.op.Route == "" && strings.Contains(who, "key"):
						continue
					case !s.op.Environment:
						// What belongs to the team is the team's in every environment.
						if !strings.Contains(who, "team") {
							continue
						}
					}
					asked++
					a := w.try(c, s)
					require.Equal(w.t, http.StatusNotFound, a.status, "%s for %s: %s", s.op.ID, who, a.body)
					require.Equal(w.t, apperr.CodeNotFound, a.envelope(w).Error.Code)
				}
			}
		})
		require.Greater(w.t, asked, 30)
	})
}

// Nobody gets into an environment by naming it: another team's is not found, whatever is asked for in it.
func TestForeignEnvironment(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		own := w.furnish(w.dev(), w.env, "acme")
		otherEnvironment, otherToken := w.otherTeam()
		w.unchanged(func() {
			for _, s := range w.samples(own) {
				if s.op.Environment {
					w.try(byToken(otherToken, w.env), s).refused(w, http.StatusNotFound, apperr.CodeNotFound)
					w.try(w.user(otherEnvironment), s).refused(w, http.StatusNotFound, apperr.CodeNotFound)
				}
			}
		})
		var me struct {
			Environments []struct {
				ID string `json:"id"`
			} `json:"environments"`
		}
		w.call(byToken(otherToken, ""), http.MethodGet, "/team/me", nil).want(w, http.StatusOK).into(w, &me)
		require.Len(w.t, me.Environments, 1)
		require.Equal(w.t, otherEnvironment, me.Environments[0].ID)
	})
}

// Lists show an environment its own rows, whatever the filters say: naming another's resource selects nothing.
func TestForeignRowsInLists(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		own := w.furnish(w.dev(), w.env, "acme")
		production := w.environment("production")
		other := w.furnish(w.user(production), production, "elsewhere")
		otherEnvironment, otherToken := w.otherTeam()
		idempotencyKey := w.event(own.event).IdempotencyKey
		foreign := map[string]string{ // filters that name a resource of the first environment
			"connection_id": "acme", "subscription_id": own.subscription.ID, "idempotency_key": idempotencyKey, "q": "acme",
		}
		secrets := []string{own.event, own.secondEvent, own.subscription.ID, own.connection.UUID, own.connection.pathToken(),
			w.env, idempotencyKey}
		strangers := w.strangers(production, otherEnvironment, otherToken)
		lists := 0
		w.unchanged(func() {
			for _, s := range w.samples(other) {
				if !s.op.Environment || !slices.ContainsFunc(queryParameters(w, s), func(p parameter) bool {
					return p.name == "cursor"
				}) {
					continue
				}
				lists++
				for who, c := range strangers {
					if len(s.path) > 0 && strings.Contains(who, "team") {
						continue
					}
					for _, query := range append(w.filters(s), "limit=250") {
						name, _, _ := strings.Cut(query, "=")
						value, identifies := foreign[name]
						if identifies {
							query = name + "=" + value
						}
						var rows []object
						a := w.call(c, s.op.Method, s.url("", "")+"?"+query, nil).want(w, http.StatusOK)
						a.into(w, &rows)
						if identifies {
							require.Empty(w.t, rows, "%s?%s for %s", s.op.ID, query, who)
						}
						for _, secret := range secrets {
							require.NotContains(w.t, string(a.body), secret, "%s?%s for %s", s.op.ID, query, who)
						}
					}
				}
			}
		})
		require.Equal(w.t, 7, lists)
	})
}

// References from a body into another environment are refused as if what they name were not there.
func TestForeignReferences(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		own := w.furnish(w.dev(), w.env, "acme")
		production := w.environment("production")
		other := w.furnish(w.user(production), production, "elsewhere")
		otherEnvironment, otherToken := w.otherTeam()
		samples := map[string]sample{}
		for _, s := range w.samples(other) {
			samples[s.op.ID] = s
		}
		inside := w.user(production)
		refusedAt := func(location string) func(op, field string) {
			return func(op, field string) {
				value := any(own.connection.ConnectionID)
				switch field {
				case "subscription_ids":
					value = []string{own.subscription.ID}
				case "to_subscription_id":
					value = own.subscription.ID
				}
				s := samples[op]
				require.Contains(w.t, w.try(inside, s, changed(w, s.body, []any{field}, value, false)).violations(w), location+
					" exists")
			}
		}
		// A filter names what it selects from; what is not there selects nothing.
		selectsNothing := func(field, value string) func(op, field string) {
			return func(string, string) {
				var p replayPreview
				w.call(inside, http.MethodPost, "/webhook-replays", object{"filter": object{field: []string{value}}, "force": true,
					"dry_run": true}).
					want(w, http.StatusOK).into(w, &p)
				require.Zero(w.t, p.Matched)
			}
		}
		mapsInto := func(op, _ string) {
			mapping := []object{{"group": "engineering", "role": "developer", "environment_id": otherEnvironment}}
			s := samples[op]
			require.Contains(w.t, w.try(w.user(""), s, changed(w, s.body, []any{"role_mappings"}, mapping, false)).violations(w),
				"body.role_mappings[0].environment_id exists")
		}
		known := map[string]func(op, field string){
			"create-webhook-subscription connection_id": refusedAt("body.connection_id"),
			"update-webhook-subscription connection_id": refusedAt("body.connection_id"),
			"replay-webhook-event subscription_ids":     refusedAt("body.subscription_ids[0]"),
			"publish-webhook-event connection_id":       refusedAt("body.connection_id"),
			"create-api-key environment_id": func(op, field string) {
				s := samples[op]
				body := func(environment string) object { return changed(w, s.body, []any{field}, environment, false) }
				w.try(w.user(""), s, body(otherEnvironment)).refused(w, http.StatusNotFound, apperr.CodeNotFound)
				w.try(byToken(otherToken, ""), s, body(w.env)).refused(w, http.StatusNotFound, apperr.CodeNotFound)
			},
			"create-role-binding environment_id": func(op, _ string) {
				s := samples[op]
				body := changed(w, s.body, []any{"scope", "environment_id"}, otherEnvironment, false)
				require.Equal(w.t, []string{"body.scope.environment_id exists"}, w.try(w.user(""), s, body).violations(w))
			},
			"create-invitation environment_id": func(op, _ string) {
				s := samples[op]
				body := changed(w, s.body, []any{"scope", "environment_id"}, otherEnvironment, false)
				require.Equal(w.t, []string{"body.scope.environment_id exists"}, w.try(w.user(""), s, body).violations(w))
			},
			"create-webhook-replay to_subscription_id": refusedAt("body.to_subscription_id"),
			"create-webhook-replay subscription_id":    selectsNothing("subscription_id", own.subscription.ID),
			"create-webhook-replay connection_id":      selectsNothing("connection_id", own.connection.ConnectionID),
			"create-connection connection_id":          func(string, string) {}, // names what is made; see TestSameNames
			"create-sso-provider client_id":            func(string, string) {}, // names this service at the provider
			"update-sso-provider client_id":            func(string, string) {},
			"create-sso-provider environment_id":       mapsInto,
			"update-sso-provider environment_id":       mapsInto,
		}
		found := []string{}
		w.unchanged(func() {
			for op, s := range samples {
				if s.body == nil {
					continue
				}
				names, _ := bodySchema(s)
				all, _ := properties(names, nil)
				for _, p := range all {
					field := text(p.path[len(p.path)-1])
					closed := members(at(published().root, p.names...))["enum"] != nil
					if closed || !strings.HasSuffix(field, "_id") && !strings.HasSuffix(field, "_ids") {
						continue
					}
					reference := op + " " + field
					require.Contains(w.t, known, reference, "a reference that this suite does not know")
					known[reference](op, field)
					found = append(found, reference)
				}
			}
			w.call(byToken(otherToken, ""), http.MethodGet, "/api-keys?environment_id="+w.env, nil).refused(w,
				http.StatusNotFound, apperr.CodeNotFound)
			w.call(inside, http.MethodPatch, "/connections/github/elsewhere", object{"webhook": object{"alias": "acme"}}).
				refused(w, http.StatusConflict, apperr.CodeAliasTaken)
		})
		require.ElementsMatch(w.t, slices.Collect(maps.Keys(known)), found)
	})
}

// Two environments may give their connections one name. Each finds its own under it, an event goes to the subscriptions
// of its own environment only, and deleting one leaves the other.
func TestSameNames(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		production := w.environment("production")
		inside := w.user(production)
		here, there := w.connectGitHub("twin"), w.connect(inside, object{"provider": "github", "connection_id": "twin",
			"webhook_secret": githubSecret})
		require.Equal(w.t, "twin", *here.WebhookAlias)
		require.Nil(w.t, there.WebhookAlias, "an alias is one connection's in the whole service")
		mine, theirs := newReceiver(w.t, status(http.StatusOK)), newReceiver(w.t, status(http.StatusOK))
		w.subscribe(mine.url, object{"connection_id": "twin"})
		w.subscribeAs(inside, theirs.url, object{"connection_id": "twin"})

		m := github(issueOpened)
		uuid := w.fresh(here.pathToken(), m)
		w.settles(uuid, "forwarded")
		second := w.fresh(there.pathToken(), m) // the scope of a key is the connection
		theirs.wait(w.t, 1)
		require.Equal(w.t, uuid, mine.all()[0].header.Get("Webhook-Id"))
		require.Equal(w.t, second, theirs.all()[0].header.Get("Webhook-Id"))
		require.Equal(w.t, 1, mine.count())
		w.call(w.dev(), http.MethodGet, "/webhook-events/"+second, nil).refused(w, http.StatusNotFound, apperr.CodeNotFound)
		w.call(inside, http.MethodGet, "/webhook-events/"+uuid, nil).refused(w, http.StatusNotFound, apperr.CodeNotFound)

		w.call(inside, http.MethodPost, "/connections", object{"provider": "github", "connection_id": "twin",
			"on_conflict": "update", "tags": object{"a": "b"}}).want(w, http.StatusOK)
		w.call(inside, http.MethodDelete, "/connections/github/twin", nil).want(w, http.StatusNoContent)
		var still connection
		w.call(w.dev(), http.MethodGet, "/connections/github/twin", nil).want(w, http.StatusOK).into(w, &still)
		require.Equal(w.t, here, still)
		w.fresh("twin", github(`{"action":"closed"}`))
		// A released alias stays its environment's: the other cannot take over the URL.
		w.call(w.dev(), http.MethodDelete, "/connections/github/twin", nil).want(w, http.StatusNoContent)
		require.Nil(w.t, w.connect(inside, object{"provider": "github", "connection_id": "twin"}).WebhookAlias)
		require.Equal(w.t, "twin", *w.connectGitHub("twin").WebhookAlias)
	})
}
