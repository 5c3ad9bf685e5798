package configs

import (
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/module"
)

// Module returns what provider configurations bring to the process, without their operations.
func (s *Service) Module() module.Module {
	return module.Module{
		Name:     "providers/configs",
		Tables:   []module.Table{{Name: table, Contents: table}},
		Sealed:   sealedColumns(),
		Caches:   []module.Cache{{Name: "provider configurations", Refresh: db.InTime(s.Refresh), Drop: s.known.DropAll}},
		Contents: []module.Content{{Name: table, Held: holdsConfigs}},
	}
}
