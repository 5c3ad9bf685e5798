package signinhttp

import (
	"context"
	"errors"
	"net/http"

	"sallyport/internal/identity/signin"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/secretbox"
)

const totpPath = "/team/me/totp"

func (h *handlers) mountTOTP(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-totp", Method: http.MethodGet, Path: totpPath, Tag: tag, Status: http.StatusOK,
		Permission: access.AccountRead, Summary: "Get the authenticator app",
		Description: "Shows whether signing in with the password also requires a code of an authenticator app (TOTP, RFC " +
			"6238).",
	}, h.getTOTP)
	httpapi.Register(api, httpapi.Operation{
		ID: "enrol-totp", Method: http.MethodPost, Path: totpPath, Tag: tag, Status: http.StatusCreated,
		Permission: access.AccountWrite, Summary: "Enrol an authenticator app",
		Messages: map[apperr.Code][]string{
			apperr.CodeRateLimited: {
				"Too many failed sign-ins; try again later",
			},
		},
		Description: "Returns a secret for an authenticator app of the signed-in user, in this response only. Sign-in " +
			"requires no code until the app is confirmed. Until then another enrolment replaces this one. A wrong password " +
			"counts as a failed sign-in.",
		Errors: []apperr.Code{apperr.CodeTOTPActive, apperr.CodeRateLimited},
	}, h.enrolTOTP)
	httpapi.Register(api, httpapi.Operation{
		ID: "confirm-totp", Method: http.MethodPost, Path: totpPath + "/confirm", Tag: tag, Status: http.StatusOK,
		Permission: access.AccountWrite, Summary: "Confirm the authenticator app",
		Missing: []string{"authenticator app"},
		Messages: map[apperr.Code][]string{
			apperr.CodeTOTPActive: {
				"The authenticator app is confirmed already",
			},
		},
		Description: "Activates the enrolled app and returns ten recovery codes, in this response only. Each recovery code " +
			"replaces a code of the app once. Existing sessions continue. After five wrong codes each further attempt has to " +
			"wait, at most an hour.",
		Errors: []apperr.Code{apperr.CodeTOTPActive, apperr.CodeNotFound, apperr.CodeRateLimited},
	}, h.confirmTOTP)
	httpapi.Register(api, httpapi.Operation{
		ID: "remove-totp", Method: http.MethodPost, Path: totpPath + "/remove", Tag: tag, Status: http.StatusNoContent,
		Permission: access.AccountWrite, Summary: "Remove the authenticator app",
		Missing: []string{"authenticator app"},
		Messages: map[apperr.Code][]string{
			apperr.CodeRateLimited: {
				"Too many failed sign-ins; try again later",
			},
		},
		Description: "Removes the app and its recovery codes. Then the password alone is enough to sign in. A user who has " +
			"lost the app and the recovery codes asks an operator to run `sallyport admin remove-totp`.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeRateLimited},
	}, h.removeTOTP)
}

type totpOutput struct {
	Body totp
}

// totp is a user's authenticator app, without its secret.
type totp struct {
	// The state of the authenticator app:
	// - `off`: there is no app.
	// - `pending`: an app was enrolled and waits for its first code.
	// - `on`: signing in with the password requires a code.
	State signin.TOTPState `json:"state" example:"on"`
	// When the app was enrolled; `null` if there is none.
	CreatedAt *httpapi.Time `json:"created_at" nullable:"true" example:"2026-11-02T09:30:00.000Z"`
	// The number of unused recovery codes. If fewer than three are left, remove the app and enrol it again.
	RecoveryCodesLeft int `json:"recovery_codes_left" example:"10"`
}

type enrolTOTPInput struct {
	Body totpEnrolment
}

type totpEnrolment struct {
	// The user's password.
	Password secretbox.Secret `json:"password" minLength:"1" maxLength:"256" format:"password" writeOnly:"true" example:"correct horse battery"`
}

type enrolTOTPOutput struct {
	// Always `no-store`.
	CacheControl string `header:"Cache-Control"`
	// The path of the app's state.
	Location string `header:"Location"`
	Body     TOTPCreated
}

// TOTPCreated is a new secret, shown this once.
type TOTPCreated struct {
	// Generated: the secret in base32, to be typed into an app. It cannot be shown again.
	Secret string `json:"secret" readOnly:"true" example:"JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"`
	// Generated: the same secret as a URI, to be shown as a QR code.
	OtpauthURI string `json:"otpauth_uri" readOnly:"true" example:"otpauth://totp/Sallyport%20gateway.example.test:ada@example.test?algorithm=SHA1&digits=6&issuer=Sallyport%20gateway.example.test&period=30&secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"`
}

type confirmTOTPInput struct {
	Body totpConfirmation
}

type totpConfirmation struct {
	// The six digits that the app shows.
	Code secretbox.Secret `json:"code" minLength:"6" maxLength:"16" writeOnly:"true" example:"492039"`
}

type confirmTOTPOutput struct {
	// Always `no-store`.
	CacheControl string `header:"Cache-Control"`
	Body         RecoveryCodesCreated
}

// RecoveryCodesCreated are new recovery codes, shown this once.
type RecoveryCodesCreated struct {
	// Generated: recovery codes. Each of them replaces a code of the app once. They are not stored and cannot be shown
	// again.
	RecoveryCodes []string `json:"recovery_codes" readOnly:"true" example:"[\"7k2m-9qxa-04tv-n8hd\"]"`
}

type removeTOTPInput struct {
	Body totpRemoval
}

type totpRemoval struct {
	// The user's password.
	Password secretbox.Secret `json:"password" minLength:"1" maxLength:"256" format:"password" writeOnly:"true" example:"correct horse battery"`
	// The six digits that the app shows, or a recovery code.
	Code secretbox.Secret `json:"code" minLength:"6" maxLength:"32" writeOnly:"true" example:"492039"`
}

func (h *handlers) getTOTP(ctx context.Context, _ *struct{}) (*totpOutput, error) {
	t, err := h.svc.TOTP(ctx, access.From(ctx))
	if err != nil {
		return nil, err
	}
	return &totpOutput{Body: totp{State: t.State, CreatedAt: httpapi.TimePtr(t.CreatedMillis),
		RecoveryCodesLeft: t.RecoveryCodes}}, nil
}

func (h *handlers) enrolTOTP(ctx context.Context, in *enrolTOTPInput) (*enrolTOTPOutput, error) {
	e, err := h.svc.EnrolTOTP(ctx, access.From(ctx), in.Body.Password)
	if err != nil {
		return nil, totpViolation(err)
	}
	return &enrolTOTPOutput{CacheControl: noStore, Location: httpapi.Prefix + totpPath,
		Body: TOTPCreated{Secret: e.Secret.Reveal(), OtpauthURI: e.URI.Reveal()}}, nil
}

func (h *handlers) confirmTOTP(ctx context.Context, in *confirmTOTPInput) (*confirmTOTPOutput, error) {
	codes, err := h.svc.ConfirmTOTP(ctx, access.From(ctx), in.Body.Code)
	if err != nil {
		return nil, totpViolation(err)
	}
	out := &confirmTOTPOutput{CacheControl: noStore}
	for _, code := range codes {
		out.Body.RecoveryCodes = append(out.Body.RecoveryCodes, code.Reveal())
	}
	return out, nil
}

func (h *handlers) removeTOTP(ctx context.Context, in *removeTOTPInput) (*struct{}, error) {
	return nil, totpViolation(h.svc.RemoveTOTP(ctx, access.From(ctx), in.Body.Password, in.Body.Code))
}

// totpViolation returns the validation error of a wrong password or code at its field.
func totpViolation(err error) error {
	switch {
	case errors.Is(err, signin.ErrWrongPassword):
		return httpapi.At("password", "current", "is not the user's password")
	case errors.Is(err, signin.ErrWrongCode):
		return httpapi.At("code", "current", "is wrong or was used before")
	}
	return err
}
