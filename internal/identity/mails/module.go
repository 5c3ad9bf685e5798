package mails

import (
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
)

// Module returns what the queue of mails brings to the process. Without a mail server it sends nothing.
func (s *Service) Module() module.Module {
	m := module.Module{
		Name:    "identity/mails",
		Tables:  []module.Table{{Name: "mails"}},
		Sealed:  sealedColumns(),
		Metrics: s.metrics.collectors(), ShiftTimes: s.queue.ShiftTimes,
		Jobs: []jobs.Periodic{{Name: "expire-mails", Part: role.Working, Failure: "cannot delete expired mails",
			Run: jobs.Every(pollInterval, s.expire)}},
	}
	if s.Enabled() {
		m.Services = []module.Service{{Name: "mail-sender", Part: role.Working, Start: s.queue.Start, Drain: s.queue.Drain,
			Stop: s.stop}}
	}
	return m
}
