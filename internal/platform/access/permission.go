package access

import (
	"slices"
	"sync"

	"sallyport/internal/platform/httpapi/oas"
)

// Permission is a right of a user in the form resource:verb. Permissions returns the closed set.
type Permission string

// The permissions of the service. Registry describes each.
const (
	TeamRead           Permission = "team:read"
	TeamWrite          Permission = "team:write"
	MembersRead        Permission = "members:read"
	MembersWrite       Permission = "members:write"
	RolesRead          Permission = "roles:read"
	RolesWrite         Permission = "roles:write"
	OwnersWrite        Permission = "owners:write"
	EnvironmentsRead   Permission = "environments:read"
	EnvironmentsWrite  Permission = "environments:write"
	AccountRead        Permission = "account:read"
	AccountWrite       Permission = "account:write"
	APIKeysRead        Permission = "api_keys:read" //nolint:gosec // the name of a permission, no credential
	APIKeysWrite       Permission = "api_keys:write"
	ConnectionsRead    Permission = "connections:read"
	ConnectionsWrite   Permission = "connections:write"
	ConfigsRead        Permission = "provider_configs:read"
	ConfigsWrite       Permission = "provider_configs:write"
	CatalogRead        Permission = "catalog:read"
	CatalogWrite       Permission = "catalog:write"
	CatalogRisk        Permission = "catalog:risk"
	ActionsExecute     Permission = "actions:execute"
	ExecutionsRead     Permission = "executions:read"
	CallsRead          Permission = "calls:read"
	SubscriptionsRead  Permission = "webhook_subscriptions:read"
	SubscriptionsWrite Permission = "webhook_subscriptions:write"
	EventsRead         Permission = "webhook_events:read"
	EventsReplay       Permission = "webhook_events:replay"
	EventsWrite        Permission = "webhook_events:write"
	EventsExpunge      Permission = "webhook_events:expunge"
	AuditRead          Permission = "audit:read"
	AuditExport        Permission = "audit:export"
	SSORead            Permission = "sso:read"
	SSOWrite           Permission = "sso:write"
)

// Level is the scope in which a permission can apply.
type Level string

// The levels.
const (
	// LevelTeam is the level of data that belongs to the team and to no environment. A role that is granted in one
	// environment does not give such a permission.
	LevelTeam Level = "team"
	// LevelEnvironment is the level of data that belongs to an environment. A role that is granted in the team gives such
	// a permission in every environment.
	LevelEnvironment Level = "environment"
	// LevelAccount is the level of a member's own account. Every member has its permissions, and no role lists them.
	LevelAccount Level = "account"
)

// Levels returns every level.
func Levels() []Level { return []Level{LevelTeam, LevelEnvironment, LevelAccount} }

// Schema returns the schema with the levels, for the API.
func (Level) Schema(oas.Registry) *oas.Schema { return oas.Enum(Levels()) }

// PermissionInfo describes a permission.
type PermissionInfo struct {
	Permission Permission
	Level      Level
	// Roles are the system roles that permit it. A permission without any is in no role.
	Roles []Role
	// Routes are the routes of API keys that open operations which require it of users.
	Routes []Route
	// Meaning is one sentence for users who grant roles.
	Meaning string
}

// Registry describes every permission. The list is shared and read-only.
func Registry() []PermissionInfo { return registry() }

// registry is built once, because every request of a user looks up permissions.
var registry = sync.OnceValue(func() []PermissionInfo { //nolint:gochecknoglobals // a constant
	everyone, builders := SystemRoles(), []Role{Owner, Admin, Developer}
	return []PermissionInfo{
		{Permission: TeamRead, Level: LevelTeam, Roles: []Role{Owner, Admin, Auditor},
			Meaning: "See the team."},
		{Permission: TeamWrite, Level: LevelTeam, Roles: []Role{Owner, Admin},
			Meaning: "Rename the team."},
		{Permission: MembersRead, Level: LevelTeam, Roles: []Role{Owner, Admin, Auditor},
			Meaning: "See the members of the team and their roles."},
		{Permission: MembersWrite, Level: LevelTeam, Roles: []Role{Owner, Admin},
			Meaning: "Disable, enable and remove members who are not owners. With roles:write, invite users and grant them " +
				"roles " +
				"within your own permissions."},
		{Permission: RolesRead, Level: LevelTeam, Roles: []Role{Owner, Admin, Auditor},
			Meaning: "See roles and the members who have them."},
		{Permission: RolesWrite, Level: LevelTeam, Roles: []Role{Owner, Admin},
			Meaning: "Create, grant and revoke roles within your own permissions."},
		{Permission: OwnersWrite, Level: LevelTeam, Roles: []Role{Owner},
			Meaning: "Change and revoke the role of owners, and disable, enable and remove owners."},
		{Permission: EnvironmentsRead, Level: LevelEnvironment, Roles: []Role{Owner, Admin, Developer, Auditor},
			Meaning: "See environments and their settings."},
		{Permission: EnvironmentsWrite, Level: LevelEnvironment, Roles: []Role{Owner, Admin},
			Meaning: "Update and delete environments; create them if granted in the team."},
		{Permission: APIKeysRead, Level: LevelEnvironment, Roles: []Role{Owner, Admin, Developer, Auditor},
			Meaning: "See API keys, without their secrets."},
		{Permission: APIKeysWrite, Level: LevelEnvironment, Roles: builders,
			Meaning: "Create, update, rotate, disable, revoke and delete API keys and their grants."},
		{Permission: ConnectionsRead, Level: LevelEnvironment, Roles: everyone, Routes: []Route{RouteConnections},
			Meaning: "See connections and the hints of their webhook secrets."},
		{Permission: ConnectionsWrite, Level: LevelEnvironment, Roles: builders, Routes: []Route{RouteConnections},
			Meaning: "Create, update and delete connections, their secrets and webhook enrolments."},
		{Permission: ConfigsRead, Level: LevelEnvironment, Roles: everyone,
			Meaning: "See provider configurations, without their secrets."},
		{Permission: ConfigsWrite, Level: LevelEnvironment, Roles: builders,
			Meaning: "Create, update and delete provider configurations, with their OAuth clients and base URLs."},
		{Permission: CatalogRead, Level: LevelEnvironment, Roles: everyone, Routes: []Route{RouteCatalog},
			Meaning: "See providers, their actions, and imports of descriptions of APIs."},
		{Permission: CatalogWrite, Level: LevelEnvironment, Roles: builders,
			Meaning: "Import descriptions of APIs, and activate and delete imports."},
		{Permission: CatalogRisk, Level: LevelEnvironment, Roles: []Role{Owner, Admin},
			Meaning: "Override risks of actions with lower ones, and trust documents to state them."},
		{Permission: ActionsExecute, Level: LevelEnvironment, Roles: builders, Routes: []Route{RouteActions},
			Meaning: "Run actions with the credentials of connections."},
		{Permission: ExecutionsRead, Level: LevelEnvironment, Roles: []Role{Owner, Admin, Developer, Approver, Auditor},
			Routes:  []Route{RouteActions},
			Meaning: "See the executions of all callers, with their inputs and outputs. An API key sees its own."},
		{Permission: CallsRead, Level: LevelEnvironment, Roles: []Role{Owner, Admin, Developer, Approver, Auditor},
			Meaning: "See which calls were made to providers, and what was decided about them."},
		{Permission: SubscriptionsRead, Level: LevelEnvironment, Roles: everyone, Routes: []Route{RouteWebhooks},
			Meaning: "See webhook subscriptions and their statistics. The query of a forward URL is masked without " +
				"webhook_subscriptions:write."},
		{Permission: SubscriptionsWrite, Level: LevelEnvironment, Roles: builders, Routes: []Route{RouteWebhooks},
			Meaning: "Create, update, test and delete webhook subscriptions."},
		{Permission: EventsRead, Level: LevelEnvironment, Roles: everyone, Routes: []Route{RouteWebhooks, RouteEvents},
			Meaning: "Read webhook events, their payloads, deliveries and replays, the event stream, and rejected webhooks."},
		{Permission: EventsReplay, Level: LevelEnvironment, Roles: builders, Routes: []Route{RouteWebhooks},
			Meaning: "Replay webhook events, one by one and in bulk."},
		{Permission: EventsWrite, Level: LevelEnvironment, Roles: builders, Routes: []Route{RouteEventsWrite},
			Meaning: "Publish events."},
		{Permission: EventsExpunge, Level: LevelEnvironment, Roles: builders, Routes: []Route{RouteWebhooks},
			Meaning: "Permanently remove the payload of a webhook event."},
		{Permission: AuditRead, Level: LevelEnvironment, Roles: []Role{Owner, Admin, Approver, Auditor},
			Meaning: "Read the audit trail."},
		{Permission: AuditExport, Level: LevelEnvironment, Roles: []Role{Owner, Auditor},
			Meaning: "Export the audit trail."},
		{Permission: SSORead, Level: LevelTeam, Roles: []Role{Owner, Admin, Auditor},
			Meaning: "See identity providers, without their secrets."},
		{Permission: SSOWrite, Level: LevelTeam, Roles: []Role{Owner, Admin},
			Meaning: "Create, update, test and delete identity providers."},
		{Permission: AccountRead, Level: LevelAccount,
			Meaning: "See your own account: profile, roles, sessions and authenticator app."},
		{Permission: AccountWrite, Level: LevelAccount,
			Meaning: "Change your own password and authenticator app, and end your own sessions."},
	}
})

// Permissions returns every permission, in the order of Registry.
func Permissions() []Permission { return selected(func(PermissionInfo) bool { return true }) }

// Schema returns the schema with the permissions, for the API.
func (Permission) Schema(oas.Registry) *oas.Schema { return oas.Enum(Permissions()) }

// Grantable returns every permission that a role can list: all except those on a member's own account.
func Grantable() []Permission { return atLevels(LevelTeam, LevelEnvironment) }

// InEnvironments returns every permission that can apply in one environment.
func InEnvironments() []Permission { return atLevels(LevelEnvironment) }

func atLevels(levels ...Level) []Permission {
	return selected(func(i PermissionInfo) bool { return slices.Contains(levels, i.Level) })
}

// selected returns the permissions that accept returns true for, in the order of Registry.
func selected(accept func(PermissionInfo) bool) []Permission {
	var list []Permission
	for _, i := range registry() {
		if accept(i) {
			list = append(list, i.Permission)
		}
	}
	return list
}

// OwnAccount returns the permissions that every member has with any role.
func OwnAccount() []Permission { return atLevels(LevelAccount) }
