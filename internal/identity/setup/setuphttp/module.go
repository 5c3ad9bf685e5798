package setuphttp

import (
	setups "sallyport/internal/identity/setup"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
)

// Module returns the module of the setup of an installation with its operation.
func Module(svc *setups.Service) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { mount(api, svc) }
	return m
}
