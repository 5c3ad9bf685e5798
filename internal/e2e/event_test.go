package e2e_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

// event is an event's detail, as far as the tests read it.
type event struct {
	EventUUID         string            `json:"event_uuid"`
	Provider          string            `json:"provider"`
	ProviderConfigKey string            `json:"provider_config_key"`
	ConnectionID      string            `json:"connection_id"`
	ConnectionUUID    string            `json:"connection_uuid"`
	EnvironmentID     string            `json:"environment_id"`
	EventType         string            `json:"event_type"`
	EventTypes        []string          `json:"event_types"`
	Status            string            `json:"status"`
	IdempotencyKey    string            `json:"idempotency_key"`
	IdempotencySource string            `json:"idempotency_source"`
	DuplicateOf       *string           `json:"duplicate_of"`
	Suspect           *string           `json:"suspect"`
	AttemptCount      int               `json:"attempt_count"`
	LastError         *failure          `json:"last_error"`
	Headers           map[string]string `json:"headers"`
	Body              json.RawMessage   `json:"body"`
	BodyEncoding      *string           `json:"body_encoding"`
	ContentType       string            `json:"content_type"`
	BodySize          int64             `json:"body_size"`
	PayloadExpired    bool              `json:"payload_expired"`
	PayloadExpiresAt  *time.Time        `json:"payload_expires_at"`
	ExpiresAt         time.Time         `json:"expires_at"`
	ReceivedAt        time.Time         `json:"received_at"`
	ForwardedAt       *time.Time        `json:"forwarded_at"`
	Deliveries        []delivery        `json:"deliveries"`
	Verification      struct {
		Result string  `json:"result"`
		KeyID  *string `json:"key_id"`
	} `json:"verification"`
}

type failure struct {
	Code           string    `json:"code"`
	Message        string    `json:"message"`
	HTTPStatus     *int      `json:"http_status"`
	SubscriptionID string    `json:"subscription_id"`
	At             time.Time `json:"at"`
}

type delivery struct {
	ID             string     `json:"id"`
	SubscriptionID string     `json:"subscription_id"`
	Status         string     `json:"status"`
	Generation     int        `json:"generation"`
	AttemptCount   int        `json:"attempt_count"`
	NextAttemptAt  *time.Time `json:"next_attempt_at"`
	LastHTTPStatus *int       `json:"last_http_status"`
	LastError      *failure   `json:"last_error"`
	CompletedAt    *time.Time `json:"completed_at"`
}

type attempt struct {
	SubscriptionID string    `json:"subscription_id"`
	Generation     int       `json:"generation"`
	Number         int       `json:"number"`
	Outcome        string    `json:"outcome"`
	StartedAt      time.Time `json:"started_at"`
	HTTPStatus     *int      `json:"http_status"`
	Error          *failure  `json:"error"`
	Request        struct {
		Headers map[string]string `json:"headers"`
	} `json:"request"`
	Response *struct {
		Status       int               `json:"status"`
		Headers      map[string]string `json:"headers"`
		Body         string            `json:"body"`
		BodyEncoding string            `json:"body_encoding"`
		Truncated    bool              `json:"truncated"`
	} `json:"response"`
}

func (w *world) event(uuid string) event {
	w.t.Helper()
	var e event
	w.call(w.dev(), http.MethodGet, "/webhook-events/"+uuid, nil).want(w, http.StatusOK).into(w, &e)
	return e
}

// events lists the environment's events, newest first.
func (w *world) events(query string) []event {
	w.t.Helper()
	var list []event
	w.call(w.dev(), http.MethodGet, "/webhook-events?limit=250"+query, nil).want(w, http.StatusOK).into(w, &list)
	return list
}

// attempts lists an event's attempts, oldest first.
func (w *world) attempts(uuid string) []attempt {
	w.t.Helper()
	var list []attempt
	w.call(w.dev(), http.MethodGet, "/webhook-events/"+uuid+"/attempts?order=asc", nil).want(w, http.StatusOK).into(w,
		&list)
	return list
}

// delivery returns the event's delivery to a subscription.
func (e event) delivery(w *world, subscriptionID string) delivery {
	w.t.Helper()
	i := slices.IndexFunc(e.Deliveries, func(d delivery) bool { return d.SubscriptionID == subscriptionID })
	require.GreaterOrEqual(w.t, i, 0, "the event has no delivery to the subscription")
	return e.Deliveries[i]
}

// awaitEvent waits, with the clock stopped, until the event has the status, and returns it.
func (w *world) awaitEvent(uuid, status string) event {
	w.t.Helper()
	var e event
	await.Condition(w.t, "event at "+status, func() bool {
		e = w.event(uuid)
		return e.Status == status
	})
	return e
}

// awaitDelivery waits, with the clock standing still, until the event's delivery to the subscription has the status.
func (w *world) awaitDelivery(uuid, subscriptionID, status string) delivery {
	w.t.Helper()
	var d delivery
	await.Condition(w.t, "delivery at "+status, func() bool {
		d = w.event(uuid).delivery(w, subscriptionID)
		return d.Status == status
	})
	return d
}
