package ssohttp

import (
	"sallyport/internal/identity/sso"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
)

// Module returns all that sign-in by identity providers brings to the process.
func Module(svc *sso.Service, cookie Cookie) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { mount(api, svc, cookie) }
	return m
}
