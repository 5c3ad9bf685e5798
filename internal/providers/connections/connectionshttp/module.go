package connectionshttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
	"sallyport/internal/providers/connections"
)

// Module returns the module of connections with their operations.
func Module(svc *connections.Service, publicURL string) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { Mount(api, svc, publicURL) }
	return m
}
