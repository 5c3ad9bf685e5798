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
			"connections", "catalog", "actions")).Key),
		"a user in another environment": w.user(environment),
		"a user of another team":        byToken(otherToken, otherEnvironment),
	}
}

// A resource of one environment does not exist for another: every operation that names one returns not found to a key
// of another environment, to a user who works in another, and to a user of another team, and changes nothing. Every
// operation is covered, because every operation has a sample.
func TestForeignResources(t *testing.T) {
	t.Parallel()
	eachPopulatedTwice(t, func(w *world, own, other fixtures) {
		otherEnvironment, otherToken := w.otherTeam()
		strangers := w.strangers(other.environment, otherEnvironment, otherToken)
		asked := 0
		w.unchanged(func() {
			for _, s := range w.samples(own) {
				for who, c := range strangers {
					switch {
					case len(s.path) == 0, s.op.Public, s.op.Route == "" && strings.Contains(who, "key"):
						continue
					case !s.op.Environment:
						// Resources of the team belong to it in every environment.
						if !strings.Contains(who, "team") {
							continue
						}
					}
					asked++
					a := w.callSample(c, s)
					require.Equal(w.t, http.StatusNotFound, a.status, "%s for %s: %s", s.op.ID, who, a.body)
					require.Contains(w.t, []apperr.Code{apperr.CodeNotFound, apperr.CodeProviderNotFound,
						apperr.CodeConnectionNotFound}, a.envelope(w).Error.Code)
				}
			}
		})
		require.Greater(w.t, asked, 30)
	})
}

// Naming an environment gives no access to it: another team's is not found, for any request in it.
func TestForeignEnvironment(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, own fixtures) {
		otherEnvironment, otherToken := w.otherTeam()
		w.unchanged(func() {
			for _, s := range w.samples(own) {
				if s.op.Environment {
					w.callSample(byToken(otherToken, w.env), s).refused(w, http.StatusNotFound, apperr.CodeNotFound)
					w.callSample(w.user(otherEnvironment), s).refused(w, http.StatusNotFound, apperr.CodeNotFound)
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

// Lists show an environment its own rows, with any filters: naming another's resource selects nothing.
func TestForeignRowsInLists(t *testing.T) {
	t.Parallel()
	eachPopulatedTwice(t, func(w *world, own, other fixtures) {
		otherEnvironment, otherToken := w.otherTeam()
		idempotencyKey := w.event(own.event()).IdempotencyKey
		foreign := map[string]string{ // filters that name a resource of the first environment
			"connection_id": "acme", "subscription_id": own.subscription().ID, "idempotency_key": idempotencyKey, "q": "acme",
		}
		secrets := append(own.private(), idempotencyKey)
		strangers := w.strangers(other.environment, otherEnvironment, otherToken)
		lists := 0
		w.unchanged(func() {
			for _, s := range w.listSamples(other) {
				if !s.op.Environment {
					continue
				}
				lists++
				for who, c := range strangers {
					if len(s.path) > 0 && strings.Contains(who, "team") || s.op.Route == "" && strings.Contains(who, "key") {
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
		require.GreaterOrEqual(w.t, lists, 7)
	})
}

// foreign is the view from inside an environment on the resources of another one.
type foreign struct {
	w *world
	// own are the resources of the other environment.
	own    fixtures
	inside credentials
	// otherEnvironment is another team's, and otherToken its owner's.
	otherEnvironment, otherToken string
	// samples holds the samples of the inner environment, by operation.
	samples map[string]sample
}

// change makes an operation's sample request, with a value at a place of its body.
func (r foreign) change(c credentials, operation string, value any, place ...any) response {
	r.w.t.Helper()
	s := r.samples[operation]
	return r.w.callSample(c, s, changed(r.w, s.body, place, value, false))
}

// missing requires that an operation does not find what a field of its body names.
func (r foreign) missing(operation, field string, value any) {
	r.w.t.Helper()
	location := "body." + field
	if _, list := value.([]string); list {
		location += "[0]"
	}
	require.Contains(r.w.t, r.change(r.inside, operation, value, field).violations(r.w), location+" exists")
}

// scope requires that a role cannot be given in another team's environment.
func (r foreign) scope(operation, field string) {
	r.w.t.Helper()
	require.Equal(r.w.t, []string{"body.scope." + field + " exists"},
		r.change(r.w.user(""), operation, r.otherEnvironment, "scope", field).violations(r.w))
}

// References from a body into another environment are refused as if what they name were not there.
func TestForeignReferences(t *testing.T) {
	t.Parallel()
	eachPopulatedTwice(t, func(w *world, own, other fixtures) {
		otherEnvironment, otherToken := w.otherTeam()
		inside := w.user(other.environment)
		r := foreign{w: w, own: own, inside: inside, otherEnvironment: otherEnvironment, otherToken: otherToken,
			samples: map[string]sample{}}
		for _, s := range w.samples(other) {
			r.samples[s.op.ID] = s
		}
		known := map[string]func(r foreign, operation, field string){}
		for _, c := range allCapabilities() {
			maps.Copy(known, c.references)
		}
		found := []string{}
		w.unchanged(func() {
			for op, s := range r.samples {
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
					require.Contains(w.t, known, reference, "a reference that no capability declares")
					known[reference](r, op, field)
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
		w.awaitEvent(uuid, "forwarded")
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
