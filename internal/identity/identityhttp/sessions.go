package identityhttp

import (
	"context"
	"errors"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/identity/accesstokens"
	"sallyport/internal/identity/signin"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/secretbox"
)

// noStore keeps once-shown secrets out of every cache (RFC 6749, section 5.1, asks the same of token answers).
const noStore = "no-store"

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

// signIn is what a successful sign-in returns. Its token is shown once, but works for minutes only and is a session's,
// not a stored credential.
type signIn struct {
	// Generated: a JWT, to be sent as `Authorization: Bearer`. It contains no permissions; the service reads them for each
	// request.
	AccessToken string `json:"access_token" readOnly:"true" example:"eyJhbGciOiJFUzI1NiIsInR5cCI6ImFkbWluK2p3dCJ9.e30.c2ln"`
	// The type of the token.
	TokenType string `json:"token_type" enum:"Bearer" example:"Bearer"`
	// How long the token works, in seconds from now.
	ExpiresIn int `json:"expires_in" example:"900"`
	// The user who has signed in.
	User teamUser `json:"user"`
	// The environments in which the user has any permission, oldest first.
	Environments []environment `json:"environments"`
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

type listSessionsInput struct {
	page.Query
	url url.URL
}

// Resolve keeps the URL for the link to the next page.
func (in *listSessionsInput) Resolve(ctx huma.Context) []error {
	in.url = ctx.URL()
	return nil
}

type listSessionsOutput struct {
	page.Headers
	Body []session
}

type sessionInput struct {
	// The id of the session.
	ID string `path:"id" example:"ses_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

func (h handler) login(ctx context.Context, in *loginInput) (*signInOutput, error) {
	if err := h.sameOrigin(&in.CookieInput); err != nil {
		return nil, err
	}
	return signInAnswer(ctx)(h.identity.SignIn.Login(ctx, in.client(ctx),
		signin.Credentials{Email: in.Body.Email, Password: in.Body.Password, Code: in.Body.TOTP}, in.token()))
}

func (h handler) refresh(ctx context.Context, in *CookieInput) (*signInOutput, error) {
	if err := h.sameOrigin(in); err != nil {
		return nil, err
	}
	s, err := h.identity.SignIn.Refresh(ctx, in.client(ctx), in.token())
	return signInAnswer(ctx)(s, in.withoutCookie(err))
}

func signInAnswer(ctx context.Context) func(signin.SignIn, error) (*signInOutput, error) {
	return func(s signin.SignIn, err error) (*signInOutput, error) {
		if err != nil {
			return nil, err
		}
		return &signInOutput{CacheControl: noStore, SetCookie: cookieOf(s.Session, s.Refresh, httpapi.RequestTime(ctx)),
			Body: signIn{
				AccessToken: s.Token.Reveal(), TokenType: "Bearer", ExpiresIn: int(accesstokens.Lifetime.Seconds()),
				User: userOf(s.Profile), Environments: environmentsOf(s.Environments),
			}}, nil
	}
}

func (h handler) logout(ctx context.Context, in *CookieInput) (*logoutOutput, error) {
	if err := h.sameOrigin(in); err != nil {
		return nil, err
	}
	if err := h.identity.SignIn.Logout(ctx, in.client(ctx), in.token(), in.bearer()); err != nil {
		return nil, in.withoutCookie(err)
	}
	return &logoutOutput{SetCookie: setCookie("", -1)}, nil
}

func (h handler) changePassword(ctx context.Context, in *changePasswordInput) (*changePasswordOutput, error) {
	v, token, err := h.identity.SignIn.ChangePassword(ctx, access.From(ctx), in.Body.CurrentPassword, in.Body.NewPassword)
	var invalid *apperr.Error
	switch {
	case errors.Is(err, signin.ErrWrongPassword):
		return nil, httpapi.At("body.current_password", "current", "is not the user's password")
	case errors.As(err, &invalid) && invalid.Code == apperr.CodeValidation:
		return nil, inBody(invalid)
	case err != nil:
		return nil, err
	}
	return &changePasswordOutput{SetCookie: cookieOf(v, token, httpapi.RequestTime(ctx))}, nil
}

func (h handler) listSessions(ctx context.Context, in *listSessionsInput) (*listSessionsOutput, error) {
	actor := access.From(ctx)
	r, err := in.Parse("sessions\x00"+actor.ID, func(key string) bool { return id.Is(id.PrefixSession, key) })
	if err != nil {
		return nil, err
	}
	list, err := h.identity.SignIn.ListSessions(ctx, actor, r)
	if err != nil {
		return nil, err
	}
	list, headers := page.Cut(r, list, func(s signin.Session) string { return s.ID }, in.url.Path, in.url.Query())
	out := &listSessionsOutput{Headers: headers, Body: make([]session, 0, len(list))}
	for _, s := range list {
		out.Body = append(out.Body, session{
			ID: s.ID, CreatedAt: httpapi.TimeMillis(s.CreatedMillis), LastUsedAt: httpapi.TimeMillis(s.UsedMillis),
			ExpiresAt: httpapi.TimeMillis(s.EndsMillis()), IP: s.IP, UserAgent: s.UserAgent, Current: s.ID == actor.Session,
		})
	}
	return out, nil
}

func (h handler) endSession(ctx context.Context, in *sessionInput) (*struct{}, error) {
	return nil, h.identity.SignIn.EndSession(ctx, access.From(ctx), in.ID)
}
