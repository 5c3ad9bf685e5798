package signinhttp

import (
	"context"
	"net/http"

	"sallyport/internal/identity/signin"
	"sallyport/internal/identity/signin/passwordpage"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/secretbox"
)

const resetPath = "/team/password-reset"

func (h *handlers) mountReset(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "request-password-reset", Method: http.MethodPost, Path: resetPath, Tag: tag,
		Status: http.StatusAccepted, Public: true, Summary: "Request a password reset",
		Description: "Mails a link to the user with this address. The link works once, for an hour. The response is the " +
			"same if there is no such user. After several requests for an address or from an address, each further request " +
			"has to wait. A user gets at most three mails an hour. Without a mail server the error is `mail_not_configured`; " +
			"use `sallyport admin reset-password` instead.",
		Errors: []apperr.Code{apperr.CodeRateLimited, apperr.CodeMailNotConfigured},
	}, h.requestReset)
	httpapi.Register(api, httpapi.Operation{
		ID: "complete-password-reset", Method: http.MethodPost, Path: resetPath + "/complete", Tag: tag,
		Status: http.StatusNoContent, Public: true, Summary: "Reset a password",
		Messages: map[apperr.Code][]string{
			apperr.CodeRateLimited: {
				"Too many attempts; try again later",
			},
		},
		Description: "Sets a new password for the user whom the token was mailed to and ends all their sessions. An " +
			"authenticator app is not affected. A token that does not work, for any reason, is `unauthorized`.",
		Errors: []apperr.Code{apperr.CodeUnauthorized, apperr.CodeRateLimited},
	}, h.completeReset)
	api.Handle("GET "+signin.ResetPage, passwordpage.Handler("Choose another password", resetPath+"/complete",
		"Your password has been changed. You can sign in."))
	api.Handle("GET "+passwordpage.ScriptPath, http.HandlerFunc(passwordpage.Script))
}

type requestResetInput struct {
	Body resetRequest
}

type resetRequest struct {
	httpapi.RuleLimits
	// The user's e-mail address. Case-insensitive.
	Email string `json:"email" minLength:"3" maxLength:"254" example:"ada@example.test"`
}

// Check adds the errors of every field.
func (r *resetRequest) Check(_ context.Context, v *apperr.Violations) {
	v.AddAll(signin.ResetRequestViolations(r.Email))
}

type completeResetInput struct {
	Body resetCompletion
}

type resetCompletion struct {
	httpapi.RuleLimits
	// The token, which is the part of the link after `#`.
	Token secretbox.Secret `json:"token" minLength:"1" maxLength:"256" writeOnly:"true" example:"spr_3n8fj6k2q9wv5c1z7m4xg0r8bt"`
	// The new password: any characters, but not the e-mail address.
	Password secretbox.Secret `json:"password" minLength:"12" maxLength:"256" format:"password" writeOnly:"true" example:"staple battery horse"`
}

// Check adds the errors of every field.
func (r *resetCompletion) Check(_ context.Context, v *apperr.Violations) {
	v.AddAll(signin.ResetViolations(r.Token, r.Password))
}

func (h *handlers) requestReset(ctx context.Context, in *requestResetInput) (*struct{}, error) {
	return nil, h.svc.RequestReset(ctx, httpapi.Client(ctx), in.Body.Email)
}

func (h *handlers) completeReset(ctx context.Context, in *completeResetInput) (*struct{}, error) {
	return nil, h.svc.CompleteReset(ctx, httpapi.Client(ctx), in.Body.Token, in.Body.Password)
}
