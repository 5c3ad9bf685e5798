package identityhttp

import (
	"net/http"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
)

func mountKeys(api *httpapi.API, h handler) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-api-key", Method: http.MethodPost, Path: "/api-keys", Tag: tagKeys, AnyEnvironment: true,
		Status: http.StatusCreated, Permission: access.APIKeysWrite, Summary: "Create an API key",
		Description: "Creates a key of one environment, in which the user needs what its grants open themselves, and " +
			"returns it, this once, in full: it is not stored. A key may do what its " +
			"grants open, and nothing without grants; a grant that denies wins over any that allow. Grants that name " +
			"connections bound all " +
			"that the key sees and touches: what is about another connection is not found. An environment of another team is " +
			"`not_found`.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodePrivilegeEscalation},
	}, h.createKey)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-api-keys", Method: http.MethodGet, Path: "/api-keys", Tag: tagKeys, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysRead, Summary: "List API keys",
		Description: "Returns the keys of the team, newest first, without their secrets. Revoked and expired keys are " +
			"listed until they " +
			"are deleted. Filtering by an environment of another team is `not_found`.",
		Errors: []apperr.Code{apperr.CodeNotFound},
	}, h.listKeys)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-api-key", Method: http.MethodGet, Path: "/api-keys/{id}", Tag: tagKeys, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysRead, Summary: "Show an API key",
		Description: "Returns the key without its secret.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.getKey)
	httpapi.Register(api, httpapi.Operation{
		ID: "update-api-key", Method: http.MethodPatch, Path: "/api-keys/{id}", Tag: tagKeys, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysWrite, Summary: "Change an API key",
		Description: "Changes the fields given and keeps the others (RFC 7396). Requests see the change from the next one " +
			"on, on other nodes " +
			"within five seconds. Whoever changes more than the name needs what the key's grants open themselves.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeAPIKeyRevoked, apperr.CodePrivilegeEscalation},
	}, h.updateKey)
	httpapi.Register(api, httpapi.Operation{
		ID: "rotate-api-key", Method: http.MethodPost, Path: "/api-keys/{id}/rotate", Tag: tagKeys, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysWrite, Summary: "Rotate an API key",
		Description: "Gives the key another secret and returns the key, this once, in full. Its id, its prefix and its " +
			"grants stay. The old " +
			"secret works for `overlap_seconds` more, so that callers can move without a gap. Two secrets work at most: " +
			"while an overlap " +
			"lasts, another rotation is `rotation_in_progress`, but for one with an overlap of 0, which ends every secret " +
			"but the new one. " +
			"Without a body the request means `{}`.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeAPIKeyRevoked, apperr.CodePrivilegeEscalation,
			apperr.CodeRotationInProgress},
	}, h.rotateKey)
	httpapi.Register(api, httpapi.Operation{
		ID: "disable-api-key", Method: http.MethodPost, Path: "/api-keys/{id}/disable", Tag: tagKeys, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysWrite, Summary: "Disable an API key",
		Description: "Has the key refused until it is enabled. Disabling a disabled key changes nothing.",
		Errors:      []apperr.Code{apperr.CodeNotFound, apperr.CodeAPIKeyRevoked},
	}, h.disableKey)
	httpapi.Register(api, httpapi.Operation{
		ID: "enable-api-key", Method: http.MethodPost, Path: "/api-keys/{id}/enable", Tag: tagKeys, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysWrite, Summary: "Enable an API key",
		Description: "Lets a disabled key work again. Enabling a key that is not disabled changes nothing, and an expired " +
			"key stays expired.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeAPIKeyRevoked, apperr.CodePrivilegeEscalation},
	}, h.enableKey)
	httpapi.Register(api, httpapi.Operation{
		ID: "revoke-api-key", Method: http.MethodPost, Path: "/api-keys/{id}/revoke", Tag: tagKeys, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysWrite, Summary: "Revoke an API key",
		Description: "Ends the key at once and for good; the next request with it is refused. The key stays listed. " +
			"Revoking a revoked " +
			"key changes nothing.",
		Errors: []apperr.Code{apperr.CodeNotFound},
	}, h.revokeKey)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-api-key", Method: http.MethodDelete, Path: "/api-keys/{id}", Tag: tagKeys, AnyEnvironment: true,
		Status: http.StatusNoContent, Permission: access.APIKeysWrite, Summary: "Delete an API key",
		Description: "Ends the key at once and removes it with its grants. The audit trail of the key stays.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.deleteKey)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-api-key-usage", Method: http.MethodGet, Path: "/api-keys/{id}/usage", Tag: tagKeys, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysRead, Summary: "Show how an API key is used",
		Description: "Counts the requests with the key by the hour or the day, by the route that they needed and how they " +
			"ended. Counts are " +
			"up to a minute late, and kept for 90 days.",
		Errors: []apperr.Code{apperr.CodeNotFound},
	}, h.keyUsage)
	httpapi.Register(api, httpapi.Operation{
		ID: "verify-api-key", Method: http.MethodPost, Path: "/api-keys/verify", Tag: tagKeys, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysRead, Summary: "Verify an API key",
		Description: "Says whether a text is a key of the team that works, and which one: to find out whose a key is that " +
			"turned up somewhere. " +
			"A text that is no key, one whose secret is wrong or was rotated out, and a key of another team get the same " +
			"answer. Thirty a " +
			"minute, for each user.",
		Errors: []apperr.Code{apperr.CodeRateLimited},
	}, h.verifyKey)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-api-key-grants", Method: http.MethodGet, Path: "/api-keys/{id}/grants", Tag: tagKeys, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysRead, Summary: "List the grants of an API key",
		Description: "Returns the grants of the key, newest first, ended ones included.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.listGrants)
	httpapi.Register(api, httpapi.Operation{
		ID: "create-api-key-grant", Method: http.MethodPost, Path: "/api-keys/{id}/grants", Tag: tagKeys,
		AnyEnvironment: true, Status: http.StatusCreated, Permission: access.APIKeysWrite,
		Summary: "Add a grant to an API key",
		Description: "Opens routes to the key, or closes them, for some connections or for all. Requests see it from the " +
			"next one on, on other " +
			"nodes within five seconds, and streams that the key has open end if it changes what they may show.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeAPIKeyRevoked, apperr.CodePrivilegeEscalation},
	}, h.createGrant)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-api-key-grant", Method: http.MethodDelete, Path: "/api-keys/{id}/grants/{grant_id}", Tag: tagKeys,
		AnyEnvironment: true, Status: http.StatusNoContent, Permission: access.APIKeysWrite,
		Summary:     "Remove a grant of an API key",
		Description: "Takes away what the grant opens, or opens again what it closes.",
		Errors:      []apperr.Code{apperr.CodeNotFound, apperr.CodeAPIKeyRevoked, apperr.CodePrivilegeEscalation},
	}, h.deleteGrant)
}
