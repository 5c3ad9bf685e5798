package configshttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
	"sallyport/internal/providers/configs"
)

// Module returns the module of provider configurations with their operations. publicURL is the URL at which browsers
// reach the service, without a path.
func Module(svc *configs.Service, publicURL string) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { mount(api, svc, publicURL) }
	return m
}
