package deliverieshttp

import (
	"context"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/deliveries"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/page"
	"sallyport/internal/subscriptions"
	"sallyport/internal/webhookevents"
)

type explainInput struct {
	page.Query
	EventUUID string `path:"event_uuid" doc:"The event's UUID." example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	url       url.URL
}

// Resolve keeps the URL for the link to the next page.
func (in *explainInput) Resolve(ctx huma.Context) []error {
	in.url = ctx.URL()
	return nil
}

type explainOutput struct {
	page.Headers
	Body []explanation
}

// explanation is why an event went to a subscription, or did not.
type explanation struct {
	SubscriptionID  string  `json:"subscription_id" doc:"The subscription."`
	Matches         bool    `json:"matches" doc:"Whether the event goes to the subscription as it is now."`
	FailedCondition *string `json:"failed_condition" nullable:"true" doc:"The first condition that does not hold; null where all do. duplicate: the event repeats another, and repeats go to nobody. control: it is the provider's ping or confirmation, which goes to nobody either. The others name the part of the subscription that the event does not fit."`
	Pattern         *string `json:"pattern" nullable:"true" doc:"The first of the subscription's patterns that takes the event's type; null where none does."`
	Enabled         bool    `json:"enabled" doc:"Whether the subscription is enabled. Deliveries to a disabled one are held."`
	DeliveryStatus  *string `json:"delivery_status" nullable:"true" doc:"Where the delivery to the subscription stands; null where there is none."`
	CreatedAfter    bool    `json:"created_after_event" doc:"Whether the subscription is younger than the event, which was matched when it came."`
	ChangedAfter    bool    `json:"changed_after_event" doc:"Whether the subscription was changed after the event came, so that it may have matched otherwise then."`
}

func (h *handlers) explain(ctx context.Context, in *explainInput) (*explainOutput, error) {
	env := access.From(ctx).Environment
	request, err := in.Parse("webhook-event-explain "+string(env)+" "+in.EventUUID, subscriptions.IsListKey)
	if err != nil {
		return nil, err
	}
	e, err := h.events.Get(ctx, env, in.EventUUID)
	if err != nil {
		return nil, err
	}
	list, err := h.subscriptions.List(ctx, env, subscriptions.Filter{}, request)
	if err != nil {
		return nil, err
	}
	made, err := h.deliveries.Store().ByEvents(ctx, env, []string{e.UUID})
	if err != nil {
		return nil, err
	}
	statuses := map[string]deliveries.Status{}
	for _, d := range made[e.UUID] {
		statuses[d.SubscriptionID] = d.Status
	}
	list, headers := page.Cut(request, list, func(s subscriptions.Subscription) string { return s.ID }, in.url.Path, in.url.Query())
	out := &explainOutput{Headers: headers, Body: make([]explanation, len(list))}
	for i := range list {
		out.Body[i] = explained(&list[i], &e, statuses)
	}
	return out, nil
}

func explained(sub *subscriptions.Subscription, e *webhookevents.Event, statuses map[string]deliveries.Status) explanation {
	found := deliveries.Explain(e, sub)
	return explanation{
		SubscriptionID: sub.ID, Matches: found.Failed == "", FailedCondition: orNull(string(found.Failed)), Pattern: orNull(found.Pattern),
		Enabled: sub.Enabled, DeliveryStatus: orNull(string(statuses[sub.ID])), CreatedAfter: sub.CreatedAt.After(e.ReceivedAt),
		ChangedAfter: sub.UpdatedAt.After(e.ReceivedAt),
	}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
