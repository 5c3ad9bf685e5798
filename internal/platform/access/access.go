// Package access holds who asks: the principal of a request, the permissions of users and the grants of API keys.
// It decides nothing about storage; internal/identity fills it and internal/platform/httpapi enforces it.
package access

import (
	"context"
	"slices"

	"sallyport/internal/platform/id"
)

// Route is a group of operations that a grant opens to an API key. The set is closed: Routes lists it.
type Route string

// The routes that a grant can open.
const (
	// RouteWebhooks opens subscriptions and replays, and reading events.
	RouteWebhooks Route = "webhooks"
	// RouteEvents opens reading events.
	RouteEvents Route = "events"
	// RouteEventsWrite opens publishing events.
	RouteEventsWrite Route = "events:write"
	// RouteConnections opens connections.
	RouteConnections Route = "connections"
)

// Routes returns every route.
func Routes() []Route { return []Route{RouteWebhooks, RouteEvents, RouteEventsWrite, RouteConnections} }

// Kind says what a principal is.
type Kind string

// The kinds of principal.
const (
	KindUser   Kind = "user"
	KindAPIKey Kind = "api_key"
	// KindSystem is the service itself and its command line.
	KindSystem Kind = "system"
)

// Principal is who makes a request.
type Principal struct {
	Kind Kind
	// ID is the id of the user or API key.
	ID string
	// Name is the user's e-mail address or the key's name, for the audit trail.
	Name string
	Team id.Team
	// Environment is the environment the request is scoped to; empty where the operation has none.
	Environment id.Environment
	// Rights is what a user may do, and where.
	Rights Rights
	// Session is the id of the sign-in behind a user's request.
	Session string
	// Allowed holds the routes open to an API key, denials already subtracted.
	Allowed []Route
	// IP is the client's address, RequestID the id of the request; both for the audit trail.
	IP        string
	RequestID string
}

// System returns the principal of the service itself, named by the part that acts.
func System(name string) Principal { return Principal{Kind: KindSystem, ID: name, Name: name} }

// Has reports whether a user has the permission in the scope of the request: in its environment, or in the team where it
// has none. Every member has the permissions of their own account.
func (p Principal) Has(want Permission) bool {
	if p.Kind == KindUser && slices.Contains(OwnAccount(), want) {
		return true
	}
	return p.HasIn(p.Environment, want)
}

// HasIn reports whether a user has the permission in an environment or, where env is empty, in the team. The service itself
// has every permission, an API key none.
func (p Principal) HasIn(env id.Environment, want Permission) bool {
	switch p.Kind {
	case KindSystem:
		return true
	case KindUser:
		return p.Rights.Has(env, want)
	case KindAPIKey:
		return false
	default:
		return false
	}
}

// Enters reports whether a user has any permission in an environment; without one it does not exist for them. For the service
// itself every environment does.
func (p Principal) Enters(env id.Environment) bool {
	return p.Kind == KindSystem || p.Kind == KindUser && p.Rights.Enters(env)
}

// MayRoute reports whether an API key's grants open the route.
func (p Principal) MayRoute(want Route) bool {
	return p.Kind == KindAPIKey && slices.Contains(p.Allowed, want)
}

type contextKey struct{}

// With returns a context that carries the principal.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// From returns the principal of the context; without one it is the zero Principal, which may do nothing.
func From(ctx context.Context) Principal {
	p, _ := ctx.Value(contextKey{}).(Principal)
	return p
}
