package identityhttp

import (
	"sallyport/internal/identity"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
)

// ownBinding is a role of the signed-in user.
type ownBinding struct {
	ID        string        `json:"id" doc:"The binding's id." example:"rbd_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Role      string        `json:"role" doc:"The role's id: the name of a system role, or the id of a custom one." example:"developer"`
	RoleName  string        `json:"role_name" doc:"The role's name." example:"developer"`
	Scope     scope         `json:"scope" doc:"Where the role holds."`
	CreatedAt httpapi.Time  `json:"created_at" doc:"When the role was given." example:"2026-11-02T09:30:00.000Z"`
	ExpiresAt *httpapi.Time `json:"expires_at" nullable:"true" doc:"When the role ends by itself; null for never." example:"2026-12-02T09:30:00.000Z"`
}

// scope says where a role holds. It has one of its fields.
type scope struct {
	Team          bool   `json:"team,omitempty" doc:"True for the whole team, with all its environments; else absent." example:"true"`
	EnvironmentID string `json:"environment_id,omitempty" doc:"The one environment; absent for the whole team." example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

// ownEnvironment is an environment as the signed-in user has it.
type ownEnvironment struct {
	ID          string          `json:"id" doc:"The environment's id, as it goes into Environment-Id." example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Name        string          `json:"name" doc:"The environment's name, unique in the team." example:"development"`
	Type        environmentType `json:"type" doc:"What is at stake. live: production. test: anything else." example:"test"`
	Permissions []permission    `json:"permissions" doc:"What the user's roles permit in the environment." example:"[\"connections:read\"]"`
}

func scopeOf(env id.Environment) scope {
	return scope{Team: env == "", EnvironmentID: string(env)}
}

func ownBindings(list []identity.Binding) []ownBinding {
	out := make([]ownBinding, 0, len(list))
	for _, b := range list {
		out = append(out, ownBinding{
			ID: b.ID, Role: string(b.Role), RoleName: b.RoleName, Scope: scopeOf(b.Environment),
			CreatedAt: httpapi.TimeMillis(b.CreatedMillis), ExpiresAt: httpapi.TimePtr(b.ExpiresMillis),
		})
	}
	return out
}

func ownEnvironments(p identity.Profile) []ownEnvironment {
	out := make([]ownEnvironment, 0, len(p.Environments))
	for _, e := range p.Environments {
		out = append(out, ownEnvironment{
			ID: string(e.ID), Name: e.Name, Type: environmentType(e.Type), Permissions: convert[permission](p.Rights.In(e.ID)),
		})
	}
	return out
}
