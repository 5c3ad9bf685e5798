package replayshttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
	"sallyport/internal/webhooks/replays"
)

// Module returns the module of bulk replays with their operations.
func Module(svc *replays.Service) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { mount(api, svc) }
	return m
}
