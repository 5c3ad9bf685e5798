package signinhttp

import (
	"sallyport/internal/identity/signin"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
)

// Module returns the module of sign-in with its operations.
func Module(svc *signin.Service) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { mount(api, svc) }
	return m
}
