package team

import "sallyport/internal/platform/module"

// Module returns what the team and its environments bring to the process, without their operations.
func (s *Service) Module() module.Module {
	return module.Module{
		Name:   "identity/team",
		Tables: []module.Table{{Name: "teams"}, {Name: "environments"}},
		Caches: []module.Cache{{Name: "settings of environments", Refresh: s.Refresh, Drop: s.retention.DropAll}},
	}
}
