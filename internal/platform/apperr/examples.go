package apperr

// Example returns a message of the code, for the document. Most codes have one message; numbers in it vary. It is empty
// for a code whose messages depend on the operation: forbidden, grant_denied, not_found, rate_limited, validation_error
// and http_error.
func (c Code) Example() string { return examples()[c] }

func examples() map[Code]string {
	return map[Code]string{ //nolint:gosec // messages, no credentials
		CodeInternal:             "An unexpected error occurred",
		CodePayloadTooLarge:      "The body is larger than this route accepts",
		CodeUnavailable:          "The service cannot store data right now; try again",
		CodeUnauthorized:         "The credential is missing or not valid",
		CodeAmbiguousCredentials: "Send one credential: API-Key or Authorization, once",
		CodeAPIKeyExpired:        "The API key has expired",
		CodeAPIKeyRevoked:        "The API key is permanently revoked; create another",
		CodeRotationInProgress: "The secret before the last rotation still works; wait for its end, or rotate with an " +
			"overlap of 0, which ends it",
		CodeEnvironmentRequired: "Name the environment in the Environment-Id header",
		CodeEnvironmentExists:   "The team already has an environment with this name",
		CodeEnvironmentNotEmpty: "The environment still has connections and webhook subscriptions",
		CodeSetupDone:           "This installation has been set up; sign in, or ask an owner for an invitation",
		CodeMailNotConfigured:   "This installation sends no mail; ask an operator for another password",
		CodeMemberExists:        "The user with this e-mail address is a member",
		CodeInvitationPending:   "The address has an invitation; resend or revoke that",
		CodeInvitationEnded:     "The invitation was revoked",
		CodeInvitationsLimit:    "A team has at most 500 pending invitations",
		CodeCrossOrigin:         "A page of another origin has sent this request",
		CodeLastOwner:           "The team would be left without a permanent owner",
		CodePrivilegeEscalation: "You cannot grant webhook_events:expunge in the team, which you do not hold yourself",
		CodeRoleExists:          "The team already has a role with this name",
		CodeRoleInUse:           "A user has the role; revoke it first",
		CodeRoleBindingExists:   "The principal already has the role there",
		CodeRoleBindingManaged:  "An identity provider gives the role for as long as the user's groups say so",
		CodeRolesLimit:          "A team has at most 100 roles of its own",
		CodeConnectionExists:    "The provider configuration already has a connection with this id",
		CodeAliasTaken:          "Another connection uses, or recently used, the webhook alias",
		CodeConnectionOwned: "The connection belongs to a member of the team, and only their own requests can use or " +
			"replace its credentials",
		CodeConnectionNotReady: "The connection has no credentials",
		CodeInvalidCredentials: "The provider refuses the credentials",
		CodeConnectionDisabled: "The connection is disabled and accepts no webhooks",
		CodeEnrolmentConflict:  "The connection has a webhook enrolment already",
		CodePreconditionFailed: "The resource has changed since the version that If-Match names; read it again",
		CodeHandshakeRefused:   "The handshake is rejected",
		CodeSampleUnavailable:  "The connection is disabled and accepts no webhooks. Enable it first.",
		CodeSignatureMissing:   "The webhook has no signature",
		CodeSignatureInvalid:   "The webhook could not be verified",
		CodeTooManyStreams:     "The environment has as many open streams as it may",
		CodeDeliveryInFlight:   "A delivery of the event is being sent; try again when it has ended",
		CodeNothingToReplay:    "No delivery of the event has failed; force replays the others",
		CodePayloadExpired:     "The event's payload has been removed; it cannot be sent",
		CodeReplayEnded:        "The replay has ended; it can no longer be paused, resumed or cancelled",
		CodeReplaysLimit:       "The environment has 10 unfinished replays; wait for one to end, or cancel one",
		CodeTOTPRequired:       "A code of the authenticator app, or a recovery code, is needed too",
		CodeTOTPInvalid:        "The code is wrong or was used before",
		CodeTOTPActive:         "There is an authenticator app already; remove it first",
		CodeSSOStateInvalid: "This browser has begun no such sign-in, or it took longer than ten minutes; sign in " +
			"again",
		CodeSSOFailed:         "The identity provider refuses the sign-in, or it was cancelled there.",
		CodeSSOUnavailable:    "The identity provider cannot sign users in right now.",
		CodeSSONotMember:      "The identity provider has signed you in, but you are no member of the team here",
		CodeSSOAccountExists:  "A user has this e-mail address and is not linked to the identity provider; sign in as before",
		CodeSSOProvidersLimit: "The team has 20 identity providers, which is as many as it may have",

		CodeProviderNotConfigured: "The provider configuration github has no OAuth client; set its oauth first",
		CodePendingConnectionsLimit: "The environment has 10000 connections that no one has connected yet, which is as " +
			"many as it may have; delete some of them",
		CodeProviderConfigExists: "The environment already has a provider configuration with this key",
		CodeProviderConfigInUse:  "3 connections belong to the provider configuration; delete them first",
		CodeProviderInUse:        "3 connections belong to the provider; delete them first",
		CodeProviderNotFound:     "The environment has no provider with this key",
		CodePolicyDenied:         "A rule of the environment denies the call",
		CodeProviderError:        "The provider refuses the request",
		CodeProviderRateLimited:  "The provider limits the rate of requests",
		CodeProviderUnavailable:  "The provider responded with an error of its own",
		CodeProviderUnreachable:  "The provider did not respond",
		CodeProviderTLSError:     "No secure connection to the provider could be made",
		CodeProviderTimeout:      "The provider did not respond in time",
		CodeOutcomeUnknown:       "The gateway ended before the response came; the provider may have acted",
		CodeConnectionNotFound:   "The provider configuration has no connection with this id",
		CodeActionNotFound:       "The provider has no action with this name",
		CodeSlugTaken: "The installation has a provider with this slug; choose another one, or import further actions for " +
			"that provider with extends",
		CodeImportsLimit:         "The environment has 5 unfinished imports; wait for one to end, or cancel one",
		CodeImportEnded:          "The import has ended",
		CodeImportNotEnded:       "The import has not ended; cancel it first",
		CodeImportNotReady:       "The import has not ended",
		CodeImportChanged:        "Look at the preview, and activate the import with its digest",
		CodeProviderConfigsLimit: "The environment has 200 provider configurations, which is as many as it may have",

		CodeIdempotencyMismatch:   "The Idempotency-Key was sent before with another body or query",
		CodeIdempotencyInProgress: "The first request with this Idempotency-Key is still in progress",
		CodeIdempotencyOutcomeUnknown: "The first request with this Idempotency-Key took effect, but its response was not " +
			"stored; check its effect before you send the request with another key",
	}
}
