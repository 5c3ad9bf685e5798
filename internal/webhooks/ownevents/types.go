// Package ownevents stores the gateway's own events: what happens in the gateway and somebody may want to act on, as
// events that subscriptions take like those of a provider. See README.md.
package ownevents

import (
	"time"

	"sallyport/internal/platform/clock"
)

// Type is the type of an event of the gateway's own. The set is closed: typeInfos lists it.
type Type string

// The types.
const (
	// DeliveryDeadLettered: a delivery has died and is not tried again by itself.
	DeliveryDeadLettered Type = "sallyport.delivery.dead_lettered"
	// DeliveryRecovered: a delivery that had died was replayed and has succeeded.
	DeliveryRecovered Type = "sallyport.delivery.recovered"
	// SubscriptionDisabled: the service has disabled a subscription on its own account.
	SubscriptionDisabled Type = "sallyport.subscription.disabled"
	// ConnectionCreated and the following: somebody has changed a connection.
	ConnectionCreated  Type = "sallyport.connection.created"
	ConnectionUpdated  Type = "sallyport.connection.updated"
	ConnectionDisabled Type = "sallyport.connection.disabled"
	ConnectionEnabled  Type = "sallyport.connection.enabled"
	ConnectionDeleted  Type = "sallyport.connection.deleted"
)

// typeInfo describes a type. A test compares the reference page with it.
type typeInfo struct {
	Type Type
	// Summary says when the event is made.
	Summary string
	// Example is a payload; its type is that of every payload of the event.
	Example any
}

// typeInfos describes every type.
func typeInfos() []typeInfo {
	status, connection := 503, "acme-production"
	at := Time(time.Date(2030, 1, 31, 12, 0, 0, 250_000_000, time.UTC))
	delivery := deliveryPayload{
		DeliveryID: "01939a4e-7a60-7d11-9c1e-0d8a3c5b2e47", SubscriptionID: "sub_06dyxk8z3pk6n5q1v7wc4t2m9r",
		EventUUID: "01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11", EventType: "issues.opened", Provider: "github",
		ProviderConfigKey: "github", ConnectionID: &connection, Generation: 1, AttemptCount: 9, CompletedAt: at,
		LastError: &failurePayload{Code: "unexpected_status", Message: "The receiver answered with status 503",
			HTTPStatus: &status, At: at},
	}
	recovered := delivery
	recovered.Generation, recovered.AttemptCount = 2, 10
	recovered.CompletedAt = Time(time.Date(2030, 1, 31, 14, 30, 0, 0, time.UTC))
	link := connectionPayload{ConnectionUUID: "3f0c9f62-6a58-4c33-9d0c-5a4c6b1b7f0e", Provider: "github",
		ProviderConfigKey: "github", ConnectionID: connection, Status: "active"}
	disabled := link
	disabled.Status = "disabled"
	return []typeInfo{
		{DeliveryDeadLettered, "A delivery has died: its schedule is spent, or it was refused for good. It is not tried " +
			"again unless it is replayed.", delivery},
		{DeliveryRecovered, "A delivery that had died was replayed, and its receiver has taken it. `last_error` is why it " +
			"had died, or why a try since then failed.", recovered},
		{SubscriptionDisabled, "The gateway has disabled a subscription on its own account. Its deliveries are held until " +
			"somebody enables it.",
			Subscription{SubscriptionID: "sub_06dyxk8z3pk6n5q1v7wc4t2m9r", Description: "Issues for the tracker",
				Reason: "The receiver answered 410 Gone", DisabledAt: at}},
		{ConnectionCreated, "A connection was created.", link},
		{ConnectionUpdated, "A connection, its webhook URL or its webhook secrets were changed.", link},
		{ConnectionDisabled, "A connection was disabled: it refuses deliveries until it is enabled.", disabled},
		{ConnectionEnabled, "A connection that was disabled takes deliveries again.", link},
		{ConnectionDeleted, "A connection was deleted. Its events stay.", link},
	}
}

// deliveryPayload is the payload of the events about a delivery.
type deliveryPayload struct {
	DeliveryID        string          `json:"delivery_id"`         // The delivery.
	SubscriptionID    string          `json:"subscription_id"`     // The subscription that the event was to go to.
	EventUUID         string          `json:"event_uuid"`          // The event that was to be delivered.
	EventType         string          `json:"event_type"`          // Its type.
	Provider          string          `json:"provider"`            // Its provider.
	ProviderConfigKey string          `json:"provider_config_key"` // Its provider configuration.
	ConnectionID      *string         `json:"connection_id"`       // Its connection; null for an event that is about none.
	Generation        int64           `json:"generation"`          // Counts from 1; every replay raises it.
	AttemptCount      int64           `json:"attempt_count"`       // The tries made, over all generations.
	LastError         *failurePayload `json:"last_error"`          // The last failure.
	CompletedAt       Time            `json:"completed_at"`        // When the delivery died, or succeeded.
}

// failurePayload is why a delivery failed.
type failurePayload struct {
	Code       string `json:"code"`        // The kind of failure.
	Message    string `json:"message"`     // A sentence for a person.
	HTTPStatus *int   `json:"http_status"` // The status of the answer; null where there was none.
	At         Time   `json:"at"`          // When the try ended.
}

// Subscription is the payload of the events about a subscription.
type Subscription struct {
	SubscriptionID string `json:"subscription_id"` // The subscription.
	Description    string `json:"description"`     // Its owner's text for people.
	Reason         string `json:"reason"`          // Why it was disabled.
	DisabledAt     Time   `json:"disabled_at"`     // When it was disabled.
}

// connectionPayload is the payload of the events about a connection. Of one that was deleted it is what there was.
type connectionPayload struct {
	ConnectionUUID    string `json:"connection_uuid"`     // The id of the connection in the whole service.
	Provider          string `json:"provider"`            // The slug of the provider's definition.
	ProviderConfigKey string `json:"provider_config_key"` // The provider configuration.
	ConnectionID      string `json:"connection_id"`       // The id of the connection inside its provider configuration.
	Status            string `json:"status"`              // Its status after the change.
}

// Time is a time on the wire: RFC 3339, UTC, milliseconds.
type Time time.Time

const wireTime = "2006-01-02T15:04:05.000Z"

// MarshalText writes the time.
func (t Time) MarshalText() ([]byte, error) {
	return []byte(clock.FromMillis(clock.Millis(time.Time(t))).UTC().Format(wireTime)), nil
}

// UnmarshalText reads it.
func (t *Time) UnmarshalText(b []byte) error {
	read, err := time.Parse(wireTime, string(b))
	*t = Time(read)
	return err
}
