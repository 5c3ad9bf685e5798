package connectinghttp

import (
	"net/http"

	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/connecting"
)

// Module returns the module of links with their pages. session reads the refresh token of a browser in which a user is
// signed in; empty without one.
func Module(svc *connecting.Service, publicURL string, session func(*http.Request) secretbox.Secret) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { mount(api, svc, publicURL, session) }
	return m
}
