package identityhttp

import (
	"sallyport/internal/identity"
)

// ownEnvironment is an environment as the signed-in user has it.
type ownEnvironment struct {
	ID          string          `json:"id" doc:"The environment's id, as it goes into Environment-Id." example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Name        string          `json:"name" doc:"The environment's name, unique in the team." example:"development"`
	Type        environmentType `json:"type" doc:"What is at stake. live: production. test: anything else." example:"test"`
	Permissions []permission    `json:"permissions" doc:"What the user's roles permit in the environment." example:"[\"connections:read\"]"`
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
