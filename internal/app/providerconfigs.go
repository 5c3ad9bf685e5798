package app

import (
	"net/url"
	"slices"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/outbound"
)

// ProviderConfigs are what NewProviderConfigs needs of the process.
type ProviderConfigs struct {
	DB           *db.DB
	Clock        clock.Clock
	Box          *secretbox.Box
	Providers    configs.Providers
	Environments configs.Environments
	Client       *egress.Client
	// OnConnectionChange returns the hooks of the connections that another OAuth client changes; nil for none.
	OnConnectionChange func() []connections.ChangeHook
}

// NewProviderConfigs returns the provider configurations of a database, for servers and commands alike: the rules and
// the hooks are the same.
func NewProviderConfigs(c ProviderConfigs) *configs.Service {
	halves := outboundHalves{c.Providers}
	watch := connections.ClientWatch{Clock: c.Clock, UsesClient: halves.usesClient, OnChange: c.OnConnectionChange}
	if watch.OnChange == nil {
		watch.OnChange = func() []connections.ChangeHook { return nil }
	}
	return configs.New(configs.Options{DB: c.DB, Clock: c.Clock, Box: c.Box, Providers: c.Providers,
		Environments: c.Environments, Targets: c.Client, Hosts: halves,
		Clients: halves, OnClientChange: []configs.ClientHook{watch.Changed},
		Connections: connections.CountOfConfig, RateLimits: true})
}

// outboundHalves knows how the APIs of providers are called.
type outboundHalves struct{ providers configs.Providers }

// UsesClient implements configs.Clients.
func (h outboundHalves) UsesClient(slug string) bool {
	p, ok := h.providers.Get(slug)
	return ok && p.Outbound != nil && slices.ContainsFunc(p.Outbound.Modes(), func(m *outbound.Mode) bool {
		return m.Client
	})
}

// usesClient reports whether the tokens of a provider's mode belong to the OAuth client.
func (h outboundHalves) usesClient(slug, mode string) bool {
	p, ok := h.providers.Get(slug)
	if !ok || p.Outbound == nil {
		return false
	}
	m, ok := p.Outbound.Mode(mode)
	return ok && m.Client
}

// HostsOf implements configs.Hosts. The policy of outgoing requests decides about http://.
func (h outboundHalves) HostsOf(slug string) (known bool, allowed func(*url.URL) bool) {
	p, ok := h.providers.Get(slug)
	if !ok || p.Outbound == nil {
		return false, nil
	}
	return true, func(u *url.URL) bool { return p.Outbound.AllowsURL(u, true) }
}
