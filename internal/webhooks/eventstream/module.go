package eventstream

import (
	"context"

	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
)

// Module returns the parts of the process that the stream provides; eventshttp adds its operations to those of events.
func (s *Service) Module() module.Module {
	feed := module.Background("event-stream", s.run)
	feed.Part = role.Serving
	feed.Drain = func(context.Context) error {
		s.endStreams() // streams have no end of their own that requests could wait for
		return nil
	}
	return module.Module{
		Name: "webhooks/eventstream",
		Tables: []module.Table{
			{Name: "webhook_stream_tickets", Outlives: "a ticket lives for a minute"},
		},
		Metrics:  s.metrics.collectors(),
		Services: []module.Service{feed},
	}
}
