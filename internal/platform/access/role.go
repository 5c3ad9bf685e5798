package access

import "slices"

// Role is the id of a role: the name of a system role, or the id of one that a team has made.
type Role string

// The system roles. Their permissions are fixed.
const (
	// Owner may do everything.
	Owner Role = "owner"
	// Admin runs the team and everything in it.
	Admin Role = "admin"
	// Developer builds: keys, connections, subscriptions, events.
	Developer Role = "developer"
	// Approver sees what there is to decide about.
	Approver Role = "approver"
	// Auditor sees everything and changes nothing.
	Auditor Role = "auditor"
	// Viewer sees connections and webhooks.
	Viewer Role = "viewer"
)

// SystemRoles returns every system role.
func SystemRoles() []Role { return []Role{Owner, Admin, Developer, Approver, Auditor, Viewer} }

// Permissions returns what a system role brings; any other brings nothing here.
func (r Role) Permissions() []Permission {
	reading := []Permission{ConnectionsRead, SubscriptionsRead, EventsRead}
	switch r {
	case Owner:
		return Grantable()
	case Admin:
		return without(AuditExport)
	case Developer:
		return without(TeamRead, TeamWrite, EnvironmentsWrite, AuditRead, AuditExport, SSORead, SSOWrite)
	case Approver, Viewer:
		return reading
	case Auditor:
		return append(reading, TeamRead, EnvironmentsRead, APIKeysRead, AuditRead, AuditExport, SSORead)
	default:
		return nil
	}
}

// Rights returns what somebody may do who has the system role in the whole team.
func (r Role) Rights() Rights { return Rights{Team: r.Permissions()} }

// without returns every permission that a role can list but some.
func without(some ...Permission) []Permission {
	return slices.DeleteFunc(Grantable(), func(p Permission) bool { return slices.Contains(some, p) })
}
