package e2e_test

import (
	"net/http"

	"sallyport/internal/platform/apperr"
)

type keyFixtures struct {
	// key is one of two, and grant one of the key's two.
	key, grant string
}

func (f fixtures) key() string { return part[keyFixtures](f).key }

// APIKeys covers API keys and their grants.
func (capabilities) APIKeys() capability {
	return capability{
		create: func(w *world, _ credentials, f fixtures) {
			w.t.Helper()
			var own keyFixtures
			for range 2 {
				own.key = w.created(w.user(""), "/api-keys", object{"name": "fixture", "environment_id": f.environment})
			}
			for range 2 {
				own.grant = w.created(w.user(""), "/api-keys/"+own.key+"/grants", object{"routes": []string{"events"}})
			}
			f.put(own)
		},
		samples: keySamples,
		lists: map[string]map[string]string{
			"list-api-keys":       {"environment_id": ownEnvironment},
			"list-api-key-grants": {},
		},
		references: map[string]func(r foreign, operation, field string){
			"create-api-key environment_id": func(r foreign, operation, field string) {
				r.w.t.Helper()
				r.change(r.w.user(""), operation, r.otherEnvironment, field).refused(r.w, http.StatusNotFound,
					apperr.CodeNotFound)
				r.change(byToken(r.otherToken, ""), operation, r.w.env, field).refused(r.w, http.StatusNotFound,
					apperr.CodeNotFound)
			},
		},
	}
}

func keySamples(w *world, f fixtures) []sample {
	own := part[keyFixtures](f)
	path := map[string]string{"id": own.key}
	return []sample{
		{id: "create-api-key", body: object{"name": "sample", "environment_id": f.environment,
			"grants": []object{{"effect": "allow", "routes": []string{"events"}, "connections": []string{"*"},
				"not_after": "2099-01-31T00:00:00.000Z"}}, "source_cidrs": []string{"127.0.0.0/8"},
			"rate_limit": object{"per_second": 10, "burst": 50}}, status: http.StatusCreated},
		{id: "list-api-keys", status: http.StatusOK},
		{id: "get-api-key", path: path, status: http.StatusOK},
		{id: "update-api-key", path: path, body: object{"name": "sample", "expires_at": "2099-01-31T00:00:00.000Z",
			"source_cidrs": []string{"127.0.0.0/8"}}, status: http.StatusOK},
		{id: "get-api-key-usage", path: path, status: http.StatusOK},
		{id: "verify-api-key", body: object{"key": w.key}, status: http.StatusOK, unrecorded: "a look at what a text is"},
		{id: "rotate-api-key", path: path, body: object{"overlap_seconds": 0}, status: http.StatusOK},
		{id: "disable-api-key", path: path, status: http.StatusOK},
		{id: "enable-api-key", path: path, status: http.StatusOK},
		{id: "list-api-key-grants", path: path, status: http.StatusOK},
		{id: "create-api-key-grant", path: path, body: object{"effect": "allow", "routes": []string{"events"},
			"connections": []string{"acme"}}, status: http.StatusCreated},
		{id: "delete-api-key-grant", path: map[string]string{"id": own.key, "grant_id": own.grant},
			status: http.StatusNoContent},
		{id: "revoke-api-key", path: path, status: http.StatusOK, stage: removes},
		{id: "delete-api-key", path: path, status: http.StatusNoContent, stage: removes},
	}
}
