package connectionshttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
	"sallyport/internal/providers/connections"
)

// Module returns all that connections bring to the process.
func Module(svc *connections.Service, publicURL string) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { Mount(api, svc, publicURL) }
	return m
}
