package connectionshttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
	"sallyport/internal/providers/connecting"
	"sallyport/internal/providers/connections"
)

// Module returns the module of connections with their operations.
func Module(svc *connections.Service, links *connecting.Service, publicURL string) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { Mount(api, svc, links, publicURL) }
	return m
}
