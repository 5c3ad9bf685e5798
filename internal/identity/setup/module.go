package setup

import (
	"sallyport/internal/identity/installation"
	"sallyport/internal/platform/module"
)

// Module returns what setting up brings to the process, without its operations.
func (*Service) Module() module.Module {
	return module.Module{
		Name:   "identity/setup",
		Tables: []module.Table{{Name: "setup_tokens"}},
		Sealed: installation.SealedColumns(),
	}
}
