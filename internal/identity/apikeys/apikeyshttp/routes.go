// Package apikeyshttp serves API keys, their grants and their usage over HTTP.
package apikeyshttp

import (
	"context"
	"net/http"

	"sallyport/internal/identity/apikeys"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
)

const (
	tag            = "API keys"
	collectionPath = "/api-keys"
	itemPath       = collectionPath + "/{id}"
	grantsPath     = itemPath + "/grants"
)

type handlers struct{ svc *apikeys.Service }

// mount adds the operations on API keys to the API.
func mount(api *httpapi.API, svc *apikeys.Service) {
	h := &handlers{svc: svc}
	httpapi.Register(api, httpapi.Operation{
		ID: "create-api-key", Method: http.MethodPost, Path: collectionPath, Tag: tag, AnyEnvironment: true,
		Status: http.StatusCreated, Permission: access.APIKeysWrite, Summary: "Create an API key",
		Example: `{"name": "billing service", "environment_id": "env_06dyxk8z3pk6n5q1v7wc4t2m9r", ` +
			`"grants": [{"routes": ["webhooks"]}]}`,
		Missing: []string{"environment"},
		Description: "Creates a key for one environment and returns it in full, in this response only: it is not stored. A " +
			"key can do what its grants allow, and nothing without grants. A grant that denies takes precedence over grants " +
			"that allow. Grants that name connections limit everything that the key can see and change: data of other " +
			"connections is not found.\n\n" +
			"You need the permissions that the grants give in that environment. An environment of another team is " +
			"`not_found`.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodePrivilegeEscalation},
	}, h.create)
	httpapi.RegisterList(api, httpapi.Operation{
		ID: "list-api-keys", Method: http.MethodGet, Path: collectionPath, Tag: tag, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysRead, Summary: "List API keys",
		Missing: []string{"environment"},
		Description: "Returns the keys of the team, newest first, without their secrets. Revoked and expired keys are " +
			"listed until they are deleted. A filter with an environment of another team is `not_found`.",
		Errors: []apperr.Code{apperr.CodeNotFound},
	}, httpapi.List[listInput, apikeys.Key, APIKey]{Rows: h.list, IsKey: id.Matcher(id.PrefixAPIKey),
		Key: func(k *apikeys.Key) string { return k.ID }, View: viewListed})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-api-key", Method: http.MethodGet, Path: itemPath, Tag: tag, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysRead, Summary: "Get an API key",
		Description: "Returns a key without its secret.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.get)
	httpapi.Register(api, httpapi.Operation{
		ID: "update-api-key", Method: http.MethodPatch, Path: itemPath, Tag: tag, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysWrite, Summary: "Update an API key",
		Example: `{"name": "billing service"}`,
		Description: "Applies a merge patch (RFC 7396): absent fields stay. The update applies from the next request on, " +
			"and on other nodes within five seconds. If you change more than the name, you need the permissions that the " +
			"key's grants give.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeAPIKeyRevoked, apperr.CodePrivilegeEscalation}, IfMatch: true,
	}, h.update)
	httpapi.Register(api, httpapi.Operation{
		ID: "rotate-api-key", Method: http.MethodPost, Path: itemPath + "/rotate", Tag: tag, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysWrite, Summary: "Rotate an API key",
		Description: "Generates a new secret for the key and returns the key in full, in this response only. The id, the " +
			"prefix and the grants stay. The old secret works for another `overlap_seconds`, so that callers can switch " +
			"without a gap. At most two secrets work at the same time: during an overlap another rotation is " +
			"`rotation_in_progress`, except with an overlap of 0, which ends all old secrets. An empty body means `{}`.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeAPIKeyRevoked, apperr.CodePrivilegeEscalation,
			apperr.CodeRotationInProgress}, IfMatch: true,
	}, h.rotate)
	httpapi.Register(api, httpapi.Operation{
		ID: "disable-api-key", Method: http.MethodPost, Path: itemPath + "/disable", Tag: tag, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysWrite, Summary: "Disable an API key",
		Description: "Disables the key. Requests with it are rejected until it is enabled. Disabling a disabled key " +
			"changes nothing.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeAPIKeyRevoked}, IfMatch: true,
	}, h.disable)
	httpapi.Register(api, httpapi.Operation{
		ID: "enable-api-key", Method: http.MethodPost, Path: itemPath + "/enable", Tag: tag, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysWrite, Summary: "Enable an API key",
		Description: "Enables a disabled key. Enabling a key that is not disabled changes nothing. An expired key stays " +
			"expired.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeAPIKeyRevoked, apperr.CodePrivilegeEscalation}, IfMatch: true,
	}, h.enable)
	httpapi.Register(api, httpapi.Operation{
		ID: "revoke-api-key", Method: http.MethodPost, Path: itemPath + "/revoke", Tag: tag, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysWrite, Summary: "Revoke an API key",
		Description: "Revokes the key immediately and permanently: the next request with it is rejected. The key stays " +
			"listed. Revoking a revoked key changes nothing.",
		Errors: []apperr.Code{apperr.CodeNotFound}, IfMatch: true,
	}, h.revoke)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-api-key", Method: http.MethodDelete, Path: itemPath, Tag: tag, AnyEnvironment: true,
		Status: http.StatusNoContent, Permission: access.APIKeysWrite, Summary: "Delete an API key",
		Description: "Revokes the key immediately and deletes it with its grants. Its audit trail is kept.",
		Errors:      []apperr.Code{apperr.CodeNotFound}, IfMatch: true,
	}, h.delete)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-api-key-usage", Method: http.MethodGet, Path: itemPath + "/usage", Tag: tag, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysRead, Summary: "Get the usage of an API key",
		Description: "Counts the requests with the key by hour or day, by route and by outcome. Counts are up to a minute " +
			"late and are kept for 90 days.",
		Errors: []apperr.Code{apperr.CodeNotFound},
	}, h.usage)
	httpapi.Register(api, httpapi.Operation{
		ID: "verify-api-key", Method: http.MethodPost, Path: collectionPath + "/verify", Tag: tag, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysRead, Summary: "Verify an API key",
		Messages: map[apperr.Code][]string{
			apperr.CodeRateLimited: {
				"Too many keys were verified; try again later",
			},
		},
		Description: "Checks whether a text is a working key of the team, and which one. Use it to find the owner of a key " +
			"that was found somewhere. The response is the same for a text that is not a key, for a wrong or rotated-out " +
			"secret, and for a key of another team. The limit is 30 requests a minute for each user.",
		Errors: []apperr.Code{apperr.CodeRateLimited},
	}, h.verify)
	httpapi.RegisterList(api, httpapi.Operation{
		ID: "list-api-key-grants", Method: http.MethodGet, Path: grantsPath, Tag: tag, AnyEnvironment: true,
		Status: http.StatusOK, Permission: access.APIKeysRead, Summary: "List the grants of an API key",
		Description: "Returns the grants of the key, newest first, including ended ones.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, httpapi.List[listGrantsInput, apikeys.Grant, grant]{Rows: h.listGrants, IsKey: id.Matcher(id.PrefixGrant),
		Key: func(g *apikeys.Grant) string {
			return g.ID
		}, View: func(_ context.Context, g *apikeys.Grant) grant { return viewGrant(*g) }})
	httpapi.Register(api, httpapi.Operation{
		ID: "create-api-key-grant", Method: http.MethodPost, Path: grantsPath, Tag: tag,
		AnyEnvironment: true, Status: http.StatusCreated, Permission: access.APIKeysWrite,
		Summary: "Add a grant to an API key",
		Description: "Adds a grant that allows or denies routes for some connections or for all. It applies from the next " +
			"request on, and on other nodes within five seconds. Open streams of the key end if the grant changes what they " +
			"may show.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeAPIKeyRevoked, apperr.CodePrivilegeEscalation},
	}, h.createGrant)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-api-key-grant", Method: http.MethodDelete, Path: grantsPath + "/{grant_id}", Tag: tag,
		AnyEnvironment: true, Status: http.StatusNoContent, Permission: access.APIKeysWrite,
		Summary:     "Delete a grant of an API key",
		Description: "Deletes the grant. The key loses what the grant allows, or regains what the grant denies.",
		Errors:      []apperr.Code{apperr.CodeNotFound, apperr.CodeAPIKeyRevoked, apperr.CodePrivilegeEscalation},
	}, h.deleteGrant)
}
