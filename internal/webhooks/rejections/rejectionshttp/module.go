package rejectionshttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
	"sallyport/internal/webhooks/rejections"
)

// Module returns all that refused requests bring to the process.
func Module(svc *rejections.Service) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { mount(api, svc) }
	return m
}
