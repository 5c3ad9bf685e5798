package app

import (
	"net/url"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/imports"
)

// ProviderConfigs are what NewProviderConfigs needs of the process.
type ProviderConfigs struct {
	DB           *db.DB
	Clock        clock.Clock
	Box          *secretbox.Box
	Providers    *imports.Definitions
	Environments configs.Environments
	Client       *egress.Client
	// OnConnectionChange returns the hooks of the connections that another OAuth client changes. Without it a server
	// changes them.
	OnConnectionChange func() []connections.ChangeHook
}

// NewProviderConfigs returns the provider configurations of a database, for servers and commands alike: the rules and
// the hooks are the same.
func NewProviderConfigs(c ProviderConfigs) *configs.Service {
	halves := outboundHalves{c.Providers}
	return configs.New(configs.Options{DB: c.DB, Clock: c.Clock, Box: c.Box, Providers: c.Providers,
		Environments: c.Environments, Targets: c.Client, Hosts: halves, Imports: c.Providers,
		Clients: halves, OnAccessChange: []configs.AccessHook{c.configWatch().Changed},
		Connections: connections.CountOfConfig, RateLimits: true})
}

func (c *ProviderConfigs) configWatch() connections.ConfigWatch {
	return connections.ConfigWatch{Clock: c.Clock, ClientModes: outboundHalves{c.Providers}.clientModes,
		OnChange: c.OnConnectionChange}
}

// outboundHalves knows how the APIs of providers are called.
type outboundHalves struct{ providers configs.Providers }

// UsesClient implements configs.Clients.
func (h outboundHalves) UsesClient(env id.Environment, slug string) bool {
	return len(h.clientModes(env, slug)) > 0
}

// ClientModes returns the modes of a provider whose tokens belong to the OAuth client.
func ClientModes(providers configs.Providers, env id.Environment, slug string) []string {
	return outboundHalves{providers}.clientModes(env, slug)
}

// clientModes returns the modes of a provider whose tokens belong to the OAuth client.
func (h outboundHalves) clientModes(env id.Environment, slug string) (names []string) {
	p, ok := h.providers.Find(env, slug)
	if !ok || p.Outbound == nil {
		return nil
	}
	for _, m := range p.Outbound.Modes() {
		if m.Client {
			names = append(names, m.Name)
		}
	}
	return names
}

// HostsOf implements configs.Hosts. The policy of outgoing requests decides about http://.
func (h outboundHalves) HostsOf(env id.Environment, slug string) (known bool, allowed func(*url.URL) bool) {
	p, ok := h.providers.Find(env, slug)
	if !ok || p.Outbound == nil {
		return false, nil
	}
	return true, func(u *url.URL) bool { return p.Outbound.AllowsURL(u, true) }
}
