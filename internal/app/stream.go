package app

import (
	"sallyport/internal/webhooks/events/eventshttp"
	"sallyport/internal/webhooks/eventstream"
)

func (a *App) newStream() *eventstream.Service {
	return eventstream.New(eventstream.Config{DB: a.store.DB, Events: a.events, Attempts: a.deliveries.Store(),
		Identity: a.store.Identity, Clock: a.clock, Logger: a.log, Metrics: a.metrics, Data: eventshttp.StreamData,
		Options: eventstream.Options{MaxReaders: a.cfg.StreamMaxReaders,
			MaxPerEnvironment: a.cfg.StreamMaxReadersPerEnvironment}})
}
