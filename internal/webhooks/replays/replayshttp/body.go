package replayshttp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/patch"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/replays"
	"sallyport/internal/webhooks/subscriptions"
)

// creation is the body that creates a job.
type creation struct {
	// The events to replay.
	Filter filter `json:"filter"`
	// Also replay deliveries that succeeded, wait for their first attempt or are held; held ones are sent when the
	// subscription is enabled. Default `false`.
	Force patch.Optional[bool] `json:"force,omitempty"`
	// The subscription to send the events to, instead of the subscriptions that they went to. An event without a delivery
	// to it gets one if the subscription, as it is now, matches the event by scope, event types and filter. Default: the
	// existing deliveries.
	ToSubscriptionID patch.Optional[string] `json:"to_subscription_id,omitempty" minLength:"1" maxLength:"64"`
	// The maximum number of deliveries started per second: 1 to 500. Default 50. A slow receiver lowers the rate, because
	// at most 50 deliveries of a job wait for their first attempt at the same time.
	RatePerSecond patch.Optional[int64] `json:"rate_per_second,omitempty" minimum:"1" maximum:"500"`
	// Count what the job would do without creating it. Default `false`.
	DryRun patch.Optional[bool] `json:"dry_run,omitempty"`
}

// filter selects events, in requests and responses. Its fields are the filters of the list of events.
type filter struct {
	// Must be `true` if no other field restricts the job, so that a missing field never replays everything. It cannot be
	// combined with other fields.
	All bool `json:"all,omitempty"`
	// Only these events.
	EventUUIDs []string `json:"event_uuids,omitempty" minItems:"1" maxItems:"1000"`
	// Only events with one of these statuses.
	Status []events.Status `json:"status,omitempty" minItems:"1" maxItems:"50" example:"[\"dead_letter\"]"`
	// Only events from these providers.
	Provider []string `json:"provider,omitempty" minItems:"1" minLength:"1" maxLength:"256" maxItems:"50" example:"[\"github\"]"`
	// Only events from these provider configurations.
	ProviderConfigKey []string `json:"provider_config_key,omitempty" minItems:"1" minLength:"1" maxLength:"256" maxItems:"50" example:"[\"github\"]"`
	// Only events from the connections with these ids.
	ConnectionID []string `json:"connection_id,omitempty" minItems:"1" minLength:"1" maxLength:"256" maxItems:"50" example:"[\"acme-production\"]"`
	// Only events of these types. Patterns are those of a subscription.
	EventType []string `json:"event_type,omitempty" minItems:"1" minLength:"1" maxLength:"256" maxItems:"50" example:"[\"issues.*\"]"`
	// Only events with a delivery to one of these subscriptions. Without `to_subscription_id`, only those deliveries are
	// replayed.
	SubscriptionID []string `json:"subscription_id,omitempty" minItems:"1" minLength:"1" maxLength:"64" maxItems:"50" example:"[\"sub_06dyxk8z3pk6n5q1v7wc4t2m9r\"]"`
	// Only events with one of these idempotency keys.
	IdempotencyKey []string `json:"idempotency_key,omitempty" minItems:"1" minLength:"1" maxLength:"2048" maxItems:"50"`
	// `true`: only duplicates. `false`: only events that are not duplicates. Duplicates are never sent.
	Duplicate *bool `json:"duplicate,omitempty" nullable:"false"`
	// `true`: only the provider's pings and confirmations, which are never sent. `false`: only other events.
	Control *bool `json:"control,omitempty" nullable:"false"`
	// Only events received after this time (RFC 3339, millisecond precision).
	ReceivedAfter *httpapi.Time `json:"received_after,omitempty" nullable:"false"`
	// Only events received before this time (RFC 3339, millisecond precision).
	ReceivedBefore *httpapi.Time `json:"received_before,omitempty" nullable:"false"`
	// Only events with a delivery whose last attempt got a response with one of these status codes. Without
	// `to_subscription_id`, only those deliveries are replayed.
	HTTPStatus []int `json:"http_status,omitempty" minItems:"1" minimum:"100" maximum:"599" maxItems:"50" example:"[503]"`
	// Only events with a delivery whose last failure has one of these codes. Without `to_subscription_id`, only those
	// deliveries are replayed.
	ErrorCode []string `json:"error_code,omitempty" minItems:"1" minLength:"1" maxLength:"255" pattern:"^[a-z][a-z0-9_]{0,63}$" maxItems:"50" example:"[\"timeout\"]"`
	// Only events whose UUID or idempotency key equals this text, or whose type begins with it. Case-sensitive.
	Search string `json:"q,omitempty" minLength:"1" maxLength:"2048" example:"issues."`
	unread bool
}

// UnmarshalJSON reads a filter and records whether it succeeded. A filter with a value of the wrong type must not count
// as one without restrictions.
func (f *filter) UnmarshalJSON(b []byte) error {
	type plain filter
	err := json.Unmarshal(b, (*plain)(f))
	f.unread = err != nil
	return err
}

// Check checks the rules that the schema cannot express.
func (b *creation) Check(_ context.Context, v *apperr.Violations) {
	for i, uuid := range b.Filter.EventUUIDs {
		if !id.IsUUID(uuid) {
			v.Add(fmt.Sprintf("filter.event_uuids[%d]", i), "format", "must be the UUID of an event")
		}
	}
	for i, p := range b.Filter.EventType {
		if violation := subscriptions.TypeFilterViolation(p); violation != nil {
			v.Add(fmt.Sprintf("filter.event_type[%d]", i), violation.Rule, violation.Message)
		}
	}
	b.Filter.visitTexts(func(location, text string) {
		if strings.ContainsRune(text, 0) { // PostgreSQL cannot store it
			v.Add("filter."+location, "pattern", "must not contain a NUL")
		}
	})
	if to := b.ToSubscriptionID.Pointer(); to != nil && !id.Is(id.PrefixSubscription, *to) {
		v.Add("to_subscription_id", "format", "must be the id of a subscription")
	}
	domain := b.Filter.domain()
	switch restricts := domain.Restricts(); {
	case restricts && domain.All:
		v.Add("filter.all", "alone", "must not be combined with a field that restricts the job")
	case !restricts && !domain.All && !b.Filter.unread:
		v.Add("filter", "restriction", "must restrict the job; all: true replays everything")
	}
}

// visitTexts visits every text of the filter that no other rule restricts.
func (f *filter) visitTexts(visit func(location, text string)) {
	for name, list := range map[string][]string{"provider": f.Provider, "provider_config_key": f.ProviderConfigKey,
		"connection_id": f.ConnectionID, "subscription_id": f.SubscriptionID, "idempotency_key": f.IdempotencyKey} {
		for i, text := range list {
			visit(fmt.Sprintf("%s[%d]", name, i), text)
		}
	}
	visit("q", f.Search)
}

func (b *creation) order() replays.Order {
	o := replays.Order{Filter: b.Filter.domain(), Force: b.Force.Value, To: b.ToSubscriptionID.Value,
		RatePerSecond: replays.DefaultRate}
	if rate := b.RatePerSecond.Pointer(); rate != nil {
		o.RatePerSecond = int(*rate)
	}
	return o
}

func (f *filter) domain() replays.Filter {
	out := replays.Filter{All: f.All, UUIDs: httpapi.Distinct(f.EventUUIDs), Filter: events.Filter{
		Providers: httpapi.Distinct(f.Provider), ProviderConfigKeys: httpapi.Distinct(f.ProviderConfigKey),
		ConnectionIDs: httpapi.Distinct(f.ConnectionID), Types: httpapi.Distinct(f.EventType),
		IdempotencyKeys: httpapi.Distinct(f.IdempotencyKey), Duplicate: f.Duplicate, Control: f.Control,
		ReceivedAfter: (*time.Time)(f.ReceivedAfter), ReceivedBefore: (*time.Time)(f.ReceivedBefore), Search: f.Search,
		DeliveryCriteria: events.DeliveryCriteria{SubscriptionIDs: httpapi.Distinct(f.SubscriptionID),
			HTTPStatuses: httpapi.Distinct(f.HTTPStatus), ErrorCodes: httpapi.Distinct(f.ErrorCode)},
	}}
	out.Statuses = httpapi.Distinct(f.Status)
	return out
}

func viewFilter(f *replays.Filter) filter {
	out := filter{
		All: f.All, EventUUIDs: f.UUIDs, Provider: f.Providers, ProviderConfigKey: f.ProviderConfigKeys,
		ConnectionID: f.ConnectionIDs, EventType: f.Types, SubscriptionID: f.SubscriptionIDs,
		IdempotencyKey: f.IdempotencyKeys, Duplicate: f.Duplicate, Control: f.Control,
		ReceivedAfter: (*httpapi.Time)(f.ReceivedAfter), ReceivedBefore: (*httpapi.Time)(f.ReceivedBefore),
		HTTPStatus: f.HTTPStatuses, ErrorCode: f.ErrorCodes, Search: f.Search,
	}
	out.Status = f.Statuses
	return out
}
