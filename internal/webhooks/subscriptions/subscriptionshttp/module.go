package subscriptionshttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
	"sallyport/internal/webhooks/subscriptions"
)

// Module returns the module of subscriptions with their operations.
func Module(svc *subscriptions.Service) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { Mount(api, svc) }
	return m
}
