// Package access holds who asks: the principal of a request, the permissions of users and the grants of API keys.
// It decides nothing about storage; internal/identity fills it and internal/platform/httpapi enforces it.
package access

import (
	"context"
	"slices"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/ratelimit"
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
	// Grants are what the grants of an API key open; nil for everybody else.
	Grants *Grants
	// Connections bounds what the request of an API key may see and touch: that of the operation's route. It is set when
	// the operation is known, and means nothing for users.
	Connections Bound
	// Rate is the limit of an API key's requests where it has one of its own.
	Rate *ratelimit.Limit
	// IP is the client's address, RequestID the id of the request; both for the audit trail.
	IP        string
	RequestID string
}

// System returns the principal of the service itself, named by the part that acts.
func System(name string) Principal { return Principal{Kind: KindSystem, ID: name, Name: name} }

// Has reports whether a user has the permission in the scope of the request: in its environment, or in the team where
// it has none. Every member has the permissions of their own account.
func (p Principal) Has(want Permission) bool {
	if p.Kind == KindUser && slices.Contains(OwnAccount(), want) {
		return true
	}
	return p.HasIn(p.Environment, want)
}

// HasIn reports whether a user has the permission in an environment or, where env is empty, in the team. The service
// itself has every permission, an API key none.
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

// HasSomewhere reports whether a user has the permission in the team or in any environment.
func (p Principal) HasSomewhere(want Permission) bool {
	if p.HasIn("", want) {
		return true
	}
	for env := range p.Rights.Environments {
		if p.HasIn(env, want) {
			return true
		}
	}
	return false
}

// Enters reports whether a user has any permission in an environment; without one it does not exist for them. For the
// service itself every environment does.
func (p Principal) Enters(env id.Environment) bool {
	return p.Kind == KindSystem || p.Kind == KindUser && p.Rights.Enters(env)
}

// RequireIn returns nil where the principal has the permission in an environment or, where env is empty, in the team;
// else forbidden, or not_found where the environment does not exist for them. It is for operations that any environment
// lets in to.
func (p Principal) RequireIn(env id.Environment, want Permission) error {
	switch {
	case p.HasIn(env, want):
		return nil
	case env == "":
		return apperr.New(apperr.CodeForbidden, "The user lacks the permission "+string(want)+" in the team")
	case p.Enters(env):
		return apperr.New(apperr.CodeForbidden, "The user lacks the permission "+string(want)+" in the environment")
	default:
		return apperr.NotFound("environment")
	}
}

// MayRoute reports whether an API key's grants open the route, be it for one connection only.
func (p Principal) MayRoute(want Route) bool {
	return p.Kind == KindAPIKey && !p.Grants.Bound(want).Empty()
}

// Through returns the principal for an operation of the route: an API key bounded to the connections for which the
// route is open to it.
func (p Principal) Through(route Route) Principal {
	p.Connections = p.Grants.Bound(route)
	return p
}

// View is what of its environment the principal may see. An API key sees what its Connections hold, everybody else all.
func (p Principal) View() View {
	if p.Kind == KindAPIKey {
		return View{Environment: p.Environment, Connections: p.Connections}
	}
	return Whole(p.Environment)
}

// Require returns nil where the principal may do what is about a connection, or about all that the environment has, for
// which the id is empty; else grant_denied, whether or not there is such a connection. route is that of the operation.
func (p Principal) Require(route Route, connectionID string) error {
	if p.View().Connections.Covers(connectionID) {
		return nil
	}
	whom := "this connection"
	if connectionID == "" {
		whom = "all connections; name one that it is granted"
	}
	return apperr.New(apperr.CodeGrantDenied, "The API key lacks the grant "+string(route)+" for "+whom)
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
