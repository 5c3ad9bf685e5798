package access

import "slices"

// Permission is a right of a user, written resource:verb. The set is closed: Permissions lists it.
type Permission string

// The permissions of the service; Registry says what each is about.
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

// Level says where a permission can hold.
type Level string

// The levels.
const (
	// LevelTeam is of what concerns the whole team and no environment. A role that is given in one environment does not
	// bring it.
	LevelTeam Level = "team"
	// LevelEnvironment is of what belongs to an environment. A role that is given in the team brings it in every
	// environment.
	LevelEnvironment Level = "environment"
	// LevelAccount is of a member's own account. Every member has it, and no role lists it.
	LevelAccount Level = "account"
)

// Levels returns every level.
func Levels() []Level { return []Level{LevelTeam, LevelEnvironment, LevelAccount} }

// PermissionInfo describes a permission.
type PermissionInfo struct {
	Permission Permission
	Level      Level
	// Meaning is one sentence for people who give roles.
	Meaning string
}

// Registry describes every permission.
func Registry() []PermissionInfo {
	return []PermissionInfo{
		{TeamRead, LevelTeam, "See the team."},
		{TeamWrite, LevelTeam, "Rename the team."},
		{MembersRead, LevelTeam, "See the members of the team and their roles."},
		{MembersWrite, LevelTeam, "Disable and remove members who are no owners, enable them and, with roles:write, " +
			"invite people, up to what one holds oneself."},
		{RolesRead, LevelTeam, "See roles and who has them."},
		{RolesWrite, LevelTeam, "Make roles, and give and take them, up to what one holds oneself."},
		{OwnersWrite, LevelTeam, "Do the same to owners: change and take their role, disable, enable and remove them."},
		{EnvironmentsRead, LevelEnvironment, "See environments and their settings."},
		{EnvironmentsWrite, LevelEnvironment, "Change and delete environments; held in the team, create them."},
		{APIKeysRead, LevelEnvironment, "See API keys, without their secrets."},
		{APIKeysWrite, LevelEnvironment, "Create, change, rotate, disable, revoke and delete API keys and their grants."},
		{ConnectionsRead, LevelEnvironment, "See connections and what is known of their webhook secrets."},
		{ConnectionsWrite, LevelEnvironment,
			"Create, change and delete connections, with their secrets and webhook enrolments."},
		{SubscriptionsRead, LevelEnvironment,
			"See webhook subscriptions and their statistics; without webhook_subscriptions:write the query of a forward URL " +
				"is masked."},
		{SubscriptionsWrite, LevelEnvironment, "Create, change, test and delete webhook subscriptions."},
		{EventsRead, LevelEnvironment,
			"Read webhook events with their payloads, their deliveries, replays and the live stream, and deliveries that " +
				"were refused."},
		{EventsReplay, LevelEnvironment, "Replay webhook events, one by one and in bulk."},
		{EventsWrite, LevelEnvironment, "Publish events."},
		{EventsExpunge, LevelEnvironment, "Remove the payload of a webhook event for good."},
		{AuditRead, LevelEnvironment, "Read the audit trail."},
		{AuditExport, LevelEnvironment, "Export the audit trail."},
		{SSORead, LevelTeam, "See identity providers, without their secrets."},
		{SSOWrite, LevelTeam, "Create, change, test and delete identity providers."},
		{AccountRead, LevelAccount, "See one's own account: profile, roles, sessions and authenticator app."},
		{AccountWrite, LevelAccount, "Change one's own password and authenticator app, and end one's own sessions."},
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

// Grantable returns every permission that a role can list: all but those of a member's own account.
func Grantable() []Permission { return atLevels(LevelTeam, LevelEnvironment) }

// InEnvironments returns every permission that can hold in one environment.
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

// OwnAccount returns what every member may do, whatever their roles.
func OwnAccount() []Permission { return atLevels(LevelAccount) }
