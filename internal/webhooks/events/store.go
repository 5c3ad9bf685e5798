package events

import (
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// Store reads events and their payloads. Methods with a transaction belong to the caller's.
type Store struct {
	db         *db.DB
	deliveries DeliveryFilter
	retention  Retention
	clock      clock.Clock
	// readTimeout limits a list. It is a field for the tests.
	readTimeout time.Duration
}

// DeliveryFilter turns the filters on deliveries into a condition on an event's uuid. internal/webhooks/deliveries
// provides it.
type DeliveryFilter interface {
	// Where returns a condition on the named column, with placeholders from $next on, and its arguments. Empty fields do
	// not restrict.
	Where(column string, f DeliveryCriteria, next int) (condition string, args []any)
}

// DeliveryCriteria filters events by their deliveries.
type DeliveryCriteria struct {
	SubscriptionIDs []string
	HTTPStatuses    []int
	ErrorCodes      []string
}

// Config holds the dependencies of a Store.
type Config struct {
	DB         *db.DB
	Deliveries DeliveryFilter
	// Retention is nil if everything is kept.
	Retention Retention
	// Clock is nil for the system's clock.
	Clock clock.Clock
}

// New returns a Store.
func New(c Config) *Store {
	s := &Store{db: c.DB, deliveries: c.Deliveries, retention: c.Retention, clock: c.Clock, readTimeout: readTimeout}
	if s.retention == nil {
		s.retention = unlimited{}
	}
	if s.clock == nil {
		s.clock = clock.System()
	}
	return s
}
