package apperr

import (
	"net/http"
	"slices"
	"sync"
)

// Code is an error code of the API. The set is closed: Codes lists it.
type Code string

// The codes of the API.
const (
	CodeValidation            Code = "validation_error"
	CodeHTTP                  Code = "http_error"
	CodeInternal              Code = "internal_server_error"
	CodeNotFound              Code = "not_found"
	CodePayloadTooLarge       Code = "payload_too_large"
	CodePreconditionFailed    Code = "precondition_failed"
	CodeUnavailable           Code = "unavailable"
	CodeUnauthorized          Code = "unauthorized"
	CodeAmbiguousCredentials  Code = "ambiguous_credentials"
	CodeAPIKeyExpired         Code = "api_key_expired"
	CodeAPIKeyRevoked         Code = "api_key_revoked"
	CodeRotationInProgress    Code = "rotation_in_progress"
	CodeForbidden             Code = "forbidden"
	CodeGrantDenied           Code = "grant_denied"
	CodeEnvironmentRequired   Code = "environment_required"
	CodeEnvironmentExists     Code = "environment_exists"
	CodeEnvironmentNotEmpty   Code = "environment_not_empty"
	CodeSetupDone             Code = "setup_done"
	CodeMailNotConfigured     Code = "mail_not_configured"
	CodeMemberExists          Code = "member_exists"
	CodeInvitationPending     Code = "invitation_pending"
	CodeInvitationEnded       Code = "invitation_ended"
	CodeInvitationsLimit      Code = "invitations_limit"
	CodeCrossOrigin           Code = "cross_origin"
	CodeLastOwner             Code = "last_owner"
	CodePrivilegeEscalation   Code = "privilege_escalation"
	CodeRoleExists            Code = "role_exists"
	CodeRoleInUse             Code = "role_in_use"
	CodeRoleBindingExists     Code = "role_binding_exists"
	CodeRoleBindingManaged    Code = "role_binding_managed"
	CodeRolesLimit            Code = "roles_limit"
	CodeConnectionExists      Code = "connection_exists"
	CodeAliasTaken            Code = "alias_taken"
	CodeConnectionDisabled    Code = "connection_disabled"
	CodeProviderNotConfigured Code = "provider_not_configured"
	CodeConnectionNotReady    Code = "connection_not_ready"
	CodeConnectionOwned       Code = "connection_owned"

	CodePendingConnectionsLimit Code = "pending_connections_limit"
	CodeInvalidCredentials      Code = "invalid_credentials" //nolint:gosec // the name of an error
	CodeEnrolmentConflict       Code = "enrolment_conflict"
	CodeSampleUnavailable       Code = "webhook_sample_unavailable"
	CodeSignatureMissing        Code = "signature_missing"
	CodeSignatureInvalid        Code = "signature_invalid"
	CodeHandshakeRefused        Code = "handshake_refused"
	CodeRateLimited             Code = "rate_limited"
	CodeTooManyStreams          Code = "too_many_streams"
	CodeDeliveryInFlight        Code = "delivery_in_flight"
	CodeNothingToReplay         Code = "nothing_to_replay"
	CodePayloadExpired          Code = "payload_expired"
	CodeReplayEnded             Code = "replay_ended"
	CodeReplaysLimit            Code = "replays_limit"
	CodeTOTPRequired            Code = "totp_required"
	CodeTOTPInvalid             Code = "totp_invalid"
	CodeTOTPActive              Code = "totp_active"
	CodeSSOStateInvalid         Code = "sso_state_invalid"
	CodeSSOFailed               Code = "sso_failed"
	CodeSSOUnavailable          Code = "sso_unavailable"
	CodeSSONotMember            Code = "sso_not_member"
	CodeSSOAccountExists        Code = "sso_account_exists"
	CodeSSOProvidersLimit       Code = "sso_providers_limit"
	CodeProviderConfigExists    Code = "provider_config_exists"
	CodeProviderConfigInUse     Code = "provider_config_in_use"
	CodeProviderInUse           Code = "provider_in_use"
	CodeProviderNotFound        Code = "provider_not_found"
	CodeActionNotFound          Code = "action_not_found"
	CodeConnectionNotFound      Code = "connection_not_found"
	CodePolicyDenied            Code = "policy_denied"
	CodeProviderError           Code = "provider_error"
	CodeProviderRateLimited     Code = "provider_rate_limited"
	CodeProviderUnavailable     Code = "provider_unavailable"
	CodeProviderUnreachable     Code = "provider_unreachable"
	CodeProviderTLSError        Code = "provider_tls_error"
	CodeProviderTimeout         Code = "provider_timeout"
	CodeOutcomeUnknown          Code = "outcome_unknown"
	CodeSlugTaken               Code = "slug_taken"
	CodeImportsLimit            Code = "imports_limit"
	CodeImportEnded             Code = "import_ended"
	CodeImportNotEnded          Code = "import_not_ended"
	CodeImportNotReady          Code = "import_not_ready"
	CodeImportChanged           Code = "import_changed"
	CodeProviderConfigsLimit    Code = "provider_configs_limit"

	CodeIdempotencyMismatch       Code = "idempotency_mismatch"
	CodeIdempotencyInProgress     Code = "idempotency_in_progress"
	CodeIdempotencyOutcomeUnknown Code = "idempotency_outcome_unknown"
)

// Info describes a code for the reference and for the HTTP layer.
type Info struct {
	Code Code
	// Status is the HTTP status code; 0 means that each error sets it.
	Status int
	// Meaning is one sentence for the reference.
	Meaning string
}

// Codes returns every registered code, sorted by code.
func Codes() []Info {
	list := []Info{
		{CodeValidation, http.StatusUnprocessableEntity,
			"The request is well-formed HTTP but breaks a rule; `details` lists the validation errors that were found."},
		{CodeHTTP, 0, "The HTTP request itself cannot be served: unknown route, method not allowed, or unsupported media " +
			"type."},
		{CodeInternal, http.StatusInternalServerError,
			"An unexpected error; the log has one line with the same request id."},
		{CodeNotFound, http.StatusNotFound, "No such resource in this environment."},
		{CodePreconditionFailed, http.StatusPreconditionFailed,
			"The resource has another version than the request's `If-Match` names; read it again."},
		{CodePayloadTooLarge, http.StatusRequestEntityTooLarge, "The body exceeds the limit of the route or connection."},
		{CodeUnavailable, http.StatusServiceUnavailable,
			"The database or another dependency does not respond, or the node serves no requests; retry after the time in " +
				"`Retry-After`."},
		{CodeUnauthorized, http.StatusUnauthorized,
			"The credential is missing, malformed, unknown, expired or revoked, or it is an API key and only users can call " +
				"the operation. The message says so if a credential is in the wrong place by its form."},
		{CodeAmbiguousCredentials, http.StatusBadRequest, "The request carries both an API key and a bearer token."},
		{CodeAPIKeyExpired, http.StatusUnauthorized, "The API key is genuine but has expired."},
		{CodeAPIKeyRevoked, http.StatusConflict, "The API key is revoked and cannot be changed."},
		{CodeRotationInProgress, http.StatusConflict,
			"The API key already has two valid secrets; the older one must expire before the next rotation."},
		{CodeForbidden, http.StatusForbidden,
			"The user is authenticated but does not have the permission named in the message."},
		{CodeGrantDenied, http.StatusForbidden, "The API key is valid but has no grant for the route named in the message."},
		{CodeEnvironmentRequired, http.StatusBadRequest,
			"The route belongs to an environment, and the request does not name one in `Environment-Id`."},
		{CodeEnvironmentExists, http.StatusConflict, "The team already has an environment with this name."},
		{CodeEnvironmentNotEmpty, http.StatusConflict,
			"The environment still contains the resources named in the message; delete them first."},
		{CodeMailNotConfigured, http.StatusConflict,
			"The installation has no mail server, and this operation sends mail."},
		{CodeMemberExists, http.StatusConflict, "A member of the team already has this e-mail address."},
		{CodeInvitationPending, http.StatusConflict,
			"The e-mail address already has a pending invitation; resend or revoke it."},
		{CodeInvitationEnded, http.StatusConflict,
			"The invitation was accepted or revoked, or its role no longer exists; create another one."},
		{CodeInvitationsLimit, http.StatusConflict,
			"The team has reached its limit of pending invitations; revoke one."},
		{CodeSetupDone, http.StatusGone, "The installation already has its team and first owner; it is set up only once."},
		{CodeCrossOrigin, http.StatusForbidden,
			"A page of another origin made the browser send the request; cookies are accepted only from our own pages."},
		{CodeLastOwner, http.StatusConflict,
			"The team would have no owner left whose role is permanent and not assigned by an identity provider."},
		{CodePrivilegeEscalation, http.StatusForbidden,
			"The request would grant more than its user holds; the message names the excess."},
		{CodeRoleExists, http.StatusConflict, "The team already has a role with this name."},
		{CodeRoleInUse, http.StatusConflict, "The role is assigned to at least one user; remove those assignments first."},
		{CodeRoleBindingExists, http.StatusConflict, "The principal already has the role there."},
		{CodeRoleBindingManaged, http.StatusConflict,
			"An identity provider assigns the role for as long as the user's groups require it."},
		{CodeRolesLimit, http.StatusConflict,
			"The team has reached its limit of custom roles, or the principal its limit of role bindings."},
		{CodeConnectionExists, http.StatusConflict, "The provider configuration already has a connection with this id."},
		{CodeAliasTaken, http.StatusConflict, "Another connection uses, or recently used, the webhook alias."},
		{CodePendingConnectionsLimit, http.StatusConflict, "The environment has as many pending connections as it may."},
		{CodeConnectionOwned, http.StatusForbidden, "Only the member to whom the connection belongs uses its credentials."},
		{CodeConnectionNotReady, http.StatusConflict, "The connection's credentials cannot be used in its present state."},
		{CodeInvalidCredentials, http.StatusUnprocessableEntity, "The provider refuses the credentials; nothing was stored."},
		{CodeConnectionDisabled, http.StatusServiceUnavailable,
			"The connection is disabled and accepts no webhooks."},
		{CodeEnrolmentConflict, http.StatusConflict,
			"The connection cannot have a webhook enrolment now, or the enrolment is not in the required state; the message " +
				"says which."},
		{CodeSampleUnavailable, http.StatusConflict,
			"The gateway cannot send a sample of a webhook to the connection; the message gives the reason and another way."},
		{CodeSignatureMissing, http.StatusUnauthorized,
			"The webhook carries no signature, although its provider signs webhooks."},
		{CodeSignatureInvalid, http.StatusUnauthorized,
			"Verification of the webhook's signature, or of the timestamp it covers, failed."},
		{CodeHandshakeRefused, http.StatusForbidden,
			"The provider's handshake contains another verify token than the connection."},
		{CodeRateLimited, http.StatusTooManyRequests, "Too many requests; retry after the time in `Retry-After`."},
		{CodeTooManyStreams, http.StatusTooManyRequests,
			"The environment has reached its limit of open streams; retry after the time in `Retry-After`."},
		{CodeDeliveryInFlight, http.StatusConflict,
			"A delivery of the event is in flight; replay it when the attempt has ended."},
		{CodeNothingToReplay, http.StatusConflict, "No delivery of the event is in a state that this replay may restart."},
		{CodePayloadExpired, http.StatusGone,
			"The event's payload was removed, on request or at the end of its retention; there is nothing left to send."},
		{CodeReplayEnded, http.StatusConflict,
			"The bulk replay is completed, cancelled or failed, and cannot be changed."},
		{CodeReplaysLimit, http.StatusConflict,
			"The environment has reached its limit of unfinished bulk replays; wait until one ends, or cancel one."},
		{CodeTOTPRequired, http.StatusUnauthorized,
			"The password is correct, and the user has an authenticator app: send its code too."},
		{CodeTOTPInvalid, http.StatusUnauthorized,
			"The password is correct, but the code of the authenticator app is wrong or was used before."},
		{CodeSSOStateInvalid, http.StatusBadRequest,
			"The identity provider's response does not belong to a sign-in that this browser started within the last ten " +
				"minutes, or that sign-in is finished."},
		{CodeSSOFailed, http.StatusForbidden,
			"The identity provider refused the sign-in, or its response is invalid; the message says why."},
		{CodeSSOUnavailable, http.StatusBadGateway,
			"The identity provider does not respond; retry after the time in `Retry-After`."},
		{CodeSSONotMember, http.StatusForbidden,
			"The identity provider knows the person, but the team does not, or has no role for them."},
		{CodeSSOAccountExists, http.StatusConflict,
			"A user with this e-mail address exists, and is not linked to the person at the identity provider."},
		{CodeSSOProvidersLimit, http.StatusConflict,
			"The team has reached its limit of identity providers; delete one first."},
		{CodeProviderConfigExists, http.StatusConflict,
			"The environment already has a provider configuration with this key."},
		{CodeProviderConfigInUse, http.StatusConflict,
			"Connections belong to the provider configuration; delete them first."},
		{CodeProviderInUse, http.StatusConflict,
			"Connections or provider configurations belong to the provider; delete them first."},
		{CodeProviderNotFound, http.StatusNotFound,
			"The environment has no provider or provider configuration with this key."},
		{CodeActionNotFound, http.StatusNotFound, "The provider has no action with this name."},
		{CodeConnectionNotFound, http.StatusNotFound,
			"The provider configuration has no connection with this id, at least none that the caller sees."},
		{CodePolicyDenied, http.StatusForbidden, "A rule of the environment denies the call."},
		{CodeProviderError, http.StatusFailedDependency,
			"The provider refuses the request; `upstream` has its response."},
		{CodeProviderRateLimited, http.StatusFailedDependency,
			"The provider limits the rate of requests, and there was no time to wait as long as it wants."},
		{CodeProviderUnavailable, http.StatusBadGateway,
			"The provider responded with an error of its own; `effect` says whether it may have acted."},
		{CodeProviderUnreachable, http.StatusBadGateway,
			"No valid response came from the provider; `effect` says whether it may have acted."},
		{CodeProviderTLSError, http.StatusBadGateway,
			"No secure connection to the provider could be made, usually because of its certificate."},
		{CodeProviderTimeout, http.StatusGatewayTimeout,
			"The provider did not respond in the time of the call; `effect` says whether it may have acted."},
		{CodeOutcomeUnknown, http.StatusBadGateway,
			"The gateway ended between the request and the response, so the provider may have acted."},
		{CodeSlugTaken, http.StatusConflict,
			"Another provider or provider configuration has this slug; choose another one."},
		{CodeImportsLimit, http.StatusConflict,
			"The environment has reached a limit of imports; wait for some to end, or delete some."},
		{CodeImportEnded, http.StatusConflict, "The import has ended."},
		{CodeImportNotEnded, http.StatusConflict, "The import has not ended; cancel it first."},
		{CodeImportNotReady, http.StatusConflict, "The import has no actions, at least not yet."},
		{CodeImportChanged, http.StatusConflict,
			"The import would send credentials elsewhere, or the preview is out of date; look at the preview, and activate " +
				"the import with its digest."},
		{CodeProviderNotConfigured, http.StatusConflict,
			"The provider configuration has no OAuth client, which connecting an account needs."},
		{CodeProviderConfigsLimit, http.StatusConflict,
			"The environment has reached its limit of provider configurations; delete one first."},
		{CodeTOTPActive, http.StatusConflict, "The user already has an authenticator app; remove it first."},
		{CodeIdempotencyMismatch, http.StatusUnprocessableEntity,
			"The `Idempotency-Key` was already used with another body or query."},
		{CodeIdempotencyInProgress, http.StatusConflict,
			"The first request with the `Idempotency-Key` is still in progress; retry after the time in `Retry-After`."},
		{CodeIdempotencyOutcomeUnknown, http.StatusConflict,
			"The first request with the `Idempotency-Key` took effect, but its response was lost with the process that " +
				"handled it, or was too large to store."},
	}
	slices.SortFunc(list, func(a, b Info) int {
		if a.Code < b.Code {
			return -1
		}
		return 1
	})
	return list
}

// infos indexes Codes, because every error that reaches a client looks up its code at least twice.
var infos = sync.OnceValue(func() map[Code]Info { //nolint:gochecknoglobals // a constant
	byCode := map[Code]Info{}
	for _, i := range Codes() {
		byCode[i.Code] = i
	}
	return byCode
})

// Info returns the description of the code. An unregistered code is described as the internal error, so that it never
// reaches a client with its own text.
func (c Code) Info() Info {
	if i, ok := infos()[c]; ok {
		return i
	}
	return Info{CodeInternal, http.StatusInternalServerError, ""}
}
