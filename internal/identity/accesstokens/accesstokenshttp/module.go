package accesstokenshttp

import (
	"sallyport/internal/identity/accesstokens"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
)

// Module returns the module of access tokens with the route of their public keys.
func Module(svc *accesstokens.Service) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { mount(api, svc) }
	return m
}
