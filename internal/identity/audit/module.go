package audit

import (
	"time"

	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
)

// sealInterval bounds how long an event waits for its number.
const sealInterval = time.Second

// Module returns what the audit trail brings to the process, without its operations.
func (s *Store) Module() module.Module {
	return module.Module{
		Name: "identity/audit",
		Jobs: []jobs.Periodic{{Name: "number-audit-events", Run: jobs.Every(sealInterval, s.Seal),
			Failure: "cannot number audit events"}},
	}
}
