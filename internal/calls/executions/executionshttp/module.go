package executionshttp

import (
	"sallyport/internal/calls/executions"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
)

// Module returns the module of executions with their operations.
func Module(svc *executions.Service) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { mount(api, svc) }
	return m
}
