// Package identityhttp is the HTTP surface of identity: sign-in and sessions, the team, its environments, and API keys.
package identityhttp

import (
	"net/http"

	"sallyport/internal/identity"
	"sallyport/internal/identity/principals"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
)

const (
	tagTeam         = "Team"
	tagEnvironments = "Environments"
	tagKeys         = "API keys"
)

var _ httpapi.Authenticator = (*principals.Service)(nil)

// handler holds what the operations need.
type handler struct {
	identity *identity.Services
	origins  *http.CrossOriginProtection
}

// Mount registers the operations of the capability. For the document alone the services may be nil.
func Mount(api *httpapi.API, s *identity.Services) {
	h := handler{identity: s}
	if s.SignIn != nil {
		h.origins = origins(s.SignIn.Issuer())
	}
	mountSetup(api, h)
	mountReset(api, h)
	mountSessions(api, h)
	mountTOTP(api, h)
	mountTeam(api, h)
	mountMembers(api, h)
	mountInvitations(api, h)
	mountRoles(api, h)
	mountBindings(api, h)
	mountEnvironments(api, h)
	mountKeys(api, h)
	api.Handle("GET /.well-known/jwks.json", http.HandlerFunc(h.jwks))
}

func mountSessions(api *httpapi.API, h handler) {
	httpapi.Register(api, httpapi.Operation{
		ID: "login", Method: http.MethodPost, Path: "/team/login", Tag: tagTeam, Status: http.StatusOK, Public: true,
		Summary: "Sign in",
		Description: "Exchanges an e-mail address and a password for an access token and starts a session, which the cookie " +
			"`" + refreshCookie + "` continues. A wrong address and a wrong password get the same response. After several " +
			"failures for an account or from an address, each further attempt has to wait, at most 30 seconds.\n\n" +
			"If the user has an authenticator app, the right password without a code is `totp_required`; then send the " +
			"password and the code. A code works once. Send the token as `Authorization: Bearer <token>` and the environment " +
			"as `Environment-Id`.",
		Errors: []apperr.Code{apperr.CodeUnauthorized, apperr.CodeTOTPRequired, apperr.CodeTOTPInvalid,
			apperr.CodeRateLimited, apperr.CodeCrossOrigin},
	}, h.login)
	httpapi.Register(api, httpapi.Operation{
		ID: "refresh-token", Method: http.MethodPost, Path: "/team/token/refresh", Tag: tagTeam, Status: http.StatusOK,
		Public: true, Summary: "Refresh the access token",
		Description: "Exchanges the refresh cookie for an access token and a new cookie. Each cookie works once. A cookie " +
			"that was used before ends the session and all its tokens. Within 10 seconds of its first use, a cookie sent " +
			"again gets an access token and no new cookie, so that several windows can refresh at the same time. A rejected " +
			"cookie is removed.",
		Errors: []apperr.Code{apperr.CodeUnauthorized, apperr.CodeCrossOrigin},
	}, h.refresh)
	httpapi.Register(api, httpapi.Operation{
		ID: "logout", Method: http.MethodPost, Path: "/team/logout", Tag: tagTeam, Status: http.StatusNoContent, Public: true,
		Summary: "Sign out",
		Description: "Ends the session of the refresh cookie and the session of the access token in `Authorization: " +
			"Bearer`, with all their tokens, and removes the cookie. One of the two is enough. A session that has already " +
			"ended is not an error. Without a refresh cookie and without a valid access token the error is `unauthorized`.",
		Errors: []apperr.Code{apperr.CodeUnauthorized, apperr.CodeCrossOrigin},
	}, h.logout)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-sessions", Method: http.MethodGet, Path: "/team/sessions", Tag: tagTeam, Status: http.StatusOK,
		Permission: access.AccountRead, Summary: "List your sessions",
		Description: "Returns the active sessions of the signed-in user, newest first.",
	}, h.listSessions)
	httpapi.Register(api, httpapi.Operation{
		ID: "end-session", Method: http.MethodDelete, Path: "/team/sessions/{id}", Tag: tagTeam, Status: http.StatusNoContent,
		Permission: access.AccountWrite, Summary: "End a session",
		Description: "Ends a session of the signed-in user immediately, with its access tokens.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.endSession)
	httpapi.Register(api, httpapi.Operation{
		ID: "change-password", Method: http.MethodPost, Path: "/team/me/password", Tag: tagTeam, Status: http.StatusNoContent,
		Permission: access.AccountWrite, Summary: "Change the password",
		Description: "Changes the password of the signed-in user and ends their other sessions. The session of the request " +
			"continues with a new refresh cookie; the old cookie stops working. Wrong current passwords count as failed " +
			"sign-ins.",
		Errors: []apperr.Code{apperr.CodeRateLimited}, NoIdempotencyKey: true,
	}, h.changePassword)
}

func mountTeam(api *httpapi.API, h handler) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-me", Method: http.MethodGet, Path: "/team/me", Tag: tagTeam, Status: http.StatusOK,
		Permission: access.AccountRead, Summary: "Get the signed-in user",
		Description: "Returns the user, their team, their roles and permissions, the environments in which they have any " +
			"permission, and the session.",
	}, h.me)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-team", Method: http.MethodGet, Path: "/team", Tag: tagTeam, Status: http.StatusOK,
		Permission: access.TeamRead, Summary: "Get the team",
		Description: "Returns the team of the signed-in user.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.getTeam)
	httpapi.Register(api, httpapi.Operation{
		ID: "update-team", Method: http.MethodPatch, Path: "/team", Tag: tagTeam, Status: http.StatusOK,
		Permission: access.TeamWrite, Summary: "Update the team",
		Description: "Applies a merge patch (RFC 7396): absent fields stay.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.updateTeam)
}

func mountEnvironments(api *httpapi.API, h handler) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-environment", Method: http.MethodPost, Path: "/team/environments", Tag: tagEnvironments,
		Status: http.StatusCreated, Permission: access.EnvironmentsWrite, Summary: "Create an environment",
		Description: "Creates an environment in the team. Environments are isolated: the data of one environment does not " +
			"exist in another.",
		Errors: []apperr.Code{apperr.CodeEnvironmentExists},
	}, h.createEnvironment)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-environments", Method: http.MethodGet, Path: "/team/environments", Tag: tagEnvironments,
		AnyEnvironment: true, Status: http.StatusOK, Permission: access.EnvironmentsRead, Summary: "List environments",
		Description: "Returns the environments of the team that the user can see, newest first.",
	}, h.listEnvironments)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-environment", Method: http.MethodGet, Path: "/team/environments/{id}", Tag: tagEnvironments,
		AnyEnvironment: true, Status: http.StatusOK, Permission: access.EnvironmentsRead, Summary: "Get an environment",
		Description: "Returns an environment.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.getEnvironment)
	httpapi.Register(api, httpapi.Operation{
		ID: "update-environment", Method: http.MethodPatch, Path: "/team/environments/{id}", Tag: tagEnvironments,
		AnyEnvironment: true, Status: http.StatusOK, Permission: access.EnvironmentsWrite, Summary: "Update an environment",
		Description: "Applies a merge patch (RFC 7396): absent fields stay.",
		Errors:      []apperr.Code{apperr.CodeNotFound, apperr.CodeEnvironmentExists},
	}, h.updateEnvironment)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-environment", Method: http.MethodDelete, Path: "/team/environments/{id}", Tag: tagEnvironments,
		AnyEnvironment: true, Status: http.StatusNoContent, Permission: access.EnvironmentsWrite,
		Summary: "Delete an environment",
		Description: "Deletes an empty environment: one without connections, subscriptions and API keys, including revoked " +
			"and expired keys. Its name can be used again. Its audit trail is kept. Events that it received stay stored but " +
			"are no longer readable.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeEnvironmentNotEmpty},
	}, h.deleteEnvironment)
}
