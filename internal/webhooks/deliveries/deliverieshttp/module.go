package deliverieshttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// Module returns the module of deliveries with their operations.
func Module(svc *deliveries.Service, list *events.Store, subs *subscriptions.Service) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { mount(api, list, svc, subs) }
	return m
}
