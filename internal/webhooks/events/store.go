package events

import (
	"context"
	"slices"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/eventtypes"
)

// Store reads events and their payloads. Methods with a transaction belong to the caller's.
type Store struct {
	db         *db.DB
	deliveries DeliveryFilter
	retention  Retention
	clock      clock.Clock
	types      eventtypes.Source
	own        *eventtypes.Provider
	configs    Configs
	// readTimeout and searchTime limit a list, and window is how many events its first query looks at. They are fields for
	// the tests.
	readTimeout, searchTime, windowLimit time.Duration
	window                               int
}

// DeliveryFilter turns the filters on deliveries into a condition on an event's uuid. internal/webhooks/deliveries
// provides it.
type DeliveryFilter interface {
	// Where returns a condition on the named column, with placeholders from $next on, and its arguments. Empty fields do
	// not restrict. Deliveries that the view does not show meet no condition.
	Where(v access.View, column string, f DeliveryCriteria, next int) (condition string, args []any)
	// Of returns the table of the deliveries to a subscription of the environment, the column with the uuid of the event,
	// and the condition, with ? for its arguments. An index has them in the order of that column.
	Of(env id.Environment, subscriptionID string) (from, column, condition string, args []any)
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
	// Types says how providers write their types; nil if none does so in a way of its own.
	Types eventtypes.Source
	// OwnTypes are the types of the gateway's own events.
	OwnTypes []string
	// Configs knows the provider configurations; nil if the only one of each provider is its slug.
	Configs Configs
}

// Configs knows the provider configurations of environments, from memory.
type Configs interface {
	// KeysOf returns the keys of the provider's configurations in an environment.
	KeysOf(ctx context.Context, env id.Environment, slug string) ([]string, error)
}

// New returns a Store.
func New(c Config) *Store {
	s := &Store{db: c.DB, deliveries: c.Deliveries, retention: c.Retention, clock: c.Clock, types: c.Types,
		configs: c.Configs, own: &eventtypes.Provider{Slug: OwnProvider, Name: "Sallyport"},
		readTimeout: readTimeout, searchTime: searchTime, windowLimit: windowLimit, window: firstWindow}
	for _, name := range c.OwnTypes {
		s.own.Known = append(s.own.Known, eventtypes.Known{Written: name, Type: name})
	}
	if s.retention == nil {
		s.retention = unlimited{}
	}
	if s.clock == nil {
		s.clock = clock.System()
	}
	return s
}

// EventTypes returns what is known of the types of providers, and the gateway's own types.
func (s *Store) EventTypes() []*eventtypes.Provider {
	return append(slices.Clone(eventtypes.All(s.types)), s.own)
}

// CheckTypes returns a validation error at the location if one of a filter's types is no pattern, neither as it is nor
// as any provider writes it.
func (s *Store) CheckTypes(location string, types []string) error {
	for _, t := range types {
		if len(eventtypes.Forms(s.types, t)) == 0 {
			return apperr.Invalid(apperr.Detail{Location: location, Rule: "pattern", Message: "* must be a whole segment"})
		}
	}
	return nil
}
