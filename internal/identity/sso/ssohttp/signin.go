package ssohttp

import (
	"context"
	"net/http"
	"net/url"

	"sallyport/internal/identity/sso"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/secretbox"
)

// browserCookie binds a sign-in to the browser that began it. It is not SameSite=Strict, because browsers must send it
// when the identity provider redirects them. Its other attributes are those of the refresh cookie.
const browserCookie = "__Host-sallyport_sso"

func setBrowserCookie(value string, maxAge int) string {
	c := http.Cookie{Name: browserCookie, Value: value, Path: "/", MaxAge: maxAge, Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode}
	return c.String()
}

func (h handler) start(ctx context.Context, in *startInput) (*startOutput, error) {
	begun, err := h.sso.Start(ctx, in.ID, in.ReturnTo)
	if err != nil {
		return nil, err
	}
	return &startOutput{Location: begun.URL, SetCookie: setBrowserCookie(begun.Browser.Reveal(),
		int(sso.SignInLifetime.Seconds())), CacheControl: "no-store"}, nil
}

// callback is a plain handler, because providers add parameters of their own.
func (h handler) callback(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet { // the pattern GET includes HEAD, and a prefetch must not consume the response
		httpapi.WriteError(w, r, &apperr.Error{Code: apperr.CodeHTTP, Status: http.StatusMethodNotAllowed,
			Message: "The method is not allowed here", Allow: http.MethodGet})
		return
	}
	ctx := r.Context()
	in, returnTo, err := h.sso.Finish(ctx, httpapi.Client(ctx), r.PathValue("id"), readBrowserCookie(r), readCallback(r),
		h.cookie.Token(r))
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	header := w.Header()
	header.Add("Set-Cookie", h.cookie.Header(in, httpapi.RequestTime(ctx)))
	header.Add("Set-Cookie", setBrowserCookie("", -1))
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Location", returnTo)
	w.WriteHeader(http.StatusSeeOther)
}

func readBrowserCookie(r *http.Request) secretbox.Secret {
	list := r.CookiesNamed(browserCookie)
	if len(list) != 1 {
		return ""
	}
	return secretbox.Secret(list[0].Value)
}

// readCallback reads the provider's response. It ignores a parameter that is there twice, because the provider sent
// only one of them.
func readCallback(r *http.Request) sso.Callback {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return sso.Callback{}
	}
	one := func(name string) string {
		if list := query[name]; len(list) == 1 {
			return list[0]
		}
		return ""
	}
	if len(query["iss"]) > 1 {
		return sso.Callback{}
	}
	return sso.Callback{State: one("state"), Code: one("code"), Issuer: one("iss"), Error: one("error")}
}
