package e2e_test

import (
	"net/http"
)

// Audit covers the audit trail.
func (capabilities) Audit() capability {
	return capability{
		samples: func(*world, fixtures) []sample {
			return []sample{
				{id: "list-audit-events", status: http.StatusOK},
				{id: "export-audit-events", status: http.StatusOK},
			}
		},
		lists: map[string]map[string]string{"list-audit-events": {
			"environment_id": ownEnvironment, "actor_type": "user", "actor_id": "usr_x", "action": "team.*",
			"outcome": "success", "target_type": "team", "target_id": "team_x", "request_id": "r",
			"time_after": "2020-01-01T00:00:00Z", "time_before": "2030-01-01T00:00:00Z",
		}},
	}
}
