// Package access holds who asks: the principal of a request, the permissions of users and the grants of API keys.
// It decides nothing about storage; internal/identity fills it and internal/platform/httpapi enforces it.
package access

import (
	"context"
	"slices"

	"sallyport/internal/platform/id"
)

// Permission is a right of a user, written resource:verb. The set is closed: Permissions lists it.
type Permission string

// The permissions of the service.
const (
	TeamRead          Permission = "team:read"
	TeamWrite         Permission = "team:write"
	EnvironmentsRead  Permission = "environments:read"
	EnvironmentsWrite Permission = "environments:write"
	// AccountRead and AccountWrite are about a user's own account: their sessions and their password.
	AccountRead        Permission = "account:read"
	AccountWrite       Permission = "account:write"
	APIKeysRead        Permission = "api_keys:read" //nolint:gosec // the name of a permission, no credential
	APIKeysWrite       Permission = "api_keys:write"
	ConnectionsRead    Permission = "connections:read"
	ConnectionsWrite   Permission = "connections:write"
	SubscriptionsRead  Permission = "webhook_subscriptions:read"
	SubscriptionsWrite Permission = "webhook_subscriptions:write"
	EventsRead         Permission = "webhook_events:read"
	EventsReplay       Permission = "webhook_events:replay"
	// EventsWrite is about publishing events.
	EventsWrite Permission = "webhook_events:write"
	// AuditRead is about reading the audit trail, AuditExport about taking all of it away.
	AuditRead   Permission = "audit:read"
	AuditExport Permission = "audit:export"
	// EventsExpunge is about removing an event's payload for good.
	EventsExpunge Permission = "webhook_events:expunge"
)

// Permissions returns every permission.
func Permissions() []Permission {
	return []Permission{TeamRead, TeamWrite, EnvironmentsRead, EnvironmentsWrite, AccountRead, AccountWrite,
		APIKeysRead, APIKeysWrite, ConnectionsRead, ConnectionsWrite, SubscriptionsRead, SubscriptionsWrite,
		EventsRead, EventsReplay, EventsWrite, EventsExpunge, AuditRead, AuditExport}
}

// Role is a fixed set of permissions.
type Role string

// The system roles.
const (
	Owner     Role = "owner"
	Admin     Role = "admin"
	Developer Role = "developer"
	Viewer    Role = "viewer"
)

// Roles returns every role, strongest first.
func Roles() []Role { return []Role{Owner, Admin, Developer, Viewer} }

// Permissions returns what the role allows; an unknown role allows nothing.
func (r Role) Permissions() []Permission {
	switch r {
	case Owner:
		return Permissions()
	case Admin:
		return without(AuditExport)
	case Developer:
		return without(TeamWrite, EnvironmentsWrite, AuditRead, AuditExport)
	case Viewer:
		return []Permission{TeamRead, AccountRead, AccountWrite, ConnectionsRead, SubscriptionsRead, EventsRead}
	default:
		return nil
	}
}

// without returns every permission but some.
func without(some ...Permission) []Permission {
	return slices.DeleteFunc(Permissions(), func(p Permission) bool { return slices.Contains(some, p) })
}

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
	// Role is set for users.
	Role Role
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

// Has reports whether a user's role allows the permission.
func (p Principal) Has(want Permission) bool {
	return p.Kind == KindUser && slices.Contains(p.Role.Permissions(), want)
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
