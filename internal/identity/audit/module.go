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
		Tables: []module.Table{
			{Name: "audit_events", Outlives: "the trail of a deleted environment is kept"},
		},
		Jobs: []jobs.Periodic{{Name: "number-audit-events", Run: jobs.Every(sealInterval, s.Seal),
			Failure: "cannot number audit events"}},
	}
}
