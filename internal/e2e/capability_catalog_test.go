package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/testkit/await"
)

type catalogFixtures struct {
	// provider is the slug of a provider that an active import defines.
	provider string
	// active, ready and other are the ids of imports.
	active, ready, other string
}

// importJob is an import, as far as tests look at it.
type importJob struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Provider string `json:"provider"`
	Outcome  struct {
		Actions int `json:"actions"`
	} `json:"outcome"`
	Preview struct {
		Digest        string `json:"digest"`
		Added         int    `json:"added"`
		RiskRaised    int    `json:"risk_raised"`
		AccessChanged bool   `json:"access_changed"`
		Access        struct {
			Hosts []string `json:"hosts"`
		} `json:"access"`
	} `json:"preview"`
	Error struct {
		Message string `json:"message"`
		Line    int    `json:"line"`
	} `json:"error"`
}

// openAPI describes an API at a host, with operations given as "METHOD /path id".
func openAPI(host string, operations ...string) object {
	paths := object{}
	for _, o := range operations {
		parts := strings.Fields(o)
		item, ok := paths[parts[1]].(object)
		if !ok {
			item = object{}
			paths[parts[1]] = item
		}
		item[strings.ToLower(parts[0])] = object{"operationId": parts[2], "summary": parts[2],
			"tags": []string{"things"}, "responses": object{}}
	}
	return object{"openapi": "3.1.0", "info": object{"title": "Things", "version": "1"},
		"servers":    []object{{"url": "https://" + host + "/v1"}},
		"components": object{"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}}},
		"security":   []object{{"token": []string{}}}, "paths": paths}
}

// importDocument imports a document and returns the import once it has ended.
func (w *world) importDocument(environment string, body object) importJob {
	w.t.Helper()
	var job importJob
	w.call(w.user(environment), http.MethodPost, "/catalog/imports", body).want(w, http.StatusAccepted).into(w, &job)
	return w.awaitImport(environment, job.ID)
}

// awaitImport returns an import once it has ended.
func (w *world) awaitImport(environment, importID string) (job importJob) {
	w.t.Helper()
	await.Condition(w.t, "the end of an import", func() bool {
		job = importJob{}
		w.call(w.user(environment), http.MethodGet, "/catalog/imports/"+importID, nil).want(w, http.StatusOK).into(w, &job)
		return job.Status != "queued" && job.Status != "running"
	})
	return job
}

// activate activates an import by the digest of its preview.
func (w *world) activate(environment string, job importJob) {
	w.t.Helper()
	w.call(w.user(environment), http.MethodPost, "/catalog/imports/"+job.ID+"/activate",
		object{"digest": job.Preview.Digest}).want(w, http.StatusOK)
}

// Catalog covers the catalog and imports.
func (capabilities) Catalog() capability {
	return capability{
		create: func(w *world, _ credentials, f fixtures) {
			w.t.Helper()
			own := catalogFixtures{provider: "imported-" + strings.ToLower(f.environment[4:])}
			body := object{"provider": own.provider, "document": openAPI("api.acme.dev", "GET /things list_things",
				"DELETE /things/1 delete_thing")}
			first := w.importDocument(f.environment, body)
			require.Equal(w.t, "ready", first.Status, "%+v", first)
			w.activate(f.environment, first)
			own.active = first.ID
			next := object{"provider": own.provider, "document": openAPI("api.acme.dev", "POST /things add_thing",
				"GET /others list_others")}
			own.ready = w.importDocument(f.environment, next).ID
			own.other = w.importDocument(f.environment, next).ID
			w.change(`UPDATE catalog_imports SET status = 'cancelled' WHERE id = $1`, own.other)
			f.put(own)
		},
		samples: func(_ *world, f fixtures) []sample {
			own := part[catalogFixtures](f)
			provider := map[string]string{"provider": own.provider}
			ready, other := map[string]string{"id": own.ready}, map[string]string{"id": own.other}
			return []sample{
				{id: "list-catalog", status: http.StatusOK},
				{id: "get-catalog-provider", path: provider, status: http.StatusOK},
				{id: "search-actions", status: http.StatusOK},
				{id: "get-action", path: map[string]string{"provider": own.provider, "action_name": "list_things"},
					status: http.StatusOK},
				{id: "create-catalog-import", body: object{"provider": own.provider, "document": openAPI("api.acme.dev",
					"GET /things list_things")}, status: http.StatusAccepted},
				{id: "list-catalog-imports", status: http.StatusOK},
				{id: "get-catalog-import", path: ready, status: http.StatusOK},
				{id: "list-catalog-import-changes", path: ready, status: http.StatusOK},
				{id: "activate-catalog-import", path: ready, body: object{}, status: http.StatusOK},
				{id: "cancel-catalog-import", path: other, status: http.StatusOK,
					unrecorded: "the sample's is cancelled"},
				{id: "delete-catalog-import", path: other, status: http.StatusNoContent, stage: removes},
			}
		},
		lists: map[string]map[string]string{
			"list-catalog":                {"q": "g", "category": "crm", "auth_mode": "bearer", "source": "builtin"},
			"list-catalog-imports":        {"provider": "imported", "status": "ready"},
			"list-catalog-import-changes": {"kind": "added", "breaking": "false"},
		},
	}
}

// An API with a document becomes a provider in one minute: its actions are in the catalog of its environment alone, in
// all formats, and connections can be made to it. Another version shows what it changes, the former one comes back, and
// a provider in use stays.
func TestImportedProvider(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		other := w.environment("production")
		job := w.importDocument(w.env, object{"provider": "acme", "document": openAPI("api.acme.dev",
			"GET /things list_things", "POST /things create_thing")})
		require.Equal(w.t, "ready", job.Status, "%+v", job)
		require.Equal(w.t, 2, job.Preview.Added)
		require.Equal(w.t, []string{"api.acme.dev"}, job.Preview.Access.Hosts)
		path := "/catalog/imports/" + job.ID
		w.call(w.user(w.env), http.MethodGet, "/catalog/acme", nil).refused(w, http.StatusNotFound,
			apperr.CodeProviderNotFound)
		w.call(w.user(w.env), http.MethodPost, path+"/activate", object{}).refused(w, http.StatusConflict,
			apperr.CodeImportChanged)
		w.activate(w.env, job)

		var shown struct {
			Actions []struct {
				Action   string `json:"action"`
				ToolName string `json:"tool_name"`
			} `json:"actions"`
			Auth []struct{ Name string } `json:"auth"`
		}
		response := w.call(w.user(w.env), http.MethodGet, "/catalog/acme", nil).want(w, http.StatusOK)
		response.into(w, &shown)
		require.Equal(w.t, "create_thing", shown.Actions[0].Action)
		require.Equal(w.t, "acme__list_things", shown.Actions[1].ToolName)
		require.Equal(w.t, "token", shown.Auth[0].Name)
		w.call(ifHeader(w.user(w.env), "If-None-Match", response.header.Get("ETag")), http.MethodGet, "/catalog/acme",
			nil).want(w, http.StatusNotModified)
		for _, format := range []string{"default", "mcp", "openai", "anthropic", "gemini"} {
			require.Contains(w.t, string(w.call(w.user(w.env), http.MethodGet, "/actions/acme/create_thing?format="+format,
				nil).want(w, http.StatusOK).body), "acme__create_thing")
		}
		w.call(w.user(w.env), http.MethodGet, "/actions/acme/create_thin", nil).refused(w, http.StatusNotFound,
			apperr.CodeActionNotFound)
		w.call(w.user(other), http.MethodGet, "/catalog/acme", nil).refused(w, http.StatusNotFound,
			apperr.CodeProviderNotFound)
		w.call(w.user(other), http.MethodGet, path, nil).refused(w, http.StatusNotFound, apperr.CodeNotFound)
		w.call(w.user(other), http.MethodPost, path+"/activate", object{"digest": job.Preview.Digest}).refused(w,
			http.StatusNotFound, apperr.CodeNotFound)

		w.call(w.user(w.env), http.MethodPost, "/connections", object{"provider": "acme", "connection_id": "one",
			"auth_mode": "token", "credentials": object{"token": "t-1"}, "test": false}).want(w, http.StatusCreated)
		w.call(w.user(other), http.MethodPost, "/connections", object{"provider": "acme", "connection_id": "one"}).refused(w,
			http.StatusUnprocessableEntity, apperr.CodeValidation)
		w.call(w.user(w.env), http.MethodDelete, path, nil).refused(w, http.StatusConflict, apperr.CodeProviderInUse)

		// A version at another host takes no credential there.
		moved := w.importDocument(w.env, object{"provider": "acme", "document": openAPI("evil.dev",
			"GET /things list_things")})
		require.True(w.t, moved.Preview.AccessChanged)
		w.call(w.user(w.env), http.MethodPost, "/catalog/imports/"+moved.ID+"/activate", object{}).refused(w,
			http.StatusConflict, apperr.CodeImportChanged)
		w.activate(w.env, moved)
		w.awaitConnectionStatus("acme", "one", "needs_reauth")
		back := w.awaitImport(w.env, job.ID)
		require.Equal(w.t, "replaced", back.Status)
		w.activate(w.env, back)
		w.awaitConnectionStatus("acme", "one", "active")

		w.call(w.user(w.env), http.MethodDelete, "/connections/acme/one", nil).want(w, http.StatusNoContent)
		w.call(w.user(w.env), http.MethodDelete, path, nil).want(w, http.StatusNoContent)
		w.call(w.user(w.env), http.MethodGet, "/catalog/acme", nil).refused(w, http.StatusNotFound,
			apperr.CodeProviderNotFound)
	})
}

// An imported provider with OAuth says which client it needs, and that the hosts of the import, which any user may
// choose who imports, have to be listed before a secret goes there.
func TestClientOfAnImportedProvider(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		document := openAPI("api.acme.dev", "GET /things list_things")
		document["components"] = object{"securitySchemes": object{"login": object{"type": "oauth2", "flows": object{
			"authorizationCode": object{"authorizationUrl": "https://www.acme.dev/authorize",
				"tokenUrl": "https://auth.acme.dev/token", "scopes": object{}}}}}}
		document["security"] = []object{{"login": []string{}}}
		w.activate(w.env, w.importDocument(w.env, object{"provider": "acme", "document": document}))
		type client struct {
			Configured    bool
			HostsRequired bool     `json:"hosts_required"`
			Hosts         []string `json:"hosts"`
			Missing       []string `json:"missing_hosts"`
		}
		show := func() client {
			var shown struct {
				Auth []struct {
					OAuthClient bool `json:"oauth_client"`
					Client      *client
				}
			}
			w.call(w.user(w.env), http.MethodGet, "/catalog/acme", nil).want(w, http.StatusOK).into(w, &shown)
			require.Len(w.t, shown.Auth, 1)
			require.True(w.t, shown.Auth[0].OAuthClient)
			require.NotNil(w.t, shown.Auth[0].Client)
			return *shown.Auth[0].Client
		}
		hosts := []string{"auth.acme.dev"}
		require.Equal(w.t, client{false, true, hosts, hosts}, show())
		w.call(w.user(w.env), http.MethodPost, "/provider-configs", object{"provider": "acme",
			"oauth": object{"client_id": "me", "client_secret": "s-1"}}).want(w, http.StatusCreated)
		require.Equal(w.t, client{true, true, hosts, hosts}, show())
		w.call(w.user(w.env), http.MethodPatch, "/provider-configs/acme", object{"oauth": object{"client_id": "me",
			"client_secret": "s-1", "hosts": hosts}}).want(w, http.StatusOK)
		require.Equal(w.t, client{true, true, hosts, []string{}}, show())
		w.call(w.user(w.env), http.MethodPatch, "/provider-configs/acme", object{"oauth": object{"client_secret": nil,
			"hosts": nil}}).want(w, http.StatusOK)
		require.Equal(w.t, client{true, true, hosts, []string{}}, show(), "there is no secret to withhold")
	})
}

// awaitConnectionStatus waits until a connection has a status.
func (w *world) awaitConnectionStatus(provider, connectionID, status string) {
	w.t.Helper()
	w.ticking("the status "+status, func() bool {
		var c struct{ Status string }
		w.call(w.user(w.env), http.MethodGet, "/connections/"+provider+"/"+connectionID, nil).want(w, http.StatusOK).into(w,
			&c)
		return c.Status == status
	})
}

// A key with the grant for the catalog reads it, and imports nothing.
func TestCatalogByKey(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		key := byKey(w.newKey(w.env, allow("catalog")).Key)
		w.call(key, http.MethodGet, "/catalog", nil).want(w, http.StatusOK)
		w.call(key, http.MethodGet, "/actions/github/create_issue?format=openai", nil).want(w, http.StatusOK)
		var tools []struct{ Type, Name string }
		w.call(key, http.MethodGet, "/actions?q=create+an+issue&provider=github&limit=3&format=openai", nil).want(w,
			http.StatusOK).into(w, &tools)
		require.Len(w.t, tools, 3)
		require.Equal(w.t, "function", tools[0].Type)
		require.Equal(w.t, "github__create_issue", tools[0].Name)
		require.Equal(w.t, []string{"query.limit maximum"}, w.call(key, http.MethodGet,
			"/actions?q=issue&limit=51&format=mcp", nil).violations(w))
		w.call(key, http.MethodGet, "/actions?q="+strings.Repeat("%f0%9f%98%80+AND+%22", 400), nil).want(w, http.StatusOK)
		w.call(byKey(w.newKey(w.env, allow("webhooks")).Key), http.MethodGet, "/catalog", nil).refused(w,
			http.StatusForbidden, apperr.CodeGrantDenied)
		w.call(key, http.MethodPost, "/catalog/imports", object{"provider": "acme", "document": object{}}).refused(w,
			http.StatusUnauthorized, apperr.CodeUnauthorized)
	})
}

// An override changes the risk that the catalog shows, and the choice of actions what it offers; under the key of the
// configuration alone.
func TestOverriddenRisk(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.call(w.user(w.env), http.MethodPost, "/provider-configs", object{"provider": "github",
			"provider_config_key": "github-eu", "actions": object{"exclude": []string{"DELETE /repos/**"}},
			"risk": object{"overrides": []object{{"action": "create_issue", "level": "critical",
				"flags": []string{"notifies_people"}, "reason": "Our customers read them."}}}}).want(w, http.StatusCreated)
		level := func(key, action string) string {
			var a struct{ Risk struct{ Level string } }
			w.call(w.user(w.env), http.MethodGet, fmt.Sprintf("/actions/%s/%s", key, action), nil).want(w, http.StatusOK).into(w,
				&a)
			return a.Risk.Level
		}
		require.Equal(w.t, "critical", level("github-eu", "create_issue"))
		require.NotEqual(w.t, "critical", level("github", "create_issue"))
		for _, choice := range []string{"/repos", "get /repos", "tag:"} {
			require.Equal(w.t, []string{"body.actions.include[0] pattern"}, w.call(w.user(w.env), http.MethodPost,
				"/provider-configs", object{"provider": "github", "provider_config_key": "github-us",
					"actions": object{"include": []string{choice}}}).violations(w), choice)
		}
		w.call(w.user(w.env), http.MethodGet, "/actions/github-eu/delete_file", nil).refused(w, http.StatusNotFound,
			apperr.CodeActionNotFound)
		require.Equal(w.t, "high", level("github", "delete_file"))
		var rows []struct{ Action string }
		w.call(w.user(w.env), http.MethodGet, "/catalog/github-eu?max_risk=high&q=create+an+issue", nil).want(w,
			http.StatusOK)
		w.call(w.user(w.env), http.MethodGet, "/actions?q=create+an+issue&provider=github-eu&max_risk=high", nil).want(w,
			http.StatusOK).into(w, &rows)
		for _, row := range rows {
			require.NotEqual(w.t, "create_issue", row.Action)
		}
	})
}
