package ingesthttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
	"sallyport/internal/webhooks/ingest"
)

// Module returns the module of ingest with its endpoint and operation.
func Module(svc *ingest.Service) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { Mount(api, svc, svc, svc) }
	return m
}
