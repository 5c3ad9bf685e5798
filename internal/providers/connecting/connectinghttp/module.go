package connectinghttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
	"sallyport/internal/providers/connecting"
)

// Module returns the module of links with their pages.
func Module(svc *connecting.Service, publicURL string) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { mount(api, svc, publicURL) }
	return m
}
