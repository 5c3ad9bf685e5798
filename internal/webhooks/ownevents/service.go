package ownevents

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/connections"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/filters"
	"sallyport/internal/webhooks/subscriptions"
)

// Subscriptions are those of an environment that select the gateway's own events, as a transaction finds them.
type Subscriptions interface {
	// Wanted reports whether a subscription has a pattern for the gateway's own events.
	Wanted() bool
	// Match returns the subscriptions that match an own event. Filters are not evaluated.
	Match(providerConfigKey, connectionID, eventType string) []subscriptions.Matched
	// ConnectionOf returns the connection that the subscription is limited to; empty for one to all connections.
	ConnectionOf(subscriptionID string) string
}

// Events knows which events concern others.
type Events interface {
	// Origins returns the origins of events by uuid, in the transaction tx. Unknown events are not in the map.
	Origins(ctx context.Context, tx db.Querier, env id.Environment, uuids []string) (map[string]events.Origin, error)
}

// Config holds the dependencies of a Service.
type Config struct {
	DB     *db.DB
	Events Events
	// Subscriptions returns those of the environment. It reads in the transaction tx.
	Subscriptions func(ctx context.Context, tx db.Querier, env id.Environment) (Subscriptions, error)
	Clock         clock.Clock
	Evaluations   *filters.Evaluations
}

// Service emits the gateway's own events. It is safe for concurrent use.
type Service struct {
	db          *db.DB
	events      Events
	subs        func(ctx context.Context, tx db.Querier, env id.Environment) (Subscriptions, error)
	clock       clock.Clock
	evaluations *filters.Evaluations
}

// New returns a Service.
func New(c Config) *Service {
	return &Service{db: c.DB, events: c.Events, subs: c.Subscriptions, clock: c.Clock, evaluations: c.Evaluations}
}

// own is an event before it is stored.
type own struct {
	environment id.Environment
	subs        Subscriptions
	kind        Type
	// about is the connection that the event belongs to. Without one it belongs to the whole environment.
	about events.Origin
	data  any
}

// maxFilterCost limits the cost of an environment's filters for the events of one transaction, in the units of filters:
// about 15 ms. The last filter may exceed it. No other writer can write meanwhile. Own events are small, so filters
// that read them cost a thousandth of that.
const maxFilterCost = filters.MaxCost / 2

// spent is the cost so far of the filters of environments in a transaction.
type spent map[id.Environment]uint64

// statements returns the statements that store the matched events, with their deliveries, which the workers find by
// polling. Events that no subscription matches are not stored, because the changes they report are recorded elsewhere.
func (s *Service) statements(list []own) ([]db.Statement, error) {
	var found []events.NewEvent
	var forwards deliveries.Forwards
	cost := spent{}
	for i := range list {
		event, matched, err := s.newEvent(&list[i], cost)
		if err == nil && len(matched) > 0 {
			event.Counters, err = forwards.Add(event.Environment, event.UUID, matched, maxFirst, event.ReceivedAt)
			found = append(found, event)
		}
		if err != nil {
			return nil, fmt.Errorf("create an event of type %s: %w", list[i].kind, err)
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	return append(events.Insert(found), forwards.Statements()...), nil
}

// maxFirst is how many deliveries of each event its own transaction stores, which can store many events; a worker
// stores the rest.
const maxFirst = 10

// newEvent returns the event with the subscriptions that get it.
func (s *Service) newEvent(o *own, cost spent) (e events.NewEvent, matched []subscriptions.Matched, err error) {
	now := s.clock.Now()
	key := o.about.ProviderConfigKey
	if key == "" {
		key = events.OwnProvider
	}
	found := o.subs.Match(key, o.about.ConnectionID, string(o.kind))
	if len(found) == 0 {
		return e, nil, nil
	}
	data, err := json.Marshal(o.data)
	if err != nil {
		return e, nil, fmt.Errorf("encode the payload: %w", err)
	}
	payload := events.Payload{Headers: "{}", Body: data, Encoding: events.JSON}
	uuid := id.NewUUID()
	e = events.NewEvent{Payload: &payload, Event: events.Event{
		UUID: uuid, Environment: o.environment, ConnectionUUID: o.about.ConnectionUUID, ConnectionID: o.about.ConnectionID,
		Provider: events.OwnProvider, ProviderConfigKey: key, Type: string(o.kind), IdempotencyKey: uuid,
		IdempotencySource: events.SourceEvent, Verification: `{"result":"verified","scheme":"sallyport","key_id":""}`,
		ContentType: "application/json", BodySize: int64(len(data)), ReceivedAt: now,
	}}
	seen := filters.NewEvent(&e.Event, &payload)
	for _, m := range found {
		if m.Filter == nil || s.evaluate(m.Filter, seen, o.environment, cost) {
			matched = append(matched, m)
		}
	}
	return e, matched, nil
}

// evaluate evaluates a filter. Once the filters of the environment have cost too much, it does not match.
func (s *Service) evaluate(f *filters.Filter, seen *filters.Event, env id.Environment, cost spent) bool {
	if cost[env] >= maxFilterCost {
		s.evaluations.Count(filters.Result{NotEvaluated: true}.Outcome())
		return false
	}
	r := f.Eval(seen)
	cost[env] += r.Cost
	s.evaluations.Count(r.Outcome())
	return r.Matches
}

// storeEvent stores one event in the transaction of the change it reports.
func (s *Service) storeEvent(ctx context.Context, tx *sql.Tx, o own) error {
	var err error
	if o.subs, err = s.subs(ctx, tx, o.environment); err != nil {
		return fmt.Errorf("create an event of type %s: %w", o.kind, err)
	}
	statements, err := s.statements([]own{o})
	if err != nil || len(statements) == 0 {
		return err
	}
	if _, err := s.db.ExecAll(ctx, tx, statements...); err != nil {
		return fmt.Errorf("store an event of type %s: %w", o.kind, err)
	}
	return nil
}

// Deliveries returns the statements that store the events about deliveries that have died or recovered. Deliveries of
// the gateway's own events emit none, because that could continue forever.
func (s *Service) Deliveries(ctx context.Context, tx db.Querier, ended []deliveries.Delivery) ([]db.Statement, error) {
	byEnvironment := map[id.Environment][]deliveries.Delivery{}
	for _, d := range ended {
		byEnvironment[d.Environment] = append(byEnvironment[d.Environment], d)
	}
	var list []own
	for env, ended := range byEnvironment {
		subs, err := s.subs(ctx, tx, env)
		if err != nil {
			return nil, err
		}
		if !subs.Wanted() {
			continue
		}
		uuids := make([]string, len(ended))
		for i, d := range ended {
			uuids[i] = d.EventUUID
		}
		origins, err := s.events.Origins(ctx, tx, env, uuids)
		if err != nil {
			return nil, err
		}
		for i := range ended {
			origin, known := origins[ended[i].EventUUID]
			if !known || origin.Own() {
				continue
			}
			limited := subs.ConnectionOf(ended[i].SubscriptionID) != ""
			event := aboutDelivery(&ended[i], origin, limited)
			event.subs = subs
			list = append(list, event)
		}
	}
	return s.statements(list)
}

// aboutDelivery returns the event about a delivery. It belongs to the connection of the delivery's event only if the
// subscription is limited to it. Otherwise only those may know of the subscription who may see the whole environment.
func aboutDelivery(d *deliveries.Delivery, origin events.Origin, limited bool) own {
	kind := DeliveryDeadLettered
	if d.Status == deliveries.Succeeded {
		kind = DeliveryRecovered
	}
	data := deliveryPayload{DeliveryID: d.ID, SubscriptionID: d.SubscriptionID, EventUUID: d.EventUUID,
		EventType: origin.Type, Provider: origin.Provider, ProviderConfigKey: origin.ProviderConfigKey,
		Generation: d.Generation, AttemptCount: d.AttemptCount}
	if origin.ConnectionID != "" {
		data.ConnectionID = &origin.ConnectionID
	}
	if d.CompletedAt != nil {
		data.CompletedAt = Time(*d.CompletedAt)
	}
	if f := d.LastFailure; f != nil {
		data.LastError = &failurePayload{f.Code, f.Message, f.HTTPStatus, Time(f.At)}
	}
	about := origin
	if !limited {
		about = events.Origin{ProviderConfigKey: origin.ProviderConfigKey}
	}
	return own{environment: d.Environment, kind: kind, about: about, data: data}
}

// SubscriptionDisabled stores the event about a subscription that the service has disabled.
func (s *Service) SubscriptionDisabled(ctx context.Context, tx *sql.Tx, sub *subscriptions.Subscription) error {
	return s.storeEvent(ctx, tx, own{environment: sub.Environment, kind: SubscriptionDisabled,
		data: Subscription{SubscriptionID: sub.ID, Description: sub.Description, Reason: sub.DisabledReason,
			DisabledAt: Time(sub.UpdatedAt)}})
}

// ConnectionChanged stores the event about a change of a connection.
func (s *Service) ConnectionChanged(ctx context.Context, tx *sql.Tx, c *connections.Connection,
	change connections.ChangeKind) error {
	kinds := map[connections.ChangeKind]Type{
		connections.Created: ConnectionCreated, connections.Updated: ConnectionUpdated,
		connections.WasDisabled: ConnectionDisabled, connections.WasEnabled: ConnectionEnabled,
		connections.Deleted: ConnectionDeleted, connections.Connected: ConnectionConnected,
		connections.Reconnected: ConnectionConnected, connections.LostCredentials: ConnectionNeedsReauth,
		connections.Recovered: ConnectionRecovered, connections.HealthChanged: ConnectionHealthChanged,
		connections.HasExpired: ConnectionExpired, connections.Fails: ConnectionError,
		connections.WasRevoked: ConnectionRevoked,
	}
	var data any = payloadOf(c)
	if kinds[change] == ConnectionConnected {
		data = connectedPayload{payloadOf(c), change == connections.Reconnected}
	}
	return s.storeEvent(ctx, tx, aboutConnection(c, kinds[change], data))
}

// ConnectFailed stores the event about an attempt to connect a connection that failed. It is a connections.FailureHook.
func (s *Service) ConnectFailed(ctx context.Context, tx *sql.Tx, c *connections.Connection, reason string) error {
	return s.storeEvent(ctx, tx, aboutConnection(c, ConnectionConnectFailed, connectFailedPayload{payloadOf(c), reason}))
}

func aboutConnection(c *connections.Connection, kind Type, data any) own {
	return own{environment: c.Environment, kind: kind, data: data,
		about: events.Origin{ProviderConfigKey: c.ProviderConfigKey, ConnectionID: c.ConnectionID, ConnectionUUID: c.UUID}}
}

// payloadOf returns what every event about a connection has. It has no metadata, which may be about people.
func payloadOf(c *connections.Connection) connectionPayload {
	p := connectionPayload{ConnectionUUID: c.UUID, Provider: c.Provider, ProviderConfigKey: c.ProviderConfigKey,
		ConnectionID: c.ConnectionID, Status: string(c.Status), AuthMode: c.AuthMode, Tags: c.Tags}
	if c.StatusReason != "" {
		p.StatusReason = &c.StatusReason
	}
	if c.Health != nil {
		p.Health = (*string)(&c.Health.Status)
	}
	if c.Account.ID != "" {
		p.Account = &accountPayload{ID: c.Account.ID}
		if c.Account.Label != "" {
			p.Account.Label = &c.Account.Label
		}
	}
	if c.Credentials != nil {
		p.Scopes = &scopesPayload{Requested: c.Credentials.ScopesRequested, Granted: c.Credentials.ScopesGranted}
	}
	return p
}
