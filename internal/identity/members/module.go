package members

import "sallyport/internal/platform/module"

// Module returns what members and their roles bring to the process, without their operations.
func (*Service) Module() module.Module {
	return module.Module{
		Name: "identity/members",
		Tables: []module.Table{{Name: "users"}, {Name: "memberships"}, {Name: "roles"},
			{Name: "role_bindings", Outlives: "ForgetEnvironment deletes them with the environment"}},
	}
}
