package apperr

import (
	"net/http"
	"slices"
	"sync"
)

// Code is an error code of the API. The set is closed: codes() lists it.
type Code string

// The codes of the API.
const (
	CodeValidation           Code = "validation_error"
	CodeHTTP                 Code = "http_error"
	CodeInternal             Code = "internal_server_error"
	CodeNotFound             Code = "not_found"
	CodePayloadTooLarge      Code = "payload_too_large"
	CodeUnavailable          Code = "unavailable"
	CodeUnauthorized         Code = "unauthorized"
	CodeAmbiguousCredentials Code = "ambiguous_credentials"
	CodeAPIKeyExpired        Code = "api_key_expired"
	CodeAPIKeyRevoked        Code = "api_key_revoked"
	CodeRotationInProgress   Code = "rotation_in_progress"
	CodeForbidden            Code = "forbidden"
	CodeGrantDenied          Code = "grant_denied"
	CodeEnvironmentRequired  Code = "environment_required"
	CodeEnvironmentExists    Code = "environment_exists"
	CodeEnvironmentNotEmpty  Code = "environment_not_empty"
	CodeSetupDone            Code = "setup_done"
	CodeMailNotConfigured    Code = "mail_not_configured"
	CodeMemberExists         Code = "member_exists"
	CodeInvitationPending    Code = "invitation_pending"
	CodeInvitationEnded      Code = "invitation_ended"
	CodeInvitationsLimit     Code = "invitations_limit"
	CodeCrossOrigin          Code = "cross_origin"
	CodeLastOwner            Code = "last_owner"
	CodePrivilegeEscalation  Code = "privilege_escalation"
	CodeRoleExists           Code = "role_exists"
	CodeRoleInUse            Code = "role_in_use"
	CodeRoleBindingExists    Code = "role_binding_exists"
	CodeRoleBindingManaged   Code = "role_binding_managed"
	CodeRolesLimit           Code = "roles_limit"
	CodeConnectionExists     Code = "connection_exists"
	CodeAliasTaken           Code = "alias_taken"
	CodeConnectionDisabled   Code = "connection_disabled"
	CodeEnrolmentConflict    Code = "enrolment_conflict"
	CodeSignatureMissing     Code = "signature_missing"
	CodeSignatureInvalid     Code = "signature_invalid"
	CodeRateLimited          Code = "rate_limited"
	CodeTooManyStreams       Code = "too_many_streams"
	CodeDeliveryInFlight     Code = "delivery_in_flight"
	CodeNothingToReplay      Code = "nothing_to_replay"
	CodePayloadExpired       Code = "payload_expired"
	CodeReplayEnded          Code = "replay_ended"
	CodeReplaysLimit         Code = "replays_limit"
	CodeTOTPRequired         Code = "totp_required"
	CodeTOTPInvalid          Code = "totp_invalid"
	CodeTOTPActive           Code = "totp_active"
	CodeSSOStateInvalid      Code = "sso_state_invalid"
	CodeSSOFailed            Code = "sso_failed"
	CodeSSOUnavailable       Code = "sso_unavailable"
	CodeSSONotMember         Code = "sso_not_member"
	CodeSSOAccountExists     Code = "sso_account_exists"
	CodeSSOProvidersLimit    Code = "sso_providers_limit"

	CodeIdempotencyMismatch       Code = "idempotency_mismatch"
	CodeIdempotencyInProgress     Code = "idempotency_in_progress"
	CodeIdempotencyOutcomeUnknown Code = "idempotency_outcome_unknown"
)

// Info describes a code for the reference and for the HTTP layer.
type Info struct {
	Code Code
	// Status is the HTTP status; 0 means that each error brings its own.
	Status int
	// Meaning is one sentence for the reference.
	Meaning string
}

// Codes returns every registered code, sorted by code.
func Codes() []Info {
	list := []Info{
		{CodeValidation, http.StatusUnprocessableEntity,
			"The request is well-formed HTTP but breaks a rule; `details` lists every fault."},
		{CodeHTTP, 0, "The HTTP request itself cannot be served: unknown route, method not allowed, unsupported media type."},
		{CodeInternal, http.StatusInternalServerError,
			"An unexpected error; the log holds one line with the same request id."},
		{CodeNotFound, http.StatusNotFound, "No such resource in this environment."},
		{CodePayloadTooLarge, http.StatusRequestEntityTooLarge, "The body exceeds the limit of the route or connection."},
		{CodeUnavailable, http.StatusServiceUnavailable,
			"The database or another dependency does not answer; retry after the time in `Retry-After`."},
		{CodeUnauthorized, http.StatusUnauthorized, "The credential is missing, malformed, unknown, expired or revoked."},
		{CodeAmbiguousCredentials, http.StatusBadRequest, "The request carries both an API key and a bearer token."},
		{CodeAPIKeyExpired, http.StatusUnauthorized, "The API key is genuine but past its expiry."},
		{CodeAPIKeyRevoked, http.StatusConflict, "The API key is revoked, and stays as it is."},
		{CodeRotationInProgress, http.StatusConflict,
			"The API key has two secrets that work; the older one ends before there can be another."},
		{CodeForbidden, http.StatusForbidden, "The user is known but lacks the permission that the message names."},
		{CodeGrantDenied, http.StatusForbidden, "The API key is known but lacks the grant that the message names."},
		{CodeEnvironmentRequired, http.StatusBadRequest,
			"The route is scoped to an environment and the request names none in `Environment-Id`."},
		{CodeEnvironmentExists, http.StatusConflict, "The team already has an environment of this name."},
		{CodeEnvironmentNotEmpty, http.StatusConflict,
			"The environment still holds what the message names; delete that first."},
		{CodeMailNotConfigured, http.StatusConflict,
			"The installation has no mail server, and what was asked for goes by mail."},
		{CodeMemberExists, http.StatusConflict, "A member of the team has this e-mail address."},
		{CodeInvitationPending, http.StatusConflict,
			"The e-mail address has an invitation that can be accepted; resend or revoke that."},
		{CodeInvitationEnded, http.StatusConflict,
			"The invitation was accepted or revoked, or the role that it brings is gone; make another."},
		{CodeInvitationsLimit, http.StatusConflict,
			"The team has as many invitations that wait for an answer as it may have; revoke one."},
		{CodeSetupDone, http.StatusGone, "The installation has its team and first owner; it is set up once."},
		{CodeCrossOrigin, http.StatusForbidden,
			"A page of another origin made the browser send the request; cookies are honoured from our own pages only."},
		{CodeLastOwner, http.StatusConflict,
			"The team would be left without an owner whose role neither ends by itself nor is an identity provider's to take."},
		{CodePrivilegeEscalation, http.StatusForbidden,
			"The request would give somebody more than its user holds; the message says what."},
		{CodeRoleExists, http.StatusConflict, "The team already has a role of this name."},
		{CodeRoleInUse, http.StatusConflict, "Somebody has the role; take it from them first."},
		{CodeRoleBindingExists, http.StatusConflict, "The principal already has the role there."},
		{CodeRoleBindingManaged, http.StatusConflict,
			"An identity provider gives the role for as long as the user's groups say so."},
		{CodeRolesLimit, http.StatusConflict,
			"The team has as many custom roles, or the principal as many role bindings, as it may have."},
		{CodeConnectionExists, http.StatusConflict, "The provider configuration already has a connection of this id."},
		{CodeAliasTaken, http.StatusConflict, "Another connection uses, or lately used, the webhook alias."},
		{CodeConnectionDisabled, http.StatusServiceUnavailable,
			"The connection is disabled and accepts no webhook deliveries."},
		{CodeEnrolmentConflict, http.StatusConflict,
			"The connection can have no webhook enrolment now, or it is not in the state that the request needs; the message " +
				"says which."},
		{CodeSignatureMissing, http.StatusUnauthorized, "The webhook carries no signature where its provider sends one."},
		{CodeSignatureInvalid, http.StatusUnauthorized,
			"The webhook's signature, or the timestamp it covers, does not verify."},
		{CodeRateLimited, http.StatusTooManyRequests, "Too many requests; `Retry-After` says when to come back."},
		{CodeTooManyStreams, http.StatusTooManyRequests,
			"The environment has as many open streams as it may; `Retry-After` says when to try again."},
		{CodeDeliveryInFlight, http.StatusConflict,
			"A delivery of the event is being sent right now; replay it when it has ended."},
		{CodeNothingToReplay, http.StatusConflict, "No delivery of the event is in a state that this replay may restart."},
		{CodePayloadExpired, http.StatusGone,
			"The event's payload has been removed, on request or at the end of its time; there is nothing left to send."},
		{CodeReplayEnded, http.StatusConflict,
			"The bulk replay is completed, cancelled or failed; nothing of it can be changed any more."},
		{CodeReplaysLimit, http.StatusConflict,
			"The environment has as many unfinished bulk replays as it may have; let one end, or cancel one."},
		{CodeTOTPRequired, http.StatusUnauthorized,
			"The password is right, and the user has an authenticator app: send its code too."},
		{CodeTOTPInvalid, http.StatusUnauthorized,
			"The password is right, and the code of the authenticator app is wrong or was used before."},
		{CodeSSOStateInvalid, http.StatusBadRequest,
			"The identity provider's answer belongs to no sign-in that this browser has begun within ten minutes, or to one " +
				"that is finished."},
		{CodeSSOFailed, http.StatusForbidden,
			"The identity provider refuses the sign-in, or says something that does not hold; the message says what."},
		{CodeSSOUnavailable, http.StatusBadGateway,
			"The identity provider does not answer; retry after the time in `Retry-After`."},
		{CodeSSONotMember, http.StatusForbidden,
			"The identity provider knows the person, and the team does not, or has no role for them."},
		{CodeSSOAccountExists, http.StatusConflict,
			"A user has the e-mail address and is not linked to the person at the identity provider."},
		{CodeSSOProvidersLimit, http.StatusConflict,
			"The team has as many identity providers as it may have; delete one first."},
		{CodeTOTPActive, http.StatusConflict, "The user has an authenticator app already; remove that first."},
		{CodeIdempotencyMismatch, http.StatusUnprocessableEntity,
			"The `Idempotency-Key` was sent before with another body or query."},
		{CodeIdempotencyInProgress, http.StatusConflict,
			"The first request with the `Idempotency-Key` is still under way; `Retry-After` says when to send it again."},
		{CodeIdempotencyOutcomeUnknown, http.StatusConflict,
			"The first request with the `Idempotency-Key` took effect, and its answer was lost with the process that carried " +
				"it out, or was too large to keep."},
	}
	slices.SortFunc(list, func(a, b Info) int {
		if a.Code < b.Code {
			return -1
		}
		return 1
	})
	return list
}

// infos indexes Codes: every error that reaches a client looks its code up at least twice.
var infos = sync.OnceValue(func() map[Code]Info { //nolint:gochecknoglobals // a constant
	byCode := map[Code]Info{}
	for _, i := range Codes() {
		byCode[i.Code] = i
	}
	return byCode
})

// Info returns the description of the code; an unregistered code is described as the internal error, so that it can
// never reach a client with text of its own.
func (c Code) Info() Info {
	if i, ok := infos()[c]; ok {
		return i
	}
	return Info{CodeInternal, http.StatusInternalServerError, ""}
}
