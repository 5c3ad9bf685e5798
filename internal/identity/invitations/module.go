package invitations

import "sallyport/internal/platform/module"

// Module returns what invitations bring to the process, without their operations.
func (*Service) Module() module.Module {
	return module.Module{
		Name:   "identity/invitations",
		Tables: []module.Table{{Name: "invitations", Outlives: "they cannot be accepted without their environment"}},
	}
}
