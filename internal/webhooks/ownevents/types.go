// Package ownevents stores the gateway's own events: changes in the gateway, as events that subscriptions match like
// those of a provider. See README.md.
package ownevents

import (
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/tokens"
)

// Type is the type of one of the gateway's own events. The set is closed: typeInfos lists it.
type Type string

// The types.
const (
	// DeliveryDeadLettered: a delivery has died and is not retried automatically.
	DeliveryDeadLettered Type = "sallyport.delivery.dead_lettered"
	// DeliveryRecovered: a dead delivery was replayed and has succeeded.
	DeliveryRecovered Type = "sallyport.delivery.recovered"
	// SubscriptionDisabled: the service itself has disabled a subscription.
	SubscriptionDisabled Type = "sallyport.subscription.disabled"
	// ConnectionCreated and the following: a user or a key has changed a connection.
	ConnectionCreated  Type = "sallyport.connection.created"
	ConnectionUpdated  Type = "sallyport.connection.updated"
	ConnectionDisabled Type = "sallyport.connection.disabled"
	ConnectionEnabled  Type = "sallyport.connection.enabled"
	ConnectionDeleted  Type = "sallyport.connection.deleted"
	// ConnectionConnected and the following: the credentials of a connection have changed, or what they can be used for,
	// or a person has failed to give them.
	ConnectionConnected     Type = "sallyport.connection.connected"
	ConnectionConnectFailed Type = "sallyport.connection.connect_failed"
	ConnectionNeedsReauth   Type = "sallyport.connection.needs_reauth"
	ConnectionRecovered     Type = "sallyport.connection.recovered"
	ConnectionExpired       Type = "sallyport.connection.expired"
	ConnectionError         Type = "sallyport.connection.error"
	ConnectionRevoked       Type = "sallyport.connection.revoked"
	ConnectionHealthChanged Type = "sallyport.connection.health_changed"
)

// Types returns all types, as subscriptions match them.
func Types() []string {
	infos := typeInfos()
	list := make([]string, len(infos))
	for i := range infos {
		list[i] = string(infos[i].Type)
	}
	return list
}

// typeInfo describes a type. A test compares the reference page with it.
type typeInfo struct {
	Type Type
	// Summary describes the change that emits the event.
	Summary string
	// Example is a payload. Its type is that of every payload of the event.
	Example any
}

// typeInfos describes every type.
func typeInfos() []typeInfo {
	status, connection := 503, "acme-production"
	healthy, degradedHealth, unhealthy := "healthy", "degraded", "unhealthy"
	byRequest, refusal := "Disabled by request", connections.ReasonCredentialsRefused
	login, declined := "octo", "access_denied"
	ended, away, revocation := tokens.ReasonTokenExpired, tokens.ReasonEndpointFailing, connections.ReasonRevoked
	at := Time(time.Date(2030, 1, 31, 12, 0, 0, 250_000_000, time.UTC))
	delivery := deliveryPayload{
		DeliveryID: "01939a4e-7a60-7d11-9c1e-0d8a3c5b2e47", SubscriptionID: "sub_06dyxk8z3pk6n5q1v7wc4t2m9r",
		EventUUID: "01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11", EventType: "issues.opened", Provider: "github",
		ProviderConfigKey: "github", ConnectionID: &connection, Generation: 1, AttemptCount: 9, CompletedAt: at,
		LastError: &failurePayload{Code: "unexpected_status", Message: "The receiver responded with status 503",
			HTTPStatus: &status, At: at},
	}
	recovered := delivery
	recovered.Generation, recovered.AttemptCount = 2, 10
	recovered.CompletedAt = Time(time.Date(2030, 1, 31, 14, 30, 0, 0, time.UTC))
	link := connectionPayload{ConnectionUUID: "3f0c9f62-6a58-4c33-9d0c-5a4c6b1b7f0e", Provider: "github",
		ProviderConfigKey: "github", ConnectionID: connection, Status: "active", AuthMode: "none",
		Tags: map[string]string{"end_user_id": "user-4711"}}
	disabled := link
	disabled.Status, disabled.StatusReason = "disabled", &byRequest
	connected := link
	connected.AuthMode, connected.Health = "oauth2", &healthy
	connected.Account = &accountPayload{ID: "583231", Label: &login}
	connected.Scopes = &scopesPayload{Requested: []string{"repo", "user"}, Granted: []string{"repo"}}
	waiting := link
	waiting.Status, waiting.StatusReason = "pending", &declined
	refused := connected
	refused.Status, refused.StatusReason, refused.Health = "needs_reauth", &refusal, &unhealthy
	expired, failing, revoked := connected, connected, link
	expired.Status, expired.StatusReason = "expired", &ended
	failing.Status, failing.StatusReason = "error", &away
	revoked.Status, revoked.StatusReason = "revoked", &revocation
	degraded := connected
	degraded.Health = &degradedHealth
	return []typeInfo{
		{DeliveryDeadLettered, "A delivery has died: its schedule is used up, or it was refused permanently. It is not " +
			"retried unless it is replayed.", delivery},
		{DeliveryRecovered, "A dead delivery was replayed, and its receiver has accepted it. `last_error` is the reason " +
			"why it had died, or why an attempt since then failed.", recovered},
		{SubscriptionDisabled, "The gateway itself has disabled a subscription. Its deliveries are held until a user " +
			"enables it.",
			Subscription{SubscriptionID: "sub_06dyxk8z3pk6n5q1v7wc4t2m9r", Description: "Issues for the tracker",
				Reason: "The receiver responded with 410 Gone", DisabledAt: at}},
		{ConnectionCreated, "A connection was created.", link},
		{ConnectionUpdated, "A connection, its webhook URL or its webhook secrets were changed.", link},
		{ConnectionDisabled, "A connection was disabled: it rejects webhooks until it is enabled.", disabled},
		{ConnectionEnabled, "A disabled connection was enabled and accepts webhooks again.", link},
		{ConnectionDeleted, "A connection was deleted. Its events stay.", link},
		{ConnectionConnected, "Credentials were stored in a connection, in place of any that it had. `reconnected` is true " +
			"if it had some before, also if they were revoked since.", connectedPayload{connected, false}},
		{ConnectionConnectFailed, "A person was at the page of a connect link, and their account was not connected. " +
			"`reason` is the `error` with which the browser goes back to your application.",
			connectFailedPayload{waiting, declined}},
		{ConnectionNeedsReauth, "The credentials of a connection may not or cannot be used any more, until they are given " +
			"again. `status_reason` says why.", refused},
		{ConnectionRecovered, "A connection that could not be used can be used again: its credentials were accepted or " +
			"renewed.", connected},
		{ConnectionExpired, "The credentials of a connection have expired, and nothing renews them. They have to be given " +
			"again.", expired},
		{ConnectionError, "The access token of a connection has expired, and the provider gives no other one for now. It " +
			"is requested again until it comes.", failing},
		{ConnectionRevoked, "The credentials of a connection were revoked by request, and are not stored any more.", revoked},
		{ConnectionHealthChanged, "The outcome of the tests of a connection's credentials has changed.", degraded},
	}
}

// deliveryPayload is the payload of the events about a delivery.
type deliveryPayload struct {
	DeliveryID        string          `json:"delivery_id"`         // The delivery.
	SubscriptionID    string          `json:"subscription_id"`     // The subscription of the delivery.
	EventUUID         string          `json:"event_uuid"`          // The event of the delivery.
	EventType         string          `json:"event_type"`          // Its type.
	Provider          string          `json:"provider"`            // Its provider.
	ProviderConfigKey string          `json:"provider_config_key"` // Its provider configuration.
	ConnectionID      *string         `json:"connection_id"`       // Its connection; null for an event without a connection.
	Generation        int64           `json:"generation"`          // Counts from 1; every replay increments it.
	AttemptCount      int64           `json:"attempt_count"`       // The number of attempts, over all generations.
	LastError         *failurePayload `json:"last_error"`          // The last failure.
	CompletedAt       Time            `json:"completed_at"`        // When the delivery died, or succeeded.
}

// failurePayload is the reason why a delivery failed.
type failurePayload struct {
	Code       string `json:"code"`        // The kind of failure.
	Message    string `json:"message"`     // A sentence for people.
	HTTPStatus *int   `json:"http_status"` // The status code of the response; null if there was none.
	At         Time   `json:"at"`          // When the attempt ended.
}

// Subscription is the payload of the events about a subscription.
type Subscription struct {
	SubscriptionID string `json:"subscription_id"` // The subscription.
	Description    string `json:"description"`     // Its description for people.
	Reason         string `json:"reason"`          // Why it was disabled.
	DisabledAt     Time   `json:"disabled_at"`     // When it was disabled.
}

// connectionPayload is the payload of the events about a connection. After a deletion it is the last state.
type connectionPayload struct {
	ConnectionUUID    string  `json:"connection_uuid"`     // The id of the connection in the whole service.
	Provider          string  `json:"provider"`            // The slug of the provider's definition.
	ProviderConfigKey string  `json:"provider_config_key"` // The provider configuration.
	ConnectionID      string  `json:"connection_id"`       // The id of the connection inside its provider configuration.
	Status            string  `json:"status"`              // Its status after the change.
	StatusReason      *string `json:"status_reason"`       // Why the connection is not active; null while it is.
	AuthMode          string  `json:"auth_mode"`           // The mode of its credentials; none without any.
	Health            *string `json:"health"`              // The outcome of the last test of its credentials; null before the first.

	Tags    map[string]string `json:"tags"`    // Its labels, at most ten.
	Account *accountPayload   `json:"account"` // The account at the provider; null if no test has found it.
	Scopes  *scopesPayload    `json:"scopes"`  // The OAuth scopes; null without credentials.
}

type accountPayload struct {
	ID    string  `json:"id"`    // The provider's id of the account.
	Label *string `json:"label"` // The name by which people know it; null if the provider gives none.
}

type scopesPayload struct {
	Requested []string `json:"requested"` // The scopes that were requested.
	Granted   []string `json:"granted"`   // Those that the provider has granted; empty if they are not known.
}

// connectedPayload is the payload of the event about stored credentials.
type connectedPayload struct {
	connectionPayload

	Reconnected bool `json:"reconnected"` // Whether the connection had credentials before.
}

// connectFailedPayload is the payload of the event about an attempt that failed.
type connectFailedPayload struct {
	connectionPayload

	Reason string `json:"reason"` // Why: the error that the redirect URL gets.
}

// Time is a time on the wire: RFC 3339, UTC, milliseconds.
type Time time.Time

// MarshalText writes the time.
func (t Time) MarshalText() ([]byte, error) {
	return []byte(clock.Wire(time.Time(t))), nil
}

// UnmarshalText reads it.
func (t *Time) UnmarshalText(b []byte) error {
	read, err := time.Parse(clock.WireLayout, string(b))
	*t = Time(read)
	return err
}
