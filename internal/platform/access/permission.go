package access

import "slices"

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

// PermissionInfo describes a permission.
type PermissionInfo struct {
	Permission Permission
	Level      Level
	// Meaning is one sentence for users who grant roles.
	Meaning string
}

// Registry describes every permission.
func Registry() []PermissionInfo {
	return []PermissionInfo{
		{TeamRead, LevelTeam, "See the team."},
		{TeamWrite, LevelTeam, "Rename the team."},
		{MembersRead, LevelTeam, "See the members of the team and their roles."},
		{MembersWrite, LevelTeam, "Disable, enable and remove members who are not owners. With roles:write, invite " +
			"users and grant them roles within your own permissions."},
		{RolesRead, LevelTeam, "See roles and the members who have them."},
		{RolesWrite, LevelTeam, "Create, grant and revoke roles within your own permissions."},
		{OwnersWrite, LevelTeam, "Change and revoke the role of owners, and disable, enable and remove owners."},
		{EnvironmentsRead, LevelEnvironment, "See environments and their settings."},
		{EnvironmentsWrite, LevelEnvironment, "Update and delete environments; create them if granted in the team."},
		{APIKeysRead, LevelEnvironment, "See API keys, without their secrets."},
		{APIKeysWrite, LevelEnvironment, "Create, update, rotate, disable, revoke and delete API keys and their grants."},
		{ConnectionsRead, LevelEnvironment, "See connections and the hints of their webhook secrets."},
		{ConnectionsWrite, LevelEnvironment,
			"Create, update and delete connections, their secrets and webhook enrolments."},
		{SubscriptionsRead, LevelEnvironment,
			"See webhook subscriptions and their statistics. The query of a forward URL is masked without " +
				"webhook_subscriptions:write."},
		{SubscriptionsWrite, LevelEnvironment, "Create, update, test and delete webhook subscriptions."},
		{EventsRead, LevelEnvironment,
			"Read webhook events, their payloads, deliveries and replays, the event stream, and rejected webhooks."},
		{EventsReplay, LevelEnvironment, "Replay webhook events, one by one and in bulk."},
		{EventsWrite, LevelEnvironment, "Publish events."},
		{EventsExpunge, LevelEnvironment, "Permanently remove the payload of a webhook event."},
		{AuditRead, LevelEnvironment, "Read the audit trail."},
		{AuditExport, LevelEnvironment, "Export the audit trail."},
		{SSORead, LevelTeam, "See identity providers, without their secrets."},
		{SSOWrite, LevelTeam, "Create, update, test and delete identity providers."},
		{AccountRead, LevelAccount, "See your own account: profile, roles, sessions and authenticator app."},
		{AccountWrite, LevelAccount, "Change your own password and authenticator app, and end your own sessions."},
	}
}

// Permissions returns every permission, in the order of Registry.
func Permissions() []Permission {
	var list []Permission
	for _, i := range Registry() {
		list = append(list, i.Permission)
	}
	return list
}

// Grantable returns every permission that a role can list: all except those on a member's own account.
func Grantable() []Permission { return atLevels(LevelTeam, LevelEnvironment) }

// InEnvironments returns every permission that can apply in one environment.
func InEnvironments() []Permission { return atLevels(LevelEnvironment) }

func atLevels(levels ...Level) []Permission {
	var list []Permission
	for _, i := range Registry() {
		if slices.Contains(levels, i.Level) {
			list = append(list, i.Permission)
		}
	}
	return list
}

// OwnAccount returns the permissions that every member has with any role.
func OwnAccount() []Permission { return atLevels(LevelAccount) }
