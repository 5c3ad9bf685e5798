package eventshttp_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/testkit"
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
	api    *httpapi.API
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
	s.api = httpapi.New(httpapi.Config{Version: "test", Logger: log, Clock: s.clock, Auth: authenticator{s}})
	eventshttp.Mount(s.api, s.events, s.dl, nil)
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

// answer is a recorded answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) into(t *testing.T, v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(a.body, v), "%s", a.body)
}

// object returns the answer's JSON object.
func (a answer) object(t *testing.T) map[string]any {
	t.Helper()
	require.Less(t, a.status, 300, "%s", a.body)
	var o map[string]any
	a.into(t, &o)
	return o
}

// uuids returns the events of a list's answer, in its order.
func (a answer) uuids(t *testing.T) []string {
	t.Helper()
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	var rows []struct {
		EventUUID string `json:"event_uuid"`
	}
	a.into(t, &rows)
	list := []string{}
	for _, r := range rows {
		list = append(list, r.EventUUID)
	}
	return list
}

// violation returns the code of an error answer and its details as "location rule".
func (a answer) violation(t *testing.T) (code string, details []string) {
	t.Helper()
	var e struct {
		Error struct {
			Code    string
			Details []apperr.Detail
		}
	}
	a.into(t, &e)
	for _, d := range e.Error.Details {
		details = append(details, d.Location+" "+d.Rule)
	}
	return e.Error.Code, details
}

// get asks with a key that may only read events.
func (s *server) get(t *testing.T, target string) answer {
	t.Helper()
	return s.do(t, "events", http.MethodGet, target, "")
}

// do sends a request with an API key ("events", "webhooks", "connections", "foreign") or as a user ("developer",
// "viewer").
func (s *server) do(t *testing.T, as, method, target, body string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, bytes.NewBufferString(body))
	switch as {
	case "developer", "viewer":
		r.Header.Set("Authorization", "Bearer "+as)
		r.Header.Set("Environment-Id", string(s.env))
	default:
		r.Header.Set("API-Key", as)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.Bytes()}
}

// authenticator knows the credentials that do sends.
type authenticator struct{ s *server }

func (a authenticator) APIKey(_ context.Context, key, _ string) (access.Principal, error) {
	p := access.Principal{Kind: access.KindAPIKey, ID: "key_" + key, Environment: a.s.env,
		Grants: access.Open(access.Route(key))}
	if key == "foreign" {
		p.Environment, p.Grants = a.s.other, access.Open(access.Routes()...)
	}
	if key == "webhooks" {
		p.Grants = access.Open(access.RouteWebhooks, access.RouteEvents)
	}
	return p, nil
}

func (a authenticator) Bearer(_ context.Context, token string) (access.Principal, error) {
	return access.Principal{Kind: access.KindUser, ID: "usr_" + token, Name: token, Rights: access.Role(token).Rights()},
		nil
}

func (a authenticator) Environment(context.Context, access.Principal, string) (id.Environment, error) {
	return a.s.env, nil
}

// enabled knows every subscription, and all are enabled.
type enabled struct{}

func (enabled) Get(_ context.Context, v access.View, subscriptionID string) (subscriptions.Subscription, error) {
	return subscriptions.Subscription{ID: subscriptionID, Environment: v.Environment, EventTypes: []string{"*"}}, nil
}

func (enabled) Target(_ context.Context, env id.Environment, subscriptionID string) (*subscriptions.Target, error) {
	return &subscriptions.Target{ID: subscriptionID, Environment: env, Enabled: true}, nil
}

func (enabled) Disable(context.Context, id.Environment, string, string) error { return nil }
