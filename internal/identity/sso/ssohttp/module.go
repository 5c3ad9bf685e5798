package ssohttp

import (
	"sallyport/internal/identity/sso"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
)

// Module returns the module of identity providers with their operations.
func Module(svc *sso.Service, cookie Cookie) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { mount(api, svc, cookie) }
	return m
}
