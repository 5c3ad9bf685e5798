package signinhttp

import (
	"context"
	"net/http"
	"strings"
	"time"

	"sallyport/internal/identity/signin"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/secretbox"
)

// refreshCookie is the name of the cookie that keeps a user signed in. The prefix makes browsers refuse it from a
// subdomain, over plain HTTP, and under any path but / (draft-ietf-httpbis-rfc6265bis, section 4.1.3.2).
const refreshCookie = "__Host-sallyport_refresh"

// CookieInput is embedded into the input of every operation that reads the refresh cookie. It is exported because only
// exported embedded structs are documented.
type CookieInput struct {
	// The refresh token, as set by a sign-in or the last refresh.
	Cookie string `cookie:"__Host-sallyport_refresh"`
}

func (in *CookieInput) token() signin.RefreshToken { return secretbox.Secret(in.Cookie) }

// bearer returns the access token of the request, for an operation that accepts one alongside the cookie. It is empty
// if there is none.
func bearer(ctx context.Context) string {
	sent := httpapi.RequestFrom(ctx).Header.Values("Authorization")
	if len(sent) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(sent[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

// withoutCookie adds the header that removes the cookie to an error that says that the cookie does not work. Otherwise
// the browser would send it again and again.
func (in *CookieInput) withoutCookie(err error) error {
	if in.Cookie == "" || !apperr.Is(err, apperr.CodeUnauthorized) {
		return err
	}
	return httpapi.WithHeaders(err, http.Header{"Set-Cookie": {setCookie("", -1)}})
}

// checkOrigin rejects requests that a page of another origin makes a browser send. SameSite=Strict prevents most of
// them, but not those of pages of sibling hosts; Sec-Fetch-Site and Origin do. Other clients send neither header.
func (h *handlers) checkOrigin(ctx context.Context) error {
	if err := h.origins.Check(httpapi.RequestFrom(ctx)); err != nil {
		return apperr.Wrap(apperr.CodeCrossOrigin, "A page of another origin has sent this request", err)
	}
	return nil
}

// newOrigins returns the check of checkOrigin. It trusts our own origin as configured, because a proxy may have
// replaced Host.
func newOrigins(issuer string) *http.CrossOriginProtection {
	p := http.NewCrossOriginProtection()
	// Configuration rejects an issuer that is no origin. Here it leaves the check by Host.
	_ = p.AddTrustedOrigin(issuer)
	return p
}

// sessionCookie returns the header that sets the refresh cookie for as long as an unused session lasts. It is empty if
// there is no token to set.
func sessionCookie(s signin.Session, token signin.RefreshToken, now time.Time) string {
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

// RefreshCookie reads and writes the refresh cookie for other packages that sign users in.
type RefreshCookie struct{}

// Token returns the refresh token of a request, or an empty one.
func (RefreshCookie) Token(r *http.Request) signin.RefreshToken {
	c, err := r.Cookie(refreshCookie)
	if err != nil {
		return ""
	}
	return secretbox.Secret(c.Value)
}

// Header returns the Set-Cookie header of a sign-in.
func (RefreshCookie) Header(in signin.SignIn, now time.Time) string {
	return sessionCookie(in.Session, in.Refresh, now)
}
