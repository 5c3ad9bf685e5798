package app

import (
	"net/url"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
)

// ProviderConfigs are what NewProviderConfigs needs of the process.
type ProviderConfigs struct {
	DB           *db.DB
	Clock        clock.Clock
	Box          *secretbox.Box
	Providers    configs.Providers
	Environments configs.Environments
	Client       *egress.Client
}

// NewProviderConfigs returns the provider configurations of a database, for servers and commands alike: the rules and
// the hooks are the same.
func NewProviderConfigs(c ProviderConfigs) *configs.Service {
	halves := outboundHalves{c.Providers}
	return configs.New(configs.Options{DB: c.DB, Clock: c.Clock, Box: c.Box, Providers: c.Providers,
		Environments: c.Environments, Targets: c.Client, Hosts: halves,
		Connections: connections.CountOfConfig})
}

// outboundHalves knows how the APIs of providers are called.
type outboundHalves struct{ providers configs.Providers }

// HostsOf implements configs.Hosts. The policy of outgoing requests decides about http://.
func (h outboundHalves) HostsOf(slug string) (known bool, allowed func(*url.URL) bool) {
	p, ok := h.providers.Get(slug)
	if !ok || p.Outbound == nil {
		return false, nil
	}
	return true, func(u *url.URL) bool { return p.Outbound.AllowsURL(u, true) }
}
