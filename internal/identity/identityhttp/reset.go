package identityhttp

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/identity/signin"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/secretbox"
)

func mountReset(api *httpapi.API, h handler) {
	httpapi.Register(api, httpapi.Operation{
		ID: "request-password-reset", Method: http.MethodPost, Path: "/team/password-reset", Tag: tagTeam,
		Status: http.StatusAccepted, Public: true, Summary: "Request a password reset",
		Description: "Mails a link to the user with this address. The link works once, for an hour. The response is the " +
			"same if there is no such user. After several requests for an address or from an address, each further request " +
			"has to wait. A user gets at most three mails an hour. Without a mail server the error is `mail_not_configured`; " +
			"use `sallyport admin reset-password` instead.",
		Errors: []apperr.Code{apperr.CodeRateLimited, apperr.CodeMailNotConfigured},
	}, h.requestReset)
	httpapi.Register(api, httpapi.Operation{
		ID: "complete-password-reset", Method: http.MethodPost, Path: "/team/password-reset/complete", Tag: tagTeam,
		Status: http.StatusNoContent, Public: true, Summary: "Reset a password",
		Description: "Sets a new password for the user whom the token was mailed to and ends all their sessions. An " +
			"authenticator app is not affected. A token that does not work, for any reason, is `unauthorized`.",
		Errors: []apperr.Code{apperr.CodeUnauthorized, apperr.CodeRateLimited},
	}, h.completeReset)
	api.Handle("GET "+signin.ResetPage, passwordPage("Choose another password", "/team/password-reset/complete",
		"Your password has been changed. You can sign in."))
	api.Handle("GET "+pageScriptPath, http.HandlerFunc(pageScript))
}

type requestResetInput struct {
	Body resetRequest
}

type resetRequest struct {
	// The user's e-mail address. Case-insensitive.
	Email string `json:"email" minLength:"3" maxLength:"254" example:"ada@example.test"`
}

// TransformSchema documents the limits of the body and leaves checking them to the domain.
func (*resetRequest) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return httpapi.DocumentOnly(s)
}

// Resolve checks the limits together with what no schema can say.
func (r *resetRequest) Resolve(_ huma.Context, prefix *huma.PathBuffer) []error {
	return violationsAt(prefix.String(), signin.ResetRequestViolations(r.Email))
}

type completeResetInput struct {
	Body resetCompletion
}

type resetCompletion struct {
	// The token, which is the part of the link after `#`.
	Token secretbox.Secret `json:"token" minLength:"1" maxLength:"256" writeOnly:"true" example:"spr_3n8fj6k2q9wv5c1z7m4xg0r8bt"`
	// The new password: any characters, but not the e-mail address.
	Password secretbox.Secret `json:"password" minLength:"12" maxLength:"256" format:"password" writeOnly:"true" example:"staple battery horse"`
}

// TransformSchema documents the limits of the body and leaves checking them to the domain.
func (*resetCompletion) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return httpapi.DocumentOnly(s)
}

// Resolve checks the limits together with what no schema can say.
func (r *resetCompletion) Resolve(_ huma.Context, prefix *huma.PathBuffer) []error {
	return violationsAt(prefix.String(), signin.ResetViolations(r.Token, r.Password))
}

func (h handler) requestReset(ctx context.Context, in *requestResetInput) (*struct{}, error) {
	return nil, h.identity.SignIn.RequestReset(ctx, clientOf(ctx), in.Body.Email)
}

func (h handler) completeReset(ctx context.Context, in *completeResetInput) (*struct{}, error) {
	return nil, placed(h.identity.SignIn.CompleteReset(ctx, clientOf(ctx), in.Body.Token, in.Body.Password))
}
