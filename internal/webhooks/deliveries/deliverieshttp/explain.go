package deliverieshttp

import (
	"context"
	"slices"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/page"
	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/filters"
	"sallyport/internal/webhooks/subscriptions"
)

type explainInput struct {
	page.Query
	// The event's UUID.
	EventUUID string `path:"event_uuid" example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	event     events.Event
}

// explanation shows whether an event matches a subscription, and why.
type explanation struct {
	// The subscription.
	SubscriptionID string `json:"subscription_id"`
	// Whether the event matches the subscription as the subscription is now.
	Matches bool `json:"matches"`
	// The first condition that the event does not meet; `null` if it meets all of them.
	// - `duplicate`: the event is a duplicate. Duplicates are not forwarded.
	// - `control`: the event is a ping or confirmation of the provider. Such events are not forwarded.
	// - Any other value names the part of the subscription that the event does not match. For `filter`, see the field
	//   `filter`.
	FailedCondition *string `json:"failed_condition" nullable:"true"`
	// The first of the subscription's patterns that matches the event's type; `null` if none does.
	Pattern *string `json:"pattern" nullable:"true"`
	// The result of the subscription's filter on the stored event; `null` if there is no filter or an earlier condition is
	// not met.
	Filter httpapi.OrNull[filterResult] `json:"filter"`
	// Whether the subscription is enabled. Deliveries to a disabled subscription are held.
	Enabled bool `json:"enabled"`
	// The status of the delivery to the subscription; `null` if there is no delivery.
	DeliveryStatus *string `json:"delivery_status" nullable:"true"`
	// Whether the subscription was created after the event was received. Events are matched when they are received.
	CreatedAfter bool `json:"created_after_event"`
	// Whether the subscription was changed after the event was received, so that the result may have been different then.
	ChangedAfter bool `json:"changed_after_event"`
}

// filterResult is the result of a filter for one event.
type filterResult struct {
	// The value of the filter for the event. `null` if the filter could not be evaluated; then the event does not match.
	Value *bool `json:"value" nullable:"true"`
	// Why the filter could not be evaluated; `null` if it could.
	Error httpapi.OrNull[filterFailure] `json:"error"`
	// The cost of the evaluation. The limit is 100000.
	Cost uint64 `json:"cost" example:"12"`
}

type filterFailure struct {
	// The kind of failure; see the reference of filters.
	Code filters.Code `json:"code"`
	// A human-readable message, with the line and column of the filter if there is one.
	Message string `json:"message" example:"line 1, column 11: no such key: action"`
}

func viewFilterResult(r *filters.Result) httpapi.OrNull[filterResult] {
	if r == nil {
		return httpapi.OrNull[filterResult]{}
	}
	view := filterResult{Cost: r.Cost}
	if r.Failure != nil {
		view.Error.Value = &filterFailure{r.Failure.Code, r.Failure.Message}
	} else {
		view.Value = &r.Matches
	}
	return httpapi.OrNull[filterResult]{Value: &view}
}

func (h *handlers) listSubscriptions(ctx context.Context, in *explainInput,
	p page.Request) ([]subscriptions.Subscription, error) {
	v := access.From(ctx).View()
	var err error
	if in.event, err = h.events.Get(ctx, v, in.EventUUID); err != nil {
		return nil, err
	}
	return h.subscriptions.List(ctx, v, subscriptions.Filter{}, p)
}

func (h *handlers) explainEvent(ctx context.Context, in *explainInput,
	list []subscriptions.Subscription) ([]explanation, error) {
	e := &in.event
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	statuses, err := h.deliveries.Store().Statuses(ctx, e.Environment, e.UUID, ids)
	if err != nil {
		return nil, err
	}
	evaluate, err := h.evaluateFilters(ctx, e, list)
	if err != nil {
		return nil, err
	}
	rules, err := h.subscriptions.TypeRules(ctx, e.Environment, deliveries.OriginOf(e))
	if err != nil {
		return nil, err
	}
	out := make([]explanation, len(list))
	for i := range list {
		out[i] = viewExplanation(&list[i], e, rules, evaluate, statuses)
	}
	return out, nil
}

// evaluateFilters returns a function that has the results of the subscriptions' filters on the event. As on receipt,
// the filters of all subscriptions that the event matches, also of those that are not in the list, have one limit
// together.
func (h *handlers) evaluateFilters(ctx context.Context, e *events.Event,
	list []subscriptions.Subscription) (func(string) filters.Result, error) {
	if !slices.ContainsFunc(list, func(s subscriptions.Subscription) bool { return s.Filter != "" }) {
		return func(string) filters.Result { return filters.Result{} }, nil // which nothing calls
	}
	// Parsing a large body and evaluating costly filters take seconds of processor time, and no budget of ingest.
	if err := httpapi.TakeLarge(ctx); err != nil {
		return nil, err
	}
	payloads, err := h.events.Payloads(ctx, e.Environment, []events.Event{*e})
	if err != nil {
		return nil, err
	}
	seen := filters.NewEvent(e, nil)
	if p, ok := payloads[e.UUID]; ok {
		seen = filters.NewEvent(e, &p)
	}
	if e.Own() {
		return seen.Evaluate, nil
	}
	matched, _, err := h.subscriptions.Match(ctx, e.Environment, deliveries.OriginOf(e), e.AllTypes())
	if err != nil {
		return nil, err
	}
	byText := map[string]*filters.Filter{}
	var all []*filters.Filter
	for _, m := range matched {
		if m.Filter != nil {
			byText[m.Filter.String()] = m.Filter
			all = append(all, m.Filter)
		}
	}
	screen := filters.NewScreen(seen)
	screen.Evaluate(all)
	return func(text string) filters.Result {
		f := byText[text]
		if f == nil { // the subscription has just changed
			f = filters.New(text)
			byText[text] = f
			screen.Evaluate([]*filters.Filter{f})
		}
		return screen.Result(f)
	}, nil
}

func viewExplanation(sub *subscriptions.Subscription, e *events.Event, rules eventtypes.Rules,
	evaluate func(string) filters.Result, statuses map[string]deliveries.Status) explanation {
	found := deliveries.Explain(e, rules, evaluate, sub)
	return explanation{
		SubscriptionID: sub.ID, Matches: found.Failed == "", FailedCondition: httpapi.NullIfEmpty(string(found.Failed)),
		Pattern: httpapi.NullIfEmpty(found.Pattern), Filter: viewFilterResult(found.Filter), Enabled: sub.Enabled,
		DeliveryStatus: httpapi.NullIfEmpty(string(statuses[sub.ID])), CreatedAfter: sub.CreatedAt.After(e.ReceivedAt),
		ChangedAfter: sub.UpdatedAt.After(e.ReceivedAt),
	}
}
