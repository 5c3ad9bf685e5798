package replays

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

// Filter selects the events of a replay as a list of events does. An event must match one value of each field.
type Filter struct {
	// All declares that nothing restricts the replay.
	All bool
	// UUIDs are the only events of the replay; empty does not restrict.
	UUIDs []string
	events.Filter
}

// Restricts reports whether the filter leaves out events that could be forwarded.
func (f *Filter) Restricts() bool {
	every := slices.Contains(f.Types, "*")
	return len(f.UUIDs) > 0 || len(f.Statuses) > 0 || len(f.Providers) > 0 || len(f.ProviderConfigKeys) > 0 ||
		len(f.ConnectionIDs) > 0 ||
		len(f.Types) > 0 && !every || len(f.IdempotencyKeys) > 0 || f.ReceivedAfter != nil || f.ReceivedBefore != nil ||
		len(f.SubscriptionIDs) > 0 || len(f.HTTPStatuses) > 0 || len(f.ErrorCodes) > 0 || f.Search != "" ||
		f.Duplicate != nil && *f.Duplicate || f.Control != nil && *f.Control
}

// storedFilter is the stored form of a filter. Its names are those of the API. Reading rejects an unknown name, because
// a replay without one of its restrictions would send too much.
type storedFilter struct {
	All               bool            `json:"all,omitempty"`
	EventUUIDs        []string        `json:"event_uuids,omitempty"`
	Status            []events.Status `json:"status,omitempty"`
	Provider          []string        `json:"provider,omitempty"`
	ProviderConfigKey []string        `json:"provider_config_key,omitempty"`
	ConnectionID      []string        `json:"connection_id,omitempty"`
	EventType         []string        `json:"event_type,omitempty"`
	IdempotencyKey    []string        `json:"idempotency_key,omitempty"`
	Duplicate         *bool           `json:"duplicate,omitempty"`
	Control           *bool           `json:"control,omitempty"`
	ReceivedAfter     *int64          `json:"received_after_ms,omitempty"`
	ReceivedBefore    *int64          `json:"received_before_ms,omitempty"`
	SubscriptionID    []string        `json:"subscription_id,omitempty"`
	HTTPStatus        []int           `json:"http_status,omitempty"`
	ErrorCode         []string        `json:"error_code,omitempty"`
	Search            string          `json:"q,omitempty"`
}

func (f *Filter) stored() storedFilter {
	return storedFilter{
		All: f.All, EventUUIDs: f.UUIDs, Status: f.Statuses, Provider: f.Providers, ProviderConfigKey: f.ProviderConfigKeys,
		ConnectionID: f.ConnectionIDs, EventType: f.Types, IdempotencyKey: f.IdempotencyKeys, Duplicate: f.Duplicate,
		Control: f.Control, ReceivedAfter: millis(f.ReceivedAfter), ReceivedBefore: millis(f.ReceivedBefore),
		SubscriptionID: f.SubscriptionIDs, HTTPStatus: f.HTTPStatuses, ErrorCode: f.ErrorCodes, Search: f.Search,
	}
}

func (f *Filter) encode() (string, error) {
	b, err := json.Marshal(f.stored())
	if err != nil {
		return "", fmt.Errorf("encode a filter: %w", err)
	}
	return string(b), nil
}

func decodeFilter(text string) (Filter, error) {
	var s storedFilter
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return Filter{}, fmt.Errorf("decode a filter: %w", err)
	}
	return Filter{All: s.All, UUIDs: s.EventUUIDs, Filter: events.Filter{
		Statuses: s.Status, Providers: s.Provider, ProviderConfigKeys: s.ProviderConfigKey, ConnectionIDs: s.ConnectionID,
		Types: s.EventType, IdempotencyKeys: s.IdempotencyKey, Duplicate: s.Duplicate, Control: s.Control,
		ReceivedAfter: fromMillis(s.ReceivedAfter), ReceivedBefore: fromMillis(s.ReceivedBefore), Search: s.Search,
		DeliveryCriteria: events.DeliveryCriteria{SubscriptionIDs: s.SubscriptionID, HTTPStatuses: s.HTTPStatus,
			ErrorCodes: s.ErrorCode},
	}}, nil
}

// millis is clock.Millis for an optional time; fromMillis is its inverse.
func millis(t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	ms := clock.Millis(*t)
	return &ms
}

func fromMillis(ms *int64) *time.Time {
	if ms == nil {
		return nil
	}
	t := clock.FromMillis(*ms)
	return &t
}

// scan returns the search for the events of the order.
func (o *Order) scan() events.Scan {
	return events.Scan{Filter: o.Filter.Filter, UUIDs: o.Filter.UUIDs, Failing: !o.Force && o.To == "", Window: scanWindow}
}

// view returns the view of the events that the replay may send, and of the subscriptions to which it may send them.
func (r *Replay) view() access.View {
	return access.View{Environment: r.Environment, Connections: r.Bound}
}

// bulk returns the part of the order for these events. The first event's deliveries up to that of the subscription
// after are done.
func (o *Order) bulk(v access.View, list []events.Event, after string, limit int) deliveries.Bulk {
	return deliveries.Bulk{View: v, Events: list, After: after, Criteria: o.Filter.DeliveryCriteria,
		Force: o.Force, To: o.To, Limit: limit}
}
