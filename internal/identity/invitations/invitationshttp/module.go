package invitationshttp

import (
	"sallyport/internal/identity/invitations"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/module"
)

// Module returns the module of invitations with their operations.
func Module(svc *invitations.Service) module.Module {
	m := svc.Module()
	m.Mount = func(api *httpapi.API) { mount(api, svc) }
	return m
}
