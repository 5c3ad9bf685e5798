package audithttp

import (
	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
)

// Module returns the module of the audit trail with its operations.
func Module(svc *audit.Store, environments Environments, principals Principals) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { mount(api, svc, environments, principals) }
	return m
}
