// Package access describes the caller of a request: its principal, the permissions of users and the grants of API keys.
// It stores nothing. internal/identity creates principals, and internal/platform/httpapi enforces their rights.
package access

import (
	"context"
	"slices"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi/oas"
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
	// RouteCatalog opens the catalog of providers and actions, for reading.
	RouteCatalog Route = "catalog"
	// RouteActions opens running actions, as far as the grant's actions, methods and risk permit.
	RouteActions Route = "actions"
)

// Routes returns every route.
func Routes() []Route {
	return []Route{RouteWebhooks, RouteEvents, RouteEventsWrite, RouteConnections, RouteCatalog, RouteActions}
}

// Schema returns the schema with the routes, for the API.
func (Route) Schema(oas.Registry) *oas.Schema { return oas.Enum(Routes()) }

// Permissions returns the permissions that a user needs for all operations that the route opens to an API key. A user
// who opens the route to a key gives these away.
func (r Route) Permissions() []Permission {
	return selected(func(i PermissionInfo) bool { return slices.Contains(i.Routes, r) })
}

// APIKeyScheme is the beginning of every API key, and of no other credential.
const APIKeyScheme = "spk_"

// Kind says what a principal is.
type Kind string

// The kinds of principal.
const (
	KindUser   Kind = "user"
	KindAPIKey Kind = "api_key"
	// KindSystem is the service itself and its command line.
	KindSystem Kind = "system"
)

// kinds returns every kind.
func kinds() []Kind { return []Kind{KindUser, KindAPIKey, KindSystem} }

// Schema returns the schema with the kinds, for the API.
func (Kind) Schema(oas.Registry) *oas.Schema { return oas.Enum(kinds()) }

// Principal is the caller of a request.
type Principal struct {
	Kind Kind
	// ID is the id of the user or API key.
	ID string
	// Name is the user's e-mail address or the key's name, for the audit trail.
	Name string
	Team id.Team
	// Environment is the environment that the request works on; empty if the operation works on none.
	Environment id.Environment
	// Rights holds a user's permissions by scope.
	Rights Rights
	// Session is the id of the sign-in behind a user's request.
	Session string
	// Grants holds the grants of an API key; nil for other principals.
	Grants *Grants
	// Connections limits an API key to the connections that its grants open for the operation's route. It is set when the
	// operation is known, and has no meaning for users.
	Connections Bound
	// Rate is the API key's own rate limit; nil if it has none.
	Rate *ratelimit.Limit
	// IP is the client's address and RequestID the id of the request, for the audit trail.
	IP        string
	RequestID string
}

// System returns the principal of the service itself. name is the part of the service that acts.
func System(name string) Principal { return Principal{Kind: KindSystem, ID: name, Name: name} }

// Has reports whether a user has the permission in the scope of the request: in its environment, or in the team if it
// has none. Every member has the permissions on their own account.
func (p Principal) Has(want Permission) bool {
	if p.Kind == KindUser && slices.Contains(OwnAccount(), want) {
		return true
	}
	return p.HasIn(p.Environment, want)
}

// HasIn reports whether the principal has the permission in an environment or, if env is empty, in the team. The
// service itself has every permission. An API key has none.
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

// Enters reports whether the principal has any permission in an environment. Without one the environment does not exist
// for a user. The service itself enters every environment.
func (p Principal) Enters(env id.Environment) bool {
	return p.Kind == KindSystem || p.Kind == KindUser && p.Rights.Enters(env)
}

// RequireIn returns nil if the principal has the permission in an environment or, if env is empty, in the team. Else it
// returns forbidden, or not_found if the environment does not exist for the principal. It is for operations that
// declare AnyEnvironment.
func (p Principal) RequireIn(env id.Environment, want Permission) error {
	switch {
	case p.HasIn(env, want):
		return nil
	case env == "":
		return apperr.New(apperr.CodeForbidden, "The user does not have the permission "+string(want)+" in the team")
	case p.Enters(env):
		return apperr.New(apperr.CodeForbidden,
			"The user does not have the permission "+string(want)+" in the environment")
	default:
		return apperr.NotFound("environment")
	}
}

// MayRoute reports whether an API key's grants open the route for at least one connection.
func (p Principal) MayRoute(want Route) bool {
	return p.Kind == KindAPIKey && !p.Grants.Bound(want).Empty()
}

// Through returns the principal for an operation of the route. An API key is limited to the connections for which its
// grants open the route.
func (p Principal) Through(route Route) Principal {
	p.Connections = p.Grants.Bound(route)
	return p
}

// View returns the part of its environment that the principal may see. An API key sees its Connections, any other
// principal everything.
func (p Principal) View() View {
	if p.Kind == KindAPIKey {
		return View{Environment: p.Environment, Connections: p.Connections}
	}
	return Whole(p.Environment)
}

// Require returns nil if the principal may work on a connection or, if connectionID is empty, on the whole environment.
// Else it returns grant_denied, whether or not the connection exists. route is the route of the operation.
func (p Principal) Require(route Route, connectionID string) error {
	if p.View().Connections.Covers(connectionID) {
		return nil
	}
	scope := "this connection"
	if connectionID == "" {
		scope = "all connections; name a connection that it has a grant for"
	}
	return apperr.New(apperr.CodeGrantDenied, "The API key has no grant for the route "+string(route)+" on "+scope)
}

type contextKey struct{}

// With returns a context that carries the principal.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// From returns the principal of the context, or the zero Principal, which has no rights.
func From(ctx context.Context) Principal {
	p, _ := ctx.Value(contextKey{}).(Principal)
	return p
}
