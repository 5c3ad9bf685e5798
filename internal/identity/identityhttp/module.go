package identityhttp

import (
	"sallyport/internal/identity"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
)

// Module returns all that the team, its people and its keys bring to the process.
func Module(svc *identity.Service) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { Mount(api, svc) }
	return m
}
