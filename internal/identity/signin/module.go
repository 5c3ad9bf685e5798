package signin

import (
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
)

// Module returns what signing in brings to the process, without its operations.
func (s *Service) Module() module.Module {
	return module.Module{
		Name: "identity/signin",
		Tables: []module.Table{
			{Name: "sessions"},
			{Name: "sign_in_failures"},
			{Name: "user_totp"},
			{Name: "user_recovery_codes"},
			{Name: "user_identities"},
			{Name: "password_reset_requests"},
			{Name: "password_resets"},
		},
		Sealed: sealedColumns(),
		Jobs: []jobs.Periodic{{Name: "send-password-resets", Part: role.Working, Run: s.SendResets,
			Failure: "cannot respond to requests to reset passwords"}},
	}
}
