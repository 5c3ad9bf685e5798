package httpapi

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"sallyport/internal/platform/apperr"
)

// paths knows the methods of each path. http.ServeMux knows patterns of a method and a path: to it, /things/{id} also
// serves /things/verify, with the methods that /things/verify does not have.
type paths struct {
	// mux finds the path of a request; its handlers are only names of paths.
	mux *http.ServeMux
	// methods are those of each path, sorted, with HEAD where there is GET.
	methods map[string][]string
}

// pathHandler is a path in the mux of paths. It serves nothing.
type pathHandler string

// ServeHTTP is never called.
func (pathHandler) ServeHTTP(http.ResponseWriter, *http.Request) {}

// add adds the pattern of a route. One without a method serves all.
func (p *paths) add(pattern string) {
	method, path, found := strings.Cut(pattern, " ")
	if !found {
		return
	}
	if p.methods[path] == nil {
		p.mux.Handle(path, pathHandler(path))
	}
	p.methods[path] = append(p.methods[path], method)
	if method == http.MethodGet {
		p.methods[path] = append(p.methods[path], http.MethodHead)
	}
	slices.Sort(p.methods[path])
}

// allowed returns the methods of the path that a request is for, as in the header Allow; empty if there is no such
// path.
func (p *paths) allowed(r *http.Request) string {
	h, _ := p.mux.Handler(r)
	path, _ := h.(pathHandler)
	return strings.Join(p.methods[string(path)], ", ")
}

// handle adds a route. Its pattern is one of http.ServeMux with a method.
func (a *API) handle(pattern string, h http.Handler) {
	a.mux.Handle(pattern, h)
	a.paths.add(pattern)
}

// closePaths gives each path a response to the methods that it does not have but that a path with a parameter in the
// place of one of its segments has. It runs once, after all routes are added.
func (a *API) closePaths() {
	for path, own := range a.paths.methods {
		sample := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, "x")
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch,
			http.MethodDelete, http.MethodOptions} {
			if slices.Contains(own, method) {
				continue
			}
			r := &http.Request{Method: method, URL: &url.URL{Path: sample}}
			if _, pattern := a.mux.Handler(r); pattern != "" {
				a.mux.HandleFunc(method+" "+path, a.refuseMethod)
			}
		}
	}
}

// refuseMethod responds to a request whose path does not have its method.
func (a *API) refuseMethod(w http.ResponseWriter, r *http.Request) {
	e := apperr.HTTP(http.StatusMethodNotAllowed, "The route does not support this method")
	e.Allow = a.paths.allowed(r)
	WriteError(w, r, e)
}
