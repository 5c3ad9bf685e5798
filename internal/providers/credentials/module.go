package credentials

import (
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/module"
)

// Module returns what credentials bring to the process.
func (v *Vault) Module() module.Module {
	return module.Module{
		Name: "providers/credentials",
		Tables: []module.Table{
			{Name: "connection_credentials", Outlives: "its rows are parts of connections, which are counted"},
			{Name: "connection_credential_values"},
		},
		Sealed: SealedColumns(),
		Caches: []module.Cache{{Name: "credentials", Refresh: db.InTime(v.Refresh), Drop: v.cache.DropAll}},
	}
}
