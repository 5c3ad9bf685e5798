// Package connectinghttp serves the pages on which a person connects an account, without JavaScript.
package connectinghttp

import (
	"bytes"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/connecting"
)

const (
	pagePath     = connecting.PagePath + "{token}"
	signedInPath = connecting.SignedInPath + "{state}"
	callbackPath = "/oauth/callback/{environment_id}/{provider}"
	// maxBody bounds a form: the largest credential has 16 KiB, and percent-encoding triples it.
	maxBody = 256 << 10
)

type handlers struct {
	svc       *connecting.Service
	cookie    cookie
	origin    string
	templates *template.Template
	policy    string
	// session reads the refresh token of a browser in which a user is signed in.
	session func(*http.Request) secretbox.Secret
}

// mount adds the pages. They are no part of the API, and of no use to programs.
func mount(api *httpapi.API, svc *connecting.Service, publicURL string, session func(*http.Request) secretbox.Secret) {
	h := &handlers{svc: svc, session: session, cookie: newCookie(publicURL), origin: strings.TrimRight(publicURL, "/"),
		templates: template.Must(template.New("page").Parse(document)), policy: contentSecurityPolicy()}
	limited := func(pattern string, fn http.HandlerFunc) {
		api.Handle(pattern, api.LimitedByAddressWith(fn, h.fail))
	}
	limited("GET "+pagePath, h.open)
	limited("POST "+pagePath, h.submit)
	limited("GET "+callbackPath, h.back)
	limited("GET "+signedInPath, h.signedIn)
}

// view is what the template shows.
type view struct {
	Style template.CSS
	Title string
	// Path is that of the link's page, and Chosen the mode in a form.
	Path    string
	Page    *connecting.Page
	Done    *connecting.Step
	Failure *connecting.Problem
	Target  template.URL
	// Host is the one that Target leads to.
	Host string
	// Invalid is the number of fields with an error, and of other errors. First is the first such field, or negative.
	Invalid, First int
}

func (h *handlers) open(w http.ResponseWriter, r *http.Request) {
	browser := h.cookie.read(r)
	step, err := h.svc.Open(r.Context(), token(r), browser, r.URL.Query().Get("mode"))
	switch {
	case err != nil:
		h.fail(w, r, err)
		return
	case step.Form == nil:
		h.next(w, r, step, false)
		return
	}
	if browser == "" {
		// Before anything is submitted, so that two clicks are two requests of one browser. The link belongs to none before.
		w.Header().Add("Set-Cookie", h.cookie.header(connecting.NewBrowser()))
	}
	h.show(w, r, http.StatusOK, view{Title: "Connect " + step.Form.Provider, Path: r.URL.EscapedPath(), Page: step.Form,
		First: -1})
}

// visitor is the browser of a request.
func (h *handlers) visitor(r *http.Request) connecting.Visitor {
	return connecting.Visitor{Browser: h.cookie.read(r), Session: h.session(r), Client: httpapi.Client(r.Context())}
}

// signedIn shows a browser that comes back from an identity provider how it goes on.
func (h *handlers) signedIn(w http.ResponseWriter, r *http.Request) {
	step, err := h.svc.SignedIn(r.Context(), h.visitor(r), secretbox.Secret(r.PathValue("state")))
	switch {
	case err != nil:
		h.fail(w, r, err)
	case step.Form == nil:
		h.next(w, r, step, false)
	default:
		h.show(w, r, http.StatusOK, view{Title: "Connect " + step.Form.Provider, Path: step.Form.Path, Page: step.Form,
			First: -1})
	}
}

func token(r *http.Request) secretbox.Secret { return secretbox.Secret(r.PathValue("token")) }

func (h *handlers) submit(w http.ResponseWriter, r *http.Request) {
	if !h.fromOwnPage(r) {
		h.fail(w, r, &connecting.Problem{Words: "This form was sent from another site, or your browser is too old to " +
			"show where it came from. Open the link again."})
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		h.fail(w, r, &connecting.Problem{Words: "The form could not be read, or is too large."})
		return
	}
	values := map[string]string{}
	for name, list := range r.PostForm {
		if len(list) == 1 {
			values[name] = strings.ReplaceAll(list[0], "\r\n", "\n")
		}
	}
	browser := h.cookie.read(r)
	if browser != "" { // for as long as the link can be used from now on
		w.Header().Add("Set-Cookie", h.cookie.header(browser))
	}
	step, err := h.svc.Submit(r.Context(), token(r), h.visitor(r), values["mode"], values)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	if step.Form == nil {
		h.next(w, r, step, true)
		return
	}
	v := view{Title: "Connect " + step.Form.Provider, Path: r.URL.EscapedPath(), Page: step.Form,
		Invalid: len(step.Form.Errors), First: -1}
	if step.Form.SignIn != nil && step.Form.SignIn.CodeError != "" {
		v.Invalid++
	}
	for i := range step.Form.Fields {
		if step.Form.Fields[i].Error != "" {
			if v.Invalid++; v.First < 0 {
				v.First = i
			}
		}
	}
	status := http.StatusOK
	if v.Invalid > 0 {
		status, v.Title = http.StatusUnprocessableEntity, "Error: "+v.Title
	}
	h.show(w, r, status, v)
}

// fromOwnPage reports whether a form was sent by one of our pages: another site must not make a browser connect the
// account of its user. Browsers send Sec-Fetch-Site where they can trust the address; the Origin is hidden by the
// pages' referrer policy.
func (h *handlers) fromOwnPage(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	return r.Header.Get("Origin") == h.origin
}

func (h *handlers) back(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet { // the pattern GET includes HEAD, and a prefetch must not use the state
		h.fail(w, r, &connecting.Problem{Words: "The method is not allowed here."})
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		query = url.Values{} // it has no state
	}
	step, err := h.svc.Return(r.Context(), id.Environment(r.PathValue("environment_id")), r.PathValue("provider"),
		h.visitor(r), query)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	if step.Form != nil { // a choice
		h.show(w, r, http.StatusOK, view{Title: "Choose an account", Path: step.Form.Path, Page: step.Form, First: -1})
		return
	}
	h.next(w, r, step, true)
}

// next shows the page that leads on: to the provider, back to where the person came from, or nowhere; by itself after a
// step that the person has made. It is a page and no redirect, because a browser would apply the form-action of the
// page with the form to every host on the way.
func (h *handlers) next(w http.ResponseWriter, r *http.Request, step *connecting.Step, onward bool) {
	v := view{Title: "Continue to " + step.Provider, Done: step, Target: template.URL(step.To), //nolint:gosec // checked
		Host: step.Host}
	if step.Connected {
		v.Title = step.Provider + " is connected"
	}
	if step.To != "" && onward {
		w.Header().Set("Refresh", "0; url="+step.To)
	}
	h.show(w, r, http.StatusOK, v)
}

// fail shows an error in words.
func (h *handlers) fail(w http.ResponseWriter, r *http.Request, err error) {
	var p *connecting.Problem
	status := http.StatusBadRequest
	if !errors.As(err, &p) {
		switch {
		case apperr.Is(err, apperr.CodeNotFound):
			p, status = &connecting.Problem{Words: "This link is not valid any more."}, http.StatusGone
		case apperr.Is(err, apperr.CodeRateLimited): // its headers are there
			p, status = &connecting.Problem{Words: "There were too many requests from your network. Wait a minute, and load " +
				"this page again."}, http.StatusTooManyRequests
		default:
			obs.LineFrom(r.Context()).Fail(err)
			status = http.StatusInternalServerError
			p = &connecting.Problem{Words: "Something went wrong here, and nothing was connected. Try again in a few minutes."}
		}
	}
	if p.Title == "" {
		p.Title = "Not connected"
	}
	h.show(w, r, status, view{Title: p.Title, Failure: p, Target: template.URL(p.Back), //nolint:gosec // checked
		Host: hostOf(p.Back)})
}

func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}

func (h *handlers) show(w http.ResponseWriter, r *http.Request, status int, v view) {
	v.Style = template.CSS(style) //nolint:gosec // it is ours
	var page bytes.Buffer
	if err := h.templates.Execute(&page, v); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", h.policy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Frame-Options", "DENY")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("X-Robots-Tag", "noindex")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // the client is gone when this fails
}
