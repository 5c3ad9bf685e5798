package apikeyshttp

import (
	"sallyport/internal/identity/apikeys"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
)

// Module returns the module of API keys with their operations.
func Module(svc *apikeys.Service) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { mount(api, svc) }
	return m
}
