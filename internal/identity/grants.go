package identity

import "sallyport/internal/platform/access"

// Effect says whether a grant opens its routes or closes them.
type Effect string

// The effects.
const (
	Allow Effect = "allow"
	Deny  Effect = "deny"
)

// Effects returns every effect.
func Effects() []Effect { return []Effect{Allow, Deny} }

// Grant opens routes to an API key, or closes them. What no grant opens stays closed, and a denial wins over any number
// of grants that allow. A grant covers every connection of the key's environment.
type Grant struct {
	// ID is given by the service.
	ID     string
	Effect Effect
	Routes []access.Route
}

// allowedRoutes is what the grants open together. Webhooks brings events with it, because a subscription without its
// events is of no use; it does so only while neither is denied.
func allowedRoutes(grants []Grant) []access.Route {
	allowed, denied := make(map[access.Route]bool), make(map[access.Route]bool)
	for _, g := range grants {
		// An effect that is not known here closes: it can only come from a later release.
		set := denied
		if g.Effect == Allow {
			set = allowed
		}
		for _, r := range g.Routes {
			set[r] = true
		}
	}
	if allowed[access.RouteWebhooks] && !denied[access.RouteWebhooks] {
		allowed[access.RouteEvents] = true
	}
	var out []access.Route
	for _, r := range access.Routes() {
		if allowed[r] && !denied[r] {
			out = append(out, r)
		}
	}
	return out
}
