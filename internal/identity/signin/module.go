package signin

import (
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
)

// Module returns what signing in brings to the process, without its operations.
func (s *Service) Module() module.Module {
	return module.Module{
		Name:   "identity/signin",
		Sealed: SealedColumns(),
		Jobs: []jobs.Periodic{{Name: "send-password-resets", Run: s.AnswerResets,
			Failure: "cannot respond to requests to reset passwords"}},
	}
}
