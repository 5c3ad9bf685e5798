package cataloghttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
	"sallyport/internal/providers/catalog"
	"sallyport/internal/providers/imports"
)

// Module returns the module of imports with the operations on them and on the catalog.
func Module(c *catalog.Service, i *imports.Service) module.Module {
	m := i.Module()
	m.Mount = func(api *httpapi.API) { mount(api, c, i) }
	return m
}
