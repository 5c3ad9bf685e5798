package rejectionshttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
	"sallyport/internal/webhooks/rejections"
)

// Module returns the module of rejections with their operation.
func Module(svc *rejections.Service) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { mount(api, svc) }
	return m
}
