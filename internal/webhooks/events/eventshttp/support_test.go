package eventshttp_test

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/httpapitest"
	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/events/eventshttp"
	"sallyport/internal/webhooks/subscriptions"
)

const path = "/api/v1/webhook-events"

// started is when the clock of every test begins.
const started = 1_750_000_000_123

// server is the API over a database that tests fill through the stores.
type server struct {
	httpapitest.Client

	store  testkit.Store
	events *events.Store
	dl     *deliveries.Service
	clock  *clock.Manual
	env    id.Environment
	other  id.Environment
	// uuids are those of what the tests store.
	uuids func() string
}

func newServer(t *testing.T, store testkit.Store) *server {
	t.Helper()
	s := &server{store: store, clock: clock.NewManual(time.UnixMilli(started)),
		env: id.Environment(id.New(id.PrefixEnvironment)), other: id.Environment(id.New(id.PrefixEnvironment))}
	s.uuids = testkit.UUIDs(s.clock.Now())
	s.events = events.New(events.Config{DB: store.DB, Deliveries: deliveries.Filter{}})
	client := egress.New(egress.Policy{}, egress.Options{})
	t.Cleanup(client.Close)
	log := slog.New(slog.DiscardHandler)
	s.dl = deliveries.New(deliveries.Config{
		Store:         deliveries.NewStore(deliveries.StoreConfig{DB: store.DB, Events: s.events}),
		Subscriptions: enabled{}, Client: client, Clock: s.clock, Logger: log, Batches: obs.NewBatches(),
		Options: deliveries.Options{Concurrency: 1, PerSubscription: 1, PerHost: 1, Lease: time.Minute, Node: "test"}})
	key := func(env id.Environment, routes ...access.Route) httpapitest.Key {
		return httpapitest.Key{Environment: env, Grants: access.Open(routes...)}
	}
	api := httpapi.New(httpapi.Config{Version: "test", Logger: log, Clock: s.clock,
		Auth: httpapitest.Callers{Keys: map[string]httpapitest.Key{
			"events": key(s.env, access.RouteEvents), "webhooks": key(s.env, access.RouteWebhooks, access.RouteEvents),
			"connections": key(s.env, access.RouteConnections), "foreign": key(s.other, access.Routes()...)}}})
	eventshttp.Mount(api, s.events, s.dl, nil)
	s.Client = httpapitest.Client{API: api, Environment: s.env}
	return s
}

// event is an event of the test's environment with a JSON body; change may alter it before it is stored.
func (s *server) event(t *testing.T, change func(e *events.NewEvent)) string {
	t.Helper()
	e := events.NewEvent{Event: events.Event{
		UUID: s.uuids(), Environment: s.env, ConnectionUUID: id.NewUUID(), ConnectionID: "acme", Provider: "github",
		ProviderConfigKey: "github-eu", Type: "issues.opened", IdempotencyKey: "a,b",
		IdempotencySource: "header:x-github-delivery", Verification: `{"result":"verified","scheme":"hmac","key_id":""}`,
		ContentType: "application/json", BodySize: 2, ReceivedAt: s.clock.Now(),
	}, Payload: &events.Payload{Headers: `{"x-a":"b"}`, Body: []byte(`{}`), Encoding: events.JSON}}
	if change != nil {
		change(&e)
	}
	require.NoError(t, s.store.DB.Tx(t.Context(), func(tx *sql.Tx) error {
		if e.DuplicateOf == nil {
			_, err := events.NewKeys(s.store.DB).Claim(t.Context(), tx,
				[]*events.Key{{ConnectionUUID: e.ConnectionUUID, Hash: events.HashID(e.IdempotencyKey), EventUUID: e.UUID,
					ExpiresMillis: events.KeyForever}}, started)
			if err != nil {
				return err
			}
		}
		_, err := s.store.DB.ExecAll(t.Context(), tx, events.Insert([]events.NewEvent{e})...)
		return err
	}))
	return e.UUID
}

// delivery stores an event's only delivery, pending, and returns its subscription.
func (s *server) delivery(t *testing.T, eventUUID string) string {
	t.Helper()
	subscription := id.New(id.PrefixSubscription)
	require.NoError(t, s.store.DB.Tx(t.Context(), func(tx *sql.Tx) error {
		_, err := s.store.DB.ExecAll(t.Context(), tx, deliveries.Insert([]deliveries.Delivery{{
			Key: deliveries.Key{EventUUID: eventUUID, SubscriptionID: subscription}, ID: id.NewUUID(), Environment: s.env,
			Status: deliveries.Pending, Generation: 1, Due: s.clock.Now(), CreatedAt: s.clock.Now()}}))
		return err
	}))
	return subscription
}

// exec changes rows in a way that only workers do otherwise.
func (s *server) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	_, err := s.store.DB.Write().ExecContext(t.Context(), query, args...)
	require.NoError(t, err)
}

// uuidsOf returns the events of a list, in its order.
func uuidsOf(t *testing.T, r httpapitest.Response) []string {
	t.Helper()
	require.Equal(t, http.StatusOK, r.Status, "%s", r.Body)
	var rows []struct {
		EventUUID string `json:"event_uuid"`
	}
	r.Into(t, &rows)
	list := []string{}
	for _, row := range rows {
		list = append(list, row.EventUUID)
	}
	return list
}

// get sends a GET request with a key that may only read events.
func (s *server) get(t *testing.T, target string) httpapitest.Response {
	t.Helper()
	return s.Do(t, "events", http.MethodGet, target, "")
}

// enabled knows every subscription, and all are enabled.
type enabled struct{}

func (enabled) Get(_ context.Context, v access.View, subscriptionID string) (subscriptions.Subscription, error) {
	return subscriptions.Subscription{ID: subscriptionID, Environment: v.Environment, EventTypes: []string{"*"}}, nil
}

func (enabled) Target(_ context.Context, env id.Environment, subscriptionID string) (*subscriptions.Target, error) {
	return &subscriptions.Target{ID: subscriptionID, Environment: env, Enabled: true}, nil
}

func (enabled) TypeRules(context.Context, id.Environment, subscriptions.Origin) (eventtypes.Rules, error) {
	return eventtypes.Rules{}, nil
}

func (enabled) Warnings(context.Context, *subscriptions.Subscription) []subscriptions.Warning {
	return nil
}

func (enabled) TestedTypes(context.Context, *subscriptions.Subscription, string) []subscriptions.TestedType {
	return nil
}

func (enabled) Disable(context.Context, id.Environment, string, string) error { return nil }
