package accesstokens

import "sallyport/internal/platform/module"

// Module returns what access tokens bring to the process, without their operations.
func (*Service) Module() module.Module {
	return module.Module{
		Name:   "identity/accesstokens",
		Tables: []module.Table{{Name: "signing_keys"}},
		Sealed: sealedColumns(),
	}
}
