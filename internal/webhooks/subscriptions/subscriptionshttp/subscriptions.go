// Package subscriptionshttp serves webhook subscriptions over HTTP.
package subscriptionshttp

import (
	"context"
	"net/http"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/webhooks/subscriptions"
)

const (
	tag            = "Webhook subscriptions"
	collectionPath = "/webhook-subscriptions"
	itemPath       = "/webhook-subscriptions/{id}"
)

// Mount adds the operations on webhook subscriptions to the API.
func Mount(api *httpapi.API, svc *subscriptions.Service) {
	h := &handlers{svc: svc}
	op := func(o httpapi.Operation) httpapi.Operation {
		o.Tag, o.Route, o.Environment = tag, access.RouteWebhooks, true
		if o.Permission == "" {
			o.Permission = access.SubscriptionsWrite
		}
		return o
	}
	httpapi.Register(api, op(httpapi.Operation{
		ID: "create-webhook-subscription", Method: http.MethodPost, Path: collectionPath, Status: http.StatusCreated,
		Summary: "Create a webhook subscription",
		Example: `{"event_types": ["invoice.*"], "forward_url": "https://example.com/hooks", "description": "Invoices", ` +
			`"enabled": false}`,
		Description: "Creates a subscription. It forwards every event received from now on that matches any of " +
			"`event_types` to `forward_url`, signed with Standard Webhooks. Without a `signing_secret`, a secret is generated " +
			"and returned in this response only.",
	}), h.create)
	httpapi.RegisterList(api, op(httpapi.Operation{
		ID: "list-webhook-subscriptions", Method: http.MethodGet, Path: collectionPath, Status: http.StatusOK,
		Permission: access.SubscriptionsRead, Summary: "List webhook subscriptions",
		Description: "Lists the environment's subscriptions, newest first. Different filters are combined with AND. " +
			"Several values of one filter, in several parameters or separated by commas, are combined with OR.",
	}), httpapi.List[listInput, subscriptions.Subscription, Subscription]{Rows: h.list, Key: keyOf,
		IsKey: id.Matcher(id.PrefixSubscription), View: viewListed})
	httpapi.Register(api, op(httpapi.Operation{
		ID: "get-webhook-subscription", Method: http.MethodGet, Path: itemPath, Status: http.StatusOK,
		Permission: access.SubscriptionsRead, Summary: "Get a webhook subscription",
		Description: "Returns a subscription. Its signing secret is not returned. Only the last four characters of the " +
			"value of each header are shown, or `[redacted]` if it has fewer than 12.",
	}), h.get)
	httpapi.Register(api, op(httpapi.Operation{
		ID: "update-webhook-subscription", Method: http.MethodPatch, Path: itemPath, Status: http.StatusOK,
		Summary: "Update a webhook subscription",
		Example: `{"event_types": ["invoice.*", "issues.opened"]}`,
		Description: "Applies a merge patch (RFC 7396) to the writable fields: absent fields stay, and `null` clears a " +
			"field that can be cleared; for `signing_secret` it generates a new one. URL, secret, headers and limits apply " +
			"from the next attempt on. The update does not change which subscriptions a received event goes to. " +
			"`enabled: false` holds the open deliveries and those of new events; `enabled: true` releases them. A new URL, or " +
			"`enabled: true`, lets a subscription whose `health` is `failing` probe its receiver without delay.",
		IfMatch: true,
	}), h.update)
	httpapi.Register(api, op(httpapi.Operation{
		ID: "delete-webhook-subscription", Method: http.MethodDelete, Path: itemPath, Status: http.StatusNoContent,
		Summary:     "Delete a webhook subscription",
		Description: "Deletes the subscription and cancels its open deliveries. The history of its deliveries is kept.",
		IfMatch:     true,
	}), h.delete)
}

type handlers struct{ svc *subscriptions.Service }

type itemInput struct {
	// The subscription's id.
	ID string `path:"id" example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type itemOutput struct {
	httpapi.Versioned
	Body Subscription
}

type createInput struct{ Body creation }

type createOutput struct {
	httpapi.Versioned
	// Always `no-store`.
	CacheControl string `header:"Cache-Control"`
	// The path of the subscription.
	Location string `header:"Location"`
	Body     SubscriptionCreated
}

func (h *handlers) create(ctx context.Context, in *createInput) (*createOutput, error) {
	p := access.From(ctx)
	sub, generated, err := h.svc.Create(ctx, p, in.Body.change())
	if err != nil {
		return nil, err
	}
	return &createOutput{
		Versioned: httpapi.Version(sub.Version()), CacheControl: "no-store",
		Location: httpapi.Prefix + collectionPath + "/" + sub.ID,
		Body:     SubscriptionCreated{h.viewChanged(ctx, sub, p), generated.Reveal()},
	}, nil
}

type listInput struct {
	page.Query
	// Only subscriptions to these provider configurations.
	ProviderConfigKey []string `query:"provider_config_key,explode" maxItems:"50" example:"github"`
	// Only subscriptions to these connections.
	ConnectionID []string `query:"connection_id,explode" maxItems:"50" example:"acme-production"`
	// `true`: only enabled subscriptions. `false`: only disabled subscriptions.
	Enabled []string `query:"enabled,explode" enum:"true,false" maxItems:"50"`
}

func (in *listInput) filter() subscriptions.Filter {
	f := subscriptions.Filter{ProviderConfigKeys: in.ProviderConfigKey, ConnectionIDs: in.ConnectionID}
	for _, v := range in.Enabled {
		f.Enabled = append(f.Enabled, v == "true")
	}
	return f
}

func (h *handlers) list(ctx context.Context, in *listInput, p page.Request) ([]subscriptions.Subscription, error) {
	return h.svc.List(ctx, access.From(ctx).View(), in.filter(), p)
}

func keyOf(s *subscriptions.Subscription) string { return s.ID }

func viewListed(ctx context.Context, s *subscriptions.Subscription) Subscription {
	return viewSubscription(*s, access.From(ctx))
}

func (h *handlers) get(ctx context.Context, in *itemInput) (*itemOutput, error) {
	p := access.From(ctx)
	sub, err := h.svc.Get(ctx, p.View(), in.ID)
	if err != nil {
		return nil, err
	}
	return &itemOutput{Versioned: httpapi.Version(sub.Version()), Body: viewSubscription(sub, p)}, nil
}

type updateInput struct {
	// The subscription's id.
	ID   string `path:"id" example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Body Patch
}

type updateOutput struct {
	httpapi.Versioned
	// `no-store` if a secret was generated.
	CacheControl string `header:"Cache-Control"`
	Body         SubscriptionSecretCreated
}

// viewChanged returns a changed subscription with its warnings.
func (h *handlers) viewChanged(ctx context.Context, sub subscriptions.Subscription,
	reader access.Principal) SubscriptionChanged {
	return SubscriptionChanged{viewSubscription(sub, reader), viewWarnings(h.svc.Warnings(ctx, &sub))}
}

func (h *handlers) update(ctx context.Context, in *updateInput) (*updateOutput, error) {
	p := access.From(ctx)
	ch, out := in.Body.change(), &updateOutput{}
	var generated secretbox.Secret
	if ch.SigningSecret.Null {
		generated = subscriptions.NewSigningSecret()
		ch.SigningSecret, out.CacheControl = patch.To(generated), "no-store"
	}
	sub, err := h.svc.Update(ctx, p, in.ID, ch)
	if err != nil {
		return nil, err
	}
	out.Versioned = httpapi.Version(sub.Version())
	out.Body = SubscriptionSecretCreated{h.viewChanged(ctx, sub, p), generated.Reveal()}
	return out, nil
}

func (h *handlers) delete(ctx context.Context, in *itemInput) (*struct{}, error) {
	return nil, h.svc.Delete(ctx, access.From(ctx), in.ID)
}
