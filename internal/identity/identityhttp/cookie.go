package identityhttp

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"sallyport/internal/identity/signin"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/secretbox"
)

// refreshCookie is the name of the cookie that keeps a user signed in. The prefix makes browsers refuse it from a
// subdomain, over plain HTTP, and under any path but / (draft-ietf-httpbis-rfc6265bis, section 4.1.3.2).
const refreshCookie = "__Host-sallyport_refresh"

// CookieInput is embedded into the input of every operation that reads or sets the refresh cookie. It is exported
// because Huma fills in no embedded field of another kind.
type CookieInput struct {
	// The refresh token, as set by a sign-in or the last refresh.
	Cookie  string `cookie:"__Host-sallyport_refresh"`
	request *http.Request
}

// Resolve keeps the request, for what tells where it comes from.
func (in *CookieInput) Resolve(ctx huma.Context) []error {
	in.request, _ = humago.Unwrap(ctx)
	return nil
}

func (in *CookieInput) token() signin.RefreshToken { return secretbox.Secret(in.Cookie) }

func (in *CookieInput) client(ctx context.Context) access.Client {
	return access.Client{IP: httpapi.ClientIP(ctx), UserAgent: in.request.UserAgent(), RequestID: httpapi.RequestID(ctx)}
}

// bearer is the access token of the request, for the operation that takes one beside the cookie; empty where there is
// none.
func (in *CookieInput) bearer() string {
	sent := in.request.Header.Values("Authorization")
	if len(sent) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(sent[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

// withoutCookie adds to an error that says that the cookie is worth nothing the header that removes it, so that the
// browser does not send it again and again.
func (in *CookieInput) withoutCookie(err error) error {
	if in.Cookie == "" || !apperr.Is(err, apperr.CodeUnauthorized) {
		return err
	}
	return huma.ErrorWithHeaders(err, http.Header{"Set-Cookie": {setCookie("", -1)}})
}

// sameOrigin refuses what a page of another origin makes a browser send. SameSite=Strict does most of it; it lets the
// pages of sibling hosts through, and Sec-Fetch-Site and Origin do not. Clients that are no browsers send neither.
func (h handler) sameOrigin(in *CookieInput) error {
	if err := h.origins.Check(in.request); err != nil {
		return apperr.Wrap(apperr.CodeCrossOrigin, "A page of another origin has sent this request", err)
	}
	return nil
}

// origins returns the check of sameOrigin. Our own origin is trusted as configured, because a proxy may have replaced
// Host.
func origins(issuer string) *http.CrossOriginProtection {
	p := http.NewCrossOriginProtection()
	// An issuer that is no origin, which configuration refuses, leaves the check by Host.
	_ = p.AddTrustedOrigin(issuer)
	return p
}

// cookieOf returns the header that sets the refresh cookie for as long as the session lasts unused; empty where there
// is no token to set.
func cookieOf(s signin.Session, token signin.RefreshToken, now time.Time) string {
	if token == "" {
		return ""
	}
	return setCookie(token.Reveal(), int(clock.FromMillis(s.EndsMillis()).Sub(now).Seconds()))
}

// setCookie returns the header that sets the refresh cookie, and with a negative age the one that removes it.
func setCookie(value string, maxAge int) string {
	c := http.Cookie{Name: refreshCookie, Value: value, Path: "/", MaxAge: maxAge, Secure: true, HttpOnly: true,
		SameSite: http.SameSiteStrictMode}
	return c.String()
}

// RefreshCookie is the refresh cookie for whoever else ends a sign-in in it.
type RefreshCookie struct{}

// Token returns the refresh token of a request; empty where there is none.
func (RefreshCookie) Token(r *http.Request) signin.RefreshToken {
	c, err := r.Cookie(refreshCookie)
	if err != nil {
		return ""
	}
	return secretbox.Secret(c.Value)
}

// Header returns the Set-Cookie of a sign-in.
func (RefreshCookie) Header(in signin.SignIn, now time.Time) string {
	return cookieOf(in.Session, in.Refresh, now)
}
