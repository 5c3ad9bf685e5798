package access

import "slices"

// Role is the id of a role: the name of a system role, or the id of a team's custom role.
type Role string

// The system roles. Their permissions are fixed.
const (
	// Owner has every permission.
	Owner Role = "owner"
	// Admin runs the team and everything in it.
	Admin Role = "admin"
	// Developer works on keys, connections, subscriptions and events.
	Developer Role = "developer"
	// Approver sees everything that approvals are about.
	Approver Role = "approver"
	// Auditor sees everything and changes nothing.
	Auditor Role = "auditor"
	// Viewer sees connections and webhooks.
	Viewer Role = "viewer"
)

// SystemRoles returns every system role.
func SystemRoles() []Role { return []Role{Owner, Admin, Developer, Approver, Auditor, Viewer} }

// Permissions returns the permissions of a system role; any other role has none here. The registry names the roles of
// each permission, so that a new permission is in no role until one is named. They are in the order of the registry,
// those of an auditor with the ones of a viewer first: the API lists them so, and clients may compare the lists.
func (r Role) Permissions() []Permission {
	has := func(i PermissionInfo, role Role) bool { return slices.Contains(i.Roles, role) }
	if r == Auditor {
		return append(selected(func(i PermissionInfo) bool { return has(i, r) && has(i, Viewer) }),
			selected(func(i PermissionInfo) bool { return has(i, r) && !has(i, Viewer) })...)
	}
	return selected(func(i PermissionInfo) bool { return has(i, r) })
}

// Rights returns the rights of a user who has the system role in the whole team.
func (r Role) Rights() Rights { return Rights{Team: r.Permissions()} }

// Meaning returns one sentence about a system role, for users who grant it.
func (r Role) Meaning() string {
	switch r {
	case Owner:
		return "Can do everything. Only owners can manage owners."
	case Admin:
		return "Manages the team, its members and everything in its environments, except owners."
	case Developer:
		return "Manages API keys, connections, subscriptions, events and replays."
	case Approver:
		return "Sees what a viewer sees, and the audit trail."
	case Auditor:
		return "Sees the team, its roles, keys, webhooks and audit trail, exports the trail, and changes nothing."
	case Viewer:
		return "Sees connections, subscriptions and events."
	default:
		return ""
	}
}
