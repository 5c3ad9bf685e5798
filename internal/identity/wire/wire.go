// Package wire defines the JSON types that several HTTP packages of its district share: users, the team, environments
// and role bindings. It has no operations.
package wire

import (
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
)

// TeamUser is a user of the team.
type TeamUser struct {
	// The id of the user.
	ID string `json:"id" example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The user's e-mail address, in lower case.
	Email string `json:"email" example:"ada@example.test"`
}

// ViewUser returns the wire form of a user.
func ViewUser(u members.User) TeamUser { return TeamUser{ID: u.ID, Email: u.Email} }

// Team is the team.
type Team struct {
	// The id of the team.
	ID string `json:"id" example:"team_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The name of the team.
	Name string `json:"name" example:"Analytical Engines"`
	// When the team was created.
	CreatedAt httpapi.Time `json:"created_at" example:"2026-11-02T09:30:00.000Z"`
}

// ViewTeam returns the wire form of a team.
func ViewTeam(t team.Team) Team {
	return Team{ID: string(t.ID), Name: t.Name, CreatedAt: httpapi.TimeMillis(t.CreatedMillis)}
}

// Environment is an environment of the team.
type Environment struct {
	// The id of the environment, as sent in `Environment-Id`.
	ID string `json:"id" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The name of the environment, unique in the team.
	Name string `json:"name" example:"development"`
	// `live`: production. `test`: any other use. API keys of the environment show the type. It restricts nothing.
	Type team.EnvironmentType `json:"type" example:"test"`
	Retention
	// The URLs to which the connect page may send browsers back.
	ConnectRedirectURLs []string `json:"connect_redirect_urls" example:"[\"https://app.example.com/connected\"]"`
	// When the environment was created.
	CreatedAt httpapi.Time `json:"created_at" example:"2026-11-02T09:30:00.000Z"`
}

// Retention says how long an environment keeps events. It is exported because only exported embedded structs are
// documented.
type Retention struct {
	// How many days the headers and bodies of events are kept. `null` means the configuration of the service (30 by
	// default), and no longer than the events.
	PayloadRetentionDays *int64 `json:"payload_retention_days" nullable:"true" minimum:"1" maximum:"365" example:"30"`
	// How many days events are kept, with their deliveries, attempts and idempotency keys. `null` means the configuration
	// of the service (90 by default).
	EventRetentionDays *int64 `json:"event_retention_days" nullable:"true" minimum:"1" maximum:"3650" example:"90"`
}

// ViewEnvironment returns the wire form of an environment.
func ViewEnvironment(e team.Environment) Environment {
	return Environment{ID: string(e.ID), Name: e.Name, Type: e.Type,
		Retention:           Retention{PayloadRetentionDays: e.PayloadDays, EventRetentionDays: e.EventDays},
		ConnectRedirectURLs: append([]string{}, e.RedirectURLs...),
		CreatedAt:           httpapi.TimeMillis(e.CreatedMillis)}
}

// ViewEnvironments returns the wire form of a list, which is never nil.
func ViewEnvironments(list []team.Environment) []Environment {
	out := make([]Environment, len(list))
	for i, e := range list {
		out[i] = ViewEnvironment(e)
	}
	return out
}

// Scope says where a role applies. It has one of its fields.
type Scope struct {
	// `true` for the whole team with all its environments. Either `team` or `environment_id` is present.
	Team bool `json:"team,omitempty" enum:"true" example:"true"`
	// A single environment. Either `team` or `environment_id` is present.
	EnvironmentID string `json:"environment_id,omitempty" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

// Check adds an error at the location of v if the scope does not have exactly one of its fields.
func (s Scope) Check(v *apperr.Violations) {
	if s.Team == (s.EnvironmentID != "") {
		v.Add("", "one_of", "must have either team or environment_id")
	}
}

// ViewScope returns the wire form of the scope of a role: an environment, or the whole team if env is empty.
func ViewScope(env id.Environment) Scope { return Scope{Team: env == "", EnvironmentID: string(env)} }

// PrincipalType is the kind of a principal that can have a role.
type PrincipalType access.Kind

// Schema returns the schema with the kinds.
func (PrincipalType) Schema(oas.Registry) *oas.Schema {
	return oas.Enum([]access.Kind{access.KindUser})
}

// Principal is the holder of a role.
type Principal struct {
	// The kind of principal. `user`: a member of the team.
	Type PrincipalType `json:"type" example:"user"`
	// The id of the principal.
	ID string `json:"id" minLength:"1" example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

// RoleBinding is a role that a principal has somewhere.
type RoleBinding struct {
	// The id of the role binding.
	ID string `json:"id" example:"rbd_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The principal that has the role.
	Principal Principal `json:"principal"`
	// The id of the role: the name of a system role, or the id of a custom role.
	Role string `json:"role" example:"developer"`
	// The name of the role.
	RoleName string `json:"role_name" example:"developer"`
	// Where the role applies.
	Scope Scope `json:"scope"`
	// When the role was granted.
	CreatedAt httpapi.Time `json:"created_at" example:"2026-11-02T09:30:00.000Z"`
	// When the role ends; `null` for never.
	ExpiresAt *httpapi.Time `json:"expires_at" nullable:"true" example:"2026-12-02T09:30:00.000Z"`
	// The id of the identity provider whose groups grant and revoke the role; `null` for a role that a user granted.
	ManagedBy *string `json:"managed_by" nullable:"true" example:"sso_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

// ViewRoleBinding returns the wire form of a role binding.
func ViewRoleBinding(b members.Binding) RoleBinding {
	out := RoleBinding{
		ID: b.ID, Principal: Principal{Type: PrincipalType(b.PrincipalKind), ID: b.PrincipalID}, Role: string(b.Role),
		RoleName: b.RoleName, Scope: ViewScope(b.Environment), CreatedAt: httpapi.TimeMillis(b.CreatedMillis),
		ExpiresAt: httpapi.TimePtr(b.ExpiresMillis),
	}
	if b.ManagedBy != "" {
		out.ManagedBy = &b.ManagedBy
	}
	return out
}

// ViewRoleBindings returns the wire form of a list, which is never nil.
func ViewRoleBindings(list []members.Binding) []RoleBinding {
	out := make([]RoleBinding, len(list))
	for i, b := range list {
		out[i] = ViewRoleBinding(b)
	}
	return out
}
