package events

import (
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// Store reads and writes events. Methods that take a transaction belong to the caller's.
type Store struct {
	db         *db.DB
	deliveries DeliveryFilter
	retention  Retention
	clock      clock.Clock
	// readTimeout bounds a list, in a field for the tests.
	readTimeout time.Duration
}

// DeliveryFilter turns the filters of a list that ask about deliveries into a condition on an event's uuid.
// internal/webhooks/deliveries provides it.
type DeliveryFilter interface {
	// Where returns a condition on the column named, with placeholders from $next on, and its arguments. Exactly the
	// non-empty fields restrict.
	Where(column string, f DeliveryCriteria, next int) (condition string, args []any)
}

// DeliveryCriteria are the filters of a list that ask about an event's deliveries.
type DeliveryCriteria struct {
	SubscriptionIDs []string
	HTTPStatuses    []int
	ErrorCodes      []string
}

// Config is what a Store is made from.
type Config struct {
	DB         *db.DB
	Deliveries DeliveryFilter
	// Retention knows how long environments keep things; nil keeps everything.
	Retention Retention
	// Clock may be nil, which means the system's.
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
