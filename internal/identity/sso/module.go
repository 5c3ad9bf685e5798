package sso

import "sallyport/internal/platform/module"

// Module returns what sign-in by identity providers brings to the process, without its operations.
func (*Service) Module() module.Module {
	return module.Module{
		Name:   "identity/sso",
		Tables: []module.Table{{Name: "sso_providers"}, {Name: "sso_sign_ins"}},
		Sealed: sealedColumns(),
	}
}
