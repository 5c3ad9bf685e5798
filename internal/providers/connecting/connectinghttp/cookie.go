package connectinghttp

import (
	"net/http"
	"strings"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/connecting"
)

// cookie binds links to the browser that began with them. It is not SameSite=Strict, because browsers must send it when
// a provider sends them back. On http, which only loopback has, browsers accept no prefix.
type cookie struct {
	name   string
	secure bool
}

func newCookie(publicURL string) cookie {
	if strings.HasPrefix(publicURL, "https://") {
		return cookie{"__Host-sallyport_connect", true}
	}
	return cookie{"sallyport_connect", false}
}

// read returns the value of a browser's cookie; empty without a usable one.
func (c cookie) read(r *http.Request) secretbox.Secret {
	list := r.CookiesNamed(c.name)
	if len(list) != 1 || !connecting.IsBrowser(secretbox.Secret(list[0].Value)) {
		return ""
	}
	return secretbox.Secret(list[0].Value)
}

// header returns the Set-Cookie header.
func (c cookie) header(value secretbox.Secret) string {
	//nolint:gosec // Secure is set where browsers accept it
	out := http.Cookie{Name: c.name, Value: value.Reveal(), Path: "/", Secure: c.secure, HttpOnly: true,
		MaxAge: int(connecting.MaxLifetime.Seconds()), SameSite: http.SameSiteLaxMode}
	return out.String()
}
