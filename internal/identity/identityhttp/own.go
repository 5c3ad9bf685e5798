package identityhttp

import "sallyport/internal/identity/members"

// ownEnvironment is an environment as the signed-in user has it.
type ownEnvironment struct {
	// The id of the environment, as sent in `Environment-Id`.
	ID string `json:"id" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The name of the environment, unique in the team.
	Name string `json:"name" example:"development"`
	// `live`: production. `test`: any other use.
	Type environmentType `json:"type" example:"test"`
	// The permissions of the user's roles in the environment.
	Permissions []permission `json:"permissions" example:"[\"connections:read\"]"`
}

func ownEnvironments(p members.Profile) []ownEnvironment {
	out := make([]ownEnvironment, 0, len(p.Environments))
	for _, e := range p.Environments {
		out = append(out, ownEnvironment{
			ID: string(e.ID), Name: e.Name, Type: environmentType(e.Type), Permissions: convert[permission](p.Rights.In(e.ID)),
		})
	}
	return out
}
