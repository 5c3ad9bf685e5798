package teamhttp

import (
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
)

// Module returns the module of the team and its environments with their operations.
func Module(svc *team.Service) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { mount(api, svc) }
	return m
}
