// Package identityhttp is the HTTP surface of identity: sign-in and sessions, the team, its environments, and API keys.
package identityhttp

import (
	"net/http"

	"sallyport/internal/identity"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
)

const (
	tagTeam         = "Team"
	tagEnvironments = "Environments"
	tagKeys         = "API keys"
)

var _ httpapi.Authenticator = (*identity.Service)(nil)

// handler holds what the operations need.
type handler struct {
	identity *identity.Service
	origins  *http.CrossOriginProtection
}

// Mount registers the operations of the capability. For the document alone s may be nil.
func Mount(api *httpapi.API, s *identity.Service) {
	h := handler{identity: s}
	if s != nil {
		h.origins = origins(s.Issuer())
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
		Description: "Exchanges an e-mail address and a password for an access token, and starts a session: the cookie " +
			"`" + refreshCookie + "` keeps it going. A wrong address and a wrong password get the same answer. After several " +
			"failures " +
			"of an account, or from an address, each attempt has to wait, 30 seconds at most. Where the user has an " +
			"authenticator app, the " +
			"right password without its code is `totp_required`; send both then. A code works once. Send the token as " +
			"`Authorization: Bearer <token>` and the environment as `Environment-Id`.",
		Errors: []apperr.Code{apperr.CodeUnauthorized, apperr.CodeTOTPRequired, apperr.CodeTOTPInvalid,
			apperr.CodeRateLimited, apperr.CodeCrossOrigin},
	}, h.login)
	httpapi.Register(api, httpapi.Operation{
		ID: "refresh-token", Method: http.MethodPost, Path: "/team/token/refresh", Tag: tagTeam, Status: http.StatusOK,
		Public: true, Summary: "Get another access token",
		Description: "Exchanges the refresh cookie for an access token and for another cookie. Each cookie works once: " +
			"one that was used " +
			"before ends the session, with all its tokens. Sent again within 10 seconds it gets an access token and no " +
			"cookie, for windows " +
			"that refresh at the same time. A cookie that is refused is removed.",
		Errors: []apperr.Code{apperr.CodeUnauthorized, apperr.CodeCrossOrigin},
	}, h.refresh)
	httpapi.Register(api, httpapi.Operation{
		ID: "logout", Method: http.MethodPost, Path: "/team/logout", Tag: tagTeam, Status: http.StatusNoContent, Public: true,
		Summary: "Sign out",
		Description: "Ends the session of the refresh cookie and that of the access token in `Authorization: Bearer`, " +
			"with all their tokens, " +
			"and removes the cookie. Either is enough; a session that has ended already is no error. Without a refresh " +
			"cookie and without a " +
			"valid access token it is `unauthorized`.",
		Errors: []apperr.Code{apperr.CodeUnauthorized, apperr.CodeCrossOrigin},
	}, h.logout)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-sessions", Method: http.MethodGet, Path: "/team/sessions", Tag: tagTeam, Status: http.StatusOK,
		Permission: access.AccountRead, Summary: "List the user's sessions",
		Description: "Returns the sessions of the signed-in user that have not ended, newest first.",
	}, h.listSessions)
	httpapi.Register(api, httpapi.Operation{
		ID: "end-session", Method: http.MethodDelete, Path: "/team/sessions/{id}", Tag: tagTeam, Status: http.StatusNoContent,
		Permission: access.AccountWrite, Summary: "End a session",
		Description: "Ends a session of the signed-in user at once, its access tokens included.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.endSession)
	httpapi.Register(api, httpapi.Operation{
		ID: "change-password", Method: http.MethodPost, Path: "/team/me/password", Tag: tagTeam, Status: http.StatusNoContent,
		Permission: access.AccountWrite, Summary: "Change the password",
		Description: "Gives the signed-in user another password and ends their other sessions. The session of the request " +
			"goes on with " +
			"another refresh cookie; the one it had works no more. Wrong current passwords count as failed sign-ins.",
		Errors: []apperr.Code{apperr.CodeRateLimited}, NoIdempotencyKey: true,
	}, h.changePassword)
}

func mountTeam(api *httpapi.API, h handler) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-me", Method: http.MethodGet, Path: "/team/me", Tag: tagTeam, Status: http.StatusOK,
		Permission: access.AccountRead, Summary: "Show the signed-in user",
		Description: "Returns the user, their team, their roles and what those permit, the environments in which they may " +
			"do anything, and " +
			"the session.",
	}, h.me)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-team", Method: http.MethodGet, Path: "/team", Tag: tagTeam, Status: http.StatusOK,
		Permission: access.TeamRead, Summary: "Show the team",
		Description: "Returns the team of the signed-in user.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.getTeam)
	httpapi.Register(api, httpapi.Operation{
		ID: "update-team", Method: http.MethodPatch, Path: "/team", Tag: tagTeam, Status: http.StatusOK,
		Permission: access.TeamWrite, Summary: "Change the team",
		Description: "Changes the fields given and keeps the others (RFC 7396).",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.updateTeam)
}

func mountEnvironments(api *httpapi.API, h handler) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-environment", Method: http.MethodPost, Path: "/team/environments", Tag: tagEnvironments,
		Status: http.StatusCreated, Permission: access.EnvironmentsWrite, Summary: "Create an environment",
		Description: "Adds an environment to the team. Its data is its own: what belongs to one environment does not " +
			"exist for another.",
		Errors: []apperr.Code{apperr.CodeEnvironmentExists},
	}, h.createEnvironment)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-environments", Method: http.MethodGet, Path: "/team/environments", Tag: tagEnvironments,
		AnyEnvironment: true, Status: http.StatusOK, Permission: access.EnvironmentsRead, Summary: "List environments",
		Description: "Returns the environments of the team that the user may see, newest first.",
	}, h.listEnvironments)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-environment", Method: http.MethodGet, Path: "/team/environments/{id}", Tag: tagEnvironments,
		AnyEnvironment: true, Status: http.StatusOK, Permission: access.EnvironmentsRead, Summary: "Show an environment",
		Description: "Returns the environment.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.getEnvironment)
	httpapi.Register(api, httpapi.Operation{
		ID: "update-environment", Method: http.MethodPatch, Path: "/team/environments/{id}", Tag: tagEnvironments,
		AnyEnvironment: true, Status: http.StatusOK, Permission: access.EnvironmentsWrite, Summary: "Change an environment",
		Description: "Changes the fields given and keeps the others (RFC 7396).",
		Errors:      []apperr.Code{apperr.CodeNotFound, apperr.CodeEnvironmentExists},
	}, h.updateEnvironment)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-environment", Method: http.MethodDelete, Path: "/team/environments/{id}", Tag: tagEnvironments,
		AnyEnvironment: true, Status: http.StatusNoContent, Permission: access.EnvironmentsWrite,
		Summary: "Delete an environment",
		Description: "Removes an environment that is empty: one without connections, subscriptions and API keys, revoked and " +
			"expired keys included. Its name is free again, its audit trail stays. Events that it received stay stored and " +
			"are no longer " +
			"readable.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeEnvironmentNotEmpty},
	}, h.deleteEnvironment)
}
