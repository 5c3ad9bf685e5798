package eventshttp

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/page"
	"sallyport/internal/providers/eventtypes"
)

type typesInput struct {
	page.AscendingQuery
	// Only types of these providers.
	Provider []string `query:"provider,explode" minLength:"1" maxLength:"63" maxItems:"50" example:"shopify"`
}

// knownType is one type with its provider.
type knownType struct {
	provider *eventtypes.Provider
	known    *eventtypes.Known
}

// key orders the types by provider and type. No provider's key contains a slash.
func (t *knownType) key() string { return t.provider.Slug + "/" + t.known.Type }

// eventType is the wire form of a type that a provider is known to send.
type eventType struct {
	// The provider.
	Provider string `json:"provider" example:"shopify"`
	// The provider's own spelling of its name.
	DisplayName string `json:"display_name" example:"Shopify"`
	// The type of the provider's events, as filters and patterns of subscriptions match it; with `*` as the last segment a
	// family of types.
	EventType string `json:"event_type" example:"orders.create"`
	// The type as the provider writes it. Patterns and filters can use this form too.
	WrittenAs string `json:"written_as" example:"orders/create"`
}

func (h *handlers) listTypes(_ context.Context, in *typesInput, p page.Request) ([]knownType, error) {
	for i, key := range in.Provider {
		var message string
		switch p := eventtypes.Of(h.events, key); {
		case p == nil:
			message = "there is no provider " + strconv.Quote(key) + eventtypes.Suggest(h.events, key)
		case p.NoWebhooks:
			message = p.Name + " has no webhooks here: its definition is for requests to its API alone"
		default:
			continue
		}
		return nil, apperr.Invalid(apperr.Detail{Location: fmt.Sprintf("query.provider[%d]", i), Rule: "exists",
			Message: message})
	}
	rows := []knownType{}
	for _, provider := range h.events.EventTypes() {
		if len(in.Provider) > 0 && !slices.Contains(in.Provider, provider.Slug) {
			continue
		}
		for i := range provider.Known {
			row := knownType{provider, &provider.Known[i]}
			if p.After == "" || row.key() != p.After && (row.key() > p.After) == p.Ascending {
				rows = append(rows, row)
			}
		}
	}
	slices.SortFunc(rows, func(a, b knownType) int {
		if !p.Ascending {
			a, b = b, a
		}
		return strings.Compare(a.key(), b.key())
	})
	return rows[:min(len(rows), p.Fetch())], nil
}

func viewType(_ context.Context, t *knownType) eventType {
	return eventType{Provider: t.provider.Slug, DisplayName: t.provider.Name, EventType: t.known.Type,
		WrittenAs: t.known.Written}
}
