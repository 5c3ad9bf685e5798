package app

import (
	"context"
	"log/slog"
	"time"

	"sallyport/internal/webhooks/events/eventshttp"
	"sallyport/internal/webhooks/eventstream"
)

func (a *App) newStream() *eventstream.Service {
	return eventstream.New(eventstream.Config{DB: a.store.DB, Events: a.events, Attempts: a.deliveries.Store(),
		Identity: a.store.Identity, Clock: a.clock, Logger: a.log, Metrics: a.metrics, Data: eventshttp.StreamData,
		Options: eventstream.Options{MaxReaders: a.cfg.StreamMaxReaders,
			MaxPerEnvironment: a.cfg.StreamMaxReadersPerEnvironment}})
}

// trimInterval is how often the log of events is cut to what readers of the stream may come back to.
const trimInterval = 30 * time.Second

func (a *App) trimLog(ctx context.Context) time.Duration {
	if err := a.events.TrimLog(ctx, a.clock.Now()); err != nil && ctx.Err() == nil {
		a.log.ErrorContext(ctx, "the log of events could not be cut", slog.String("error", err.Error()))
	}
	return trimInterval
}
