package signinhttp

import (
	"context"
	"errors"
	"net/http"

	"sallyport/internal/identity/accesstokens"
	"sallyport/internal/identity/signin"
	"sallyport/internal/identity/wire"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/secretbox"
)

// noStore keeps once-shown secrets out of every cache (RFC 6749, section 5.1, requires the same of token responses).
const noStore = "no-store"

func (h *handlers) mountSessions(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "login", Method: http.MethodPost, Path: "/team/login", Tag: tag, Status: http.StatusOK, Public: true,
		Summary: "Sign in",
		Messages: map[apperr.Code][]string{
			apperr.CodeUnauthorized: {
				"The e-mail address or the password is wrong",
			},
			apperr.CodeRateLimited: {
				"Too many failed sign-ins; try again later",
			},
		},
		Description: "Exchanges an e-mail address and a password for an access token and starts a session, which the " +
			"cookie " +
			"`" + refreshCookie + "` continues. A wrong address and a wrong password get the same response. After several " +
			"failures for an account or from an address, each further attempt has to wait, at most 30 seconds.\n\n" +
			"If the user has an authenticator app, the right password without a code is `totp_required`; then send the " +
			"password and the code. A code works once. Send the token as `Authorization: Bearer <token>` and the environment " +
			"as `Environment-Id`.",
		Errors: []apperr.Code{apperr.CodeUnauthorized, apperr.CodeTOTPRequired, apperr.CodeTOTPInvalid,
			apperr.CodeRateLimited, apperr.CodeCrossOrigin},
	}, h.login)
	httpapi.Register(api, httpapi.Operation{
		ID: "refresh-token", Method: http.MethodPost, Path: "/team/token/refresh", Tag: tag, Status: http.StatusOK,
		Public: true, Summary: "Refresh the access token",
		Description: "Exchanges the refresh cookie for an access token and a new cookie. Each cookie works once. A cookie " +
			"that was used before ends the session and all its tokens. Within 10 seconds of its first use, a cookie sent " +
			"again gets an access token and no new cookie, so that several windows can refresh at the same time. A rejected " +
			"cookie is removed.",
		Errors: []apperr.Code{apperr.CodeUnauthorized, apperr.CodeCrossOrigin},
	}, h.refresh)
	httpapi.Register(api, httpapi.Operation{
		ID: "logout", Method: http.MethodPost, Path: "/team/logout", Tag: tag, Status: http.StatusNoContent, Public: true,
		Summary: "Sign out",
		Description: "Ends the session of the refresh cookie and the session of the access token in `Authorization: " +
			"Bearer`, with all their tokens, and removes the cookie. One of the two is enough. A session that has already " +
			"ended is not an error. Without a refresh cookie and without a valid access token the error is `unauthorized`.",
		Errors: []apperr.Code{apperr.CodeUnauthorized, apperr.CodeCrossOrigin},
	}, h.logout)
	httpapi.RegisterList(api, httpapi.Operation{
		ID: "list-sessions", Method: http.MethodGet, Path: "/team/sessions", Tag: tag, Status: http.StatusOK,
		Permission: access.AccountRead, Summary: "List your sessions",
		Description: "Returns the active sessions of the signed-in user, newest first.",
	}, httpapi.List[listSessionsInput, signin.Session, session]{Rows: h.listSessions,
		Key: func(s *signin.Session) string { return s.ID }, IsKey: id.Matcher(id.PrefixSession), View: viewSession})
	httpapi.Register(api, httpapi.Operation{
		ID: "end-session", Method: http.MethodDelete, Path: "/team/sessions/{id}", Tag: tag, Status: http.StatusNoContent,
		Permission: access.AccountWrite, Summary: "End a session",
		Description: "Ends a session of the signed-in user immediately, with its access tokens.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.endSession)
	httpapi.Register(api, httpapi.Operation{
		ID: "change-password", Method: http.MethodPost, Path: "/team/me/password", Tag: tag, Status: http.StatusNoContent,
		Permission: access.AccountWrite, Summary: "Change the password",
		Messages: map[apperr.Code][]string{
			apperr.CodeRateLimited: {
				"Too many failed sign-ins; try again later",
			},
		},
		Description: "Changes the password of the signed-in user and ends their other sessions. The session of the request " +
			"continues with a new refresh cookie; the old cookie stops working. Wrong current passwords count as failed " +
			"sign-ins.",
		Errors: []apperr.Code{apperr.CodeRateLimited}, NoIdempotencyKey: true,
	}, h.changePassword)
}

type loginInput struct {
	CookieInput
	Body loginRequest
}

type loginRequest struct {
	// The user's e-mail address. Case-insensitive.
	Email string `json:"email" minLength:"1" maxLength:"254" example:"ada@example.test"`
	// The user's password.
	Password secretbox.Secret `json:"password" minLength:"1" maxLength:"256" format:"password" writeOnly:"true" example:"correct horse battery"`
	// The six digits that the user's authenticator app shows, or a recovery code. Omit it for a user without an app.
	TOTP secretbox.Secret `json:"totp,omitempty" minLength:"6" maxLength:"32" writeOnly:"true" example:"492039"`
}

type signInOutput struct {
	// Always `no-store`.
	CacheControl string `header:"Cache-Control"`
	// The refresh cookie, if there is a new one.
	SetCookie string `header:"Set-Cookie"`
	Body      signIn
}

// signIn is the response to a successful sign-in. Its token is shown once, but works for minutes only and is a
// session's, not a stored credential.
type signIn struct {
	// Generated: a JWT, to be sent as `Authorization: Bearer`. It contains no permissions; the service reads them for each
	// request.
	AccessToken string `json:"access_token" readOnly:"true" example:"eyJhbGciOiJFUzI1NiIsInR5cCI6ImFkbWluK2p3dCJ9.e30.c2ln"`
	// The type of the token.
	TokenType string `json:"token_type" enum:"Bearer" example:"Bearer"`
	// How long the token works, in seconds from now.
	ExpiresIn int `json:"expires_in" example:"900"`
	// The user who has signed in.
	User wire.TeamUser `json:"user"`
	// The environments in which the user has any permission, oldest first.
	Environments []wire.Environment `json:"environments"`
}

type logoutOutput struct {
	// Removes the refresh cookie.
	SetCookie string `header:"Set-Cookie"`
}

type changePasswordInput struct {
	Body passwordChange
}

type changePasswordOutput struct {
	// The new refresh cookie of the session.
	SetCookie string `header:"Set-Cookie"`
}

type passwordChange struct {
	// The current password.
	CurrentPassword secretbox.Secret `json:"current_password" minLength:"1" maxLength:"256" format:"password" writeOnly:"true" example:"correct horse battery"`
	// The new password: any characters, but neither the e-mail address nor the current password.
	NewPassword secretbox.Secret `json:"new_password" minLength:"12" maxLength:"256" format:"password" writeOnly:"true" example:"staple battery horse"`
}

// session is one sign-in, as its user sees it.
type session struct {
	// The id of the session.
	ID string `json:"id" example:"ses_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// When the user signed in.
	CreatedAt httpapi.Time `json:"created_at" example:"2026-11-02T09:30:00.000Z"`
	// When the session last got an access token.
	LastUsedAt httpapi.Time `json:"last_used_at" example:"2026-11-02T11:45:00.000Z"`
	// When the session ends if it is not refreshed before.
	ExpiresAt httpapi.Time `json:"expires_at" example:"2026-11-16T11:45:00.000Z"`
	// The IP address of the client that got the last access token.
	IP string `json:"ip" example:"192.0.2.17"`
	// The `User-Agent` of the client that got the last access token, cut after 256 bytes.
	UserAgent string `json:"user_agent" example:"Mozilla/5.0 (X11; Linux x86_64; rv:146.0) Gecko/20100101 Firefox/146.0"`
	// Whether this is the session of the request.
	Current bool `json:"current" example:"true"`
}

type listSessionsInput struct{ page.Query }

type sessionInput struct {
	// The id of the session.
	ID string `path:"id" example:"ses_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

func (h *handlers) login(ctx context.Context, in *loginInput) (*signInOutput, error) {
	if err := h.checkOrigin(ctx); err != nil {
		return nil, err
	}
	return respondSignIn(ctx)(h.svc.Login(ctx, httpapi.Client(ctx),
		signin.Credentials{Email: in.Body.Email, Password: in.Body.Password, Code: in.Body.TOTP}, in.token()))
}

func (h *handlers) refresh(ctx context.Context, in *CookieInput) (*signInOutput, error) {
	if err := h.checkOrigin(ctx); err != nil {
		return nil, err
	}
	s, err := h.svc.Refresh(ctx, httpapi.Client(ctx), in.token())
	return respondSignIn(ctx)(s, in.withoutCookie(err))
}

func respondSignIn(ctx context.Context) func(signin.SignIn, error) (*signInOutput, error) {
	return func(s signin.SignIn, err error) (*signInOutput, error) {
		if err != nil {
			return nil, err
		}
		return &signInOutput{CacheControl: noStore, SetCookie: sessionCookie(s.Session, s.Refresh, httpapi.RequestTime(ctx)),
			Body: signIn{
				AccessToken: s.Token.Reveal(), TokenType: "Bearer", ExpiresIn: int(accesstokens.Lifetime.Seconds()),
				User: wire.ViewUser(s.User), Environments: wire.ViewEnvironments(s.Environments),
			}}, nil
	}
}

func (h *handlers) logout(ctx context.Context, in *CookieInput) (*logoutOutput, error) {
	if err := h.checkOrigin(ctx); err != nil {
		return nil, err
	}
	if err := h.svc.Logout(ctx, httpapi.Client(ctx), in.token(), bearer(ctx)); err != nil {
		return nil, in.withoutCookie(err)
	}
	return &logoutOutput{SetCookie: setCookie("", -1)}, nil
}

func (h *handlers) changePassword(ctx context.Context, in *changePasswordInput) (*changePasswordOutput, error) {
	v, token, err := h.svc.ChangePassword(ctx, access.From(ctx), in.Body.CurrentPassword, in.Body.NewPassword)
	switch {
	case errors.Is(err, signin.ErrWrongPassword):
		return nil, httpapi.At("current_password", "current", "is not the user's password")
	case err != nil:
		return nil, err
	}
	return &changePasswordOutput{SetCookie: sessionCookie(v, token, httpapi.RequestTime(ctx))}, nil
}

func (h *handlers) listSessions(ctx context.Context, _ *listSessionsInput, p page.Request) ([]signin.Session, error) {
	return h.svc.ListSessions(ctx, access.From(ctx), p)
}

func viewSession(ctx context.Context, s *signin.Session) session {
	return session{
		ID: s.ID, CreatedAt: httpapi.TimeMillis(s.CreatedMillis), LastUsedAt: httpapi.TimeMillis(s.UsedMillis),
		ExpiresAt: httpapi.TimeMillis(s.EndsMillis()), IP: s.IP, UserAgent: s.UserAgent,
		Current: s.ID == access.From(ctx).Session,
	}
}

func (h *handlers) endSession(ctx context.Context, in *sessionInput) (*struct{}, error) {
	return nil, h.svc.EndSession(ctx, access.From(ctx), in.ID)
}
