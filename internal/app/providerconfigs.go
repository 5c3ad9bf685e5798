package app

import (
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
	return configs.New(configs.Options{DB: c.DB, Clock: c.Clock, Box: c.Box, Providers: c.Providers,
		Environments: c.Environments, Targets: c.Client, Connections: connections.CountOfConfig})
}
