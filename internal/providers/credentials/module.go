package credentials

import "sallyport/internal/platform/module"

// Module returns what credentials bring to the process.
func (v *Vault) Module() module.Module {
	return module.Module{
		Name: "providers/credentials",
		Tables: []module.Table{{Name: "connection_credentials", Contents: "connections"},
			{Name: "connection_credential_values"}},
		Sealed: SealedColumns(),
		Caches: []module.Cache{{Name: "credentials", Refresh: v.Refresh, Drop: v.cache.DropAll}},
	}
}
