package e2e_test

import (
	"net/http"

	"github.com/stretchr/testify/require"
)

type ssoFixtures struct {
	// provider is an identity provider.
	provider string
}

// SSO covers identity providers.
func (capabilities) SSO() capability {
	mapsInto := func(r foreign, operation, _ string) {
		r.w.t.Helper()
		mapping := []object{{"group": "engineering", "role": "developer", "environment_id": r.otherEnvironment}}
		require.Contains(r.w.t, r.change(r.w.user(""), operation, mapping, "role_mappings").violations(r.w),
			"body.role_mappings[0].environment_id exists")
	}
	namesNoResource := func(foreign, string, string) {} // names this service at the provider
	return capability{
		create: func(w *world, _ credentials, f fixtures) {
			w.t.Helper()
			f.put(ssoFixtures{provider: w.identityProvider(fixtureServers().idp, object{})})
		},
		samples: func(w *world, f fixtures) []sample {
			path := map[string]string{"id": part[ssoFixtures](f).provider}
			mapping := []object{{"group": "engineering", "role": "developer", "environment_id": w.env}}
			return []sample{
				{id: "create-sso-provider", body: object{"name": "Sample", "issuer": "https://login.example.test",
					"client_id": "sample", "client_secret": "0123456789abcdef", "allowed_domains": []string{"example.test"},
					"just_in_time": true, "link_existing": false, "enabled": true, "groups_claim": "groups",
					"scopes": []string{"openid"}, "role_mappings": mapping}, status: http.StatusCreated},
				{id: "list-sso-providers", status: http.StatusOK},
				{id: "get-sso-provider", path: path, status: http.StatusOK},
				{id: "update-sso-provider", path: path, body: object{"name": "Changed", "scopes": []string{"openid"},
					"role_mappings": mapping, "allowed_domains": []string{"example.test"}}, status: http.StatusOK},
				{id: "test-sso-provider", path: path, status: http.StatusOK,
					unrecorded: "a look at what the provider publishes"},
				{id: "start-sso", path: path, status: http.StatusSeeOther},
				{id: "delete-sso-provider", path: path, status: http.StatusNoContent},
			}
		},
		lists: map[string]map[string]string{"list-sso-providers": {}},
		references: map[string]func(r foreign, operation, field string){
			"create-sso-provider client_id":      namesNoResource,
			"update-sso-provider client_id":      namesNoResource,
			"create-sso-provider environment_id": mapsInto,
			"update-sso-provider environment_id": mapsInto,
		},
	}
}
