// Package identityhttp is the HTTP surface of identity: sign-in, who am I, and API keys.
package identityhttp

import (
	"net/http"

	"sallyport/internal/identity"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
)

const (
	tagTeam = "Team"
	tagKeys = "API keys"
)

var _ httpapi.Authenticator = (*identity.Service)(nil)

// handler holds what the operations need.
type handler struct {
	identity *identity.Service
}

// Mount registers the operations of the capability.
func Mount(api *httpapi.API, s *identity.Service) {
	h := handler{identity: s}
	mountTeam(api, h)
	mountKeys(api, h)
}

func mountTeam(api *httpapi.API, h handler) {
	httpapi.Register(api, httpapi.Operation{
		ID: "login", Method: http.MethodPost, Path: "/team/login", Tag: tagTeam, Status: http.StatusOK, Public: true,
		Summary: "Sign in",
		Description: "Exchanges an e-mail address and a password for an access token. A wrong address and a wrong password get the " +
			"same answer. Send the token as `Authorization: Bearer <token>` and the environment as `Environment-Id`.",
		Errors: []apperr.Code{apperr.CodeUnauthorized},
	}, h.login)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-me", Method: http.MethodGet, Path: "/team/me", Tag: tagTeam, Status: http.StatusOK, Permission: access.TeamRead,
		Summary:     "Show the signed-in user",
		Description: "Returns the user, their team and role, what the role permits, and the team's environments.",
	}, h.me)
}

func mountKeys(api *httpapi.API, h handler) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-api-key", Method: http.MethodPost, Path: "/api-keys", Tag: tagKeys, Status: http.StatusCreated,
		Permission: access.APIKeysWrite, Summary: "Create an API key",
		Description: "Creates a key of one environment and returns it, this once, in full: it is not stored. A key may do what its " +
			"grants open, and nothing without grants; a grant that denies wins over any that allow. An environment of another team is " +
			"`not_found`.",
		Errors: []apperr.Code{apperr.CodeNotFound},
	}, h.createKey)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-api-keys", Method: http.MethodGet, Path: "/api-keys", Tag: tagKeys, Status: http.StatusOK,
		Permission: access.APIKeysRead, Summary: "List API keys",
		Description: "Returns the keys of the team, newest first, without their secrets. Revoked and expired keys are listed until they " +
			"are deleted. Filtering by an environment of another team is `not_found`.",
		Errors: []apperr.Code{apperr.CodeNotFound},
	}, h.listKeys)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-api-key", Method: http.MethodGet, Path: "/api-keys/{id}", Tag: tagKeys, Status: http.StatusOK,
		Permission: access.APIKeysRead, Summary: "Show an API key",
		Description: "Returns the key without its secret.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.getKey)
	httpapi.Register(api, httpapi.Operation{
		ID: "revoke-api-key", Method: http.MethodPost, Path: "/api-keys/{id}/revoke", Tag: tagKeys, Status: http.StatusOK,
		Permission: access.APIKeysWrite, Summary: "Revoke an API key",
		Description: "Ends the key at once and for good; the next request with it is refused. The key stays listed. Revoking a revoked " +
			"key changes nothing.",
		Errors: []apperr.Code{apperr.CodeNotFound},
	}, h.revokeKey)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-api-key", Method: http.MethodDelete, Path: "/api-keys/{id}", Tag: tagKeys, Status: http.StatusNoContent,
		Permission: access.APIKeysWrite, Summary: "Delete an API key",
		Description: "Ends the key at once and removes it with its grants. The audit trail of the key stays.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.deleteKey)
}
