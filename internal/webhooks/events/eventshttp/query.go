package eventshttp

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/patch"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// FilterQuery holds the filters of the list of events and of the event stream. It is exported because only exported
// embedded structs are documented.
type FilterQuery struct {
	// Only events with one of these statuses.
	Status []events.Status `query:"status,explode" maxItems:"50" example:"failed"`
	// Only events from these providers.
	Provider []string `query:"provider,explode" minLength:"1" maxLength:"256" maxItems:"50" example:"github"`
	// Only events from these provider configurations.
	ProviderConfigKey []string `query:"provider_config_key,explode" minLength:"1" maxLength:"256" maxItems:"50" example:"github"`
	// Only events from the connections with these ids.
	ConnectionID []string `query:"connection_id,explode" minLength:"1" maxLength:"256" maxItems:"50" example:"acme-production"`
	// Only events of these types. Patterns are those of a subscription: the segment `*` matches exactly one segment, a
	// last segment `*` matches one or more, and `*` alone matches every type.
	EventType []string `query:"event_type,explode" minLength:"1" maxLength:"256" maxItems:"50" example:"issues.*"`
	// Only events with a delivery to one of these subscriptions.
	SubscriptionID []string `query:"subscription_id,explode" minLength:"1" maxLength:"64" maxItems:"50" example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// Only events with this idempotency key. This is a single value, which may contain commas.
	IdempotencyKey string `query:"idempotency_key" minLength:"1" maxLength:"2048" example:"72d3162e-cc78-11e3-81ab-4c9367dc0958"`
	// `true`: only duplicates. `false`: only events that are not duplicates.
	Duplicate []string `query:"duplicate,explode" enum:"true,false" maxItems:"50"`
	// `true`: only the provider's pings and confirmations, which are never forwarded. `false`: only other events.
	Control []string `query:"control,explode" enum:"true,false" maxItems:"50"`
	// Only events received after this time (RFC 3339, millisecond precision).
	ReceivedAfter patch.Optional[httpapi.Time] `query:"received_after" example:"2025-06-15T12:00:00.000Z"`
	// Only events received before this time (RFC 3339, millisecond precision).
	ReceivedBefore patch.Optional[httpapi.Time] `query:"received_before" example:"2025-06-16T12:00:00.000Z"`
	// Only events with a delivery whose last attempt got a response with one of these status codes.
	HTTPStatus []int `query:"http_status,explode" minimum:"100" maximum:"599" maxItems:"50" example:"[503]"`
	// Only events with a delivery whose last failure has one of these codes.
	ErrorCode []string `query:"error_code,explode" pattern:"^[a-z][a-z0-9_]{0,63}$" maxItems:"50" example:"timeout"`
	// Only events whose UUID or idempotency key equals this text, or whose type begins with it. Case-sensitive. This is a
	// single value, which may contain commas.
	Search string `query:"q" minLength:"1" maxLength:"2048" example:"issues."`
}

type listInput struct {
	page.Query
	FilterQuery
	// The parts to return in addition to the summary. Default: none.
	Include []string `query:"include,explode" enum:"body,headers,deliveries" maxItems:"50" example:"deliveries"`
}

// Check checks the rules that the schema cannot express.
func (in *FilterQuery) Check(_ context.Context, v *apperr.Violations) {
	for i, p := range in.EventType {
		if violation := subscriptions.TypeFilterViolation(p); violation != nil {
			v.Add(fmt.Sprintf("query.event_type[%d]", i), violation.Rule, violation.Message)
		}
	}
}

// filter returns the filter with sorted values, so that streams with equal filters can be recognised.
func (in *FilterQuery) filter() events.Filter {
	f := events.Filter{
		Providers: httpapi.Distinct(in.Provider), ProviderConfigKeys: httpapi.Distinct(in.ProviderConfigKey),
		ConnectionIDs: httpapi.Distinct(in.ConnectionID), Types: httpapi.Distinct(in.EventType),
		Duplicate: onlyValue(in.Duplicate), Control: onlyValue(in.Control),
		ReceivedAfter: (*time.Time)(in.ReceivedAfter.Pointer()), ReceivedBefore: (*time.Time)(in.ReceivedBefore.Pointer()),
		Search: in.Search, DeliveryCriteria: events.DeliveryCriteria{
			SubscriptionIDs: httpapi.Distinct(in.SubscriptionID), HTTPStatuses: httpapi.Distinct(in.HTTPStatus),
			ErrorCodes: httpapi.Distinct(in.ErrorCode),
		},
	}
	f.Statuses = httpapi.Distinct(in.Status)
	if in.IdempotencyKey != "" {
		f.IdempotencyKeys = []string{in.IdempotencyKey}
	}
	return f
}

// onlyValue returns the value that all values share. It returns nil, which is no restriction, if there is none or they
// differ.
func onlyValue(values []string) *bool {
	values = httpapi.Distinct(values)
	if len(values) != 1 {
		return nil
	}
	v := values[0] == "true"
	return &v
}

// parts selects the parts of a row in addition to the summary.
type parts struct{ body, headers, deliveries bool }

func (in *listInput) parts() parts {
	has := func(part string) bool { return slices.Contains(in.Include, part) }
	return parts{body: has("body"), headers: has("headers"), deliveries: has("deliveries")}
}
