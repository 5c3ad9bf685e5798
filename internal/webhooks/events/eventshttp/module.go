package eventshttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/eventstream"
)

// Module returns the module of events with their operations.
func Module(svc *events.Store, dl *deliveries.Service, stream *eventstream.Service) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { Mount(api, svc, dl, stream) }
	return m
}
