package access

import (
	"slices"

	"sallyport/internal/platform/id"
)

// Rights holds the permissions of a user by scope. It does not contain the permissions on a member's own account, which
// every member has.
type Rights struct {
	// Team applies everywhere: in every environment, and to data without an environment.
	Team []Permission
	// Environments applies in one environment each, in addition to Team.
	Environments map[id.Environment][]Permission
}

// Add adds the permissions of a role that is granted in an environment or, if env is empty, in the team. In an
// environment it adds only permissions that can apply there.
func (r *Rights) Add(env id.Environment, list []Permission) {
	if env == "" {
		r.Team = merge(r.Team, list)
		return
	}
	inside := InEnvironments()
	list = slices.DeleteFunc(slices.Clone(list), func(p Permission) bool { return !slices.Contains(inside, p) })
	if r.Environments == nil {
		r.Environments = map[id.Environment][]Permission{}
	}
	r.Environments[env] = merge(r.Environments[env], list)
}

// Has reports whether the permission applies in an environment or, if env is empty, in the team.
func (r Rights) Has(env id.Environment, want Permission) bool {
	return slices.Contains(r.Team, want) || env != "" && slices.Contains(r.Environments[env], want)
}

// In returns the permissions in an environment or, if env is empty, in the team, in the order of Registry.
func (r Rights) In(env id.Environment) []Permission {
	all := Grantable()
	if env != "" {
		all = InEnvironments()
	}
	return slices.DeleteFunc(all, func(p Permission) bool { return !r.Has(env, p) })
}

// Enters reports whether any permission applies in the environment.
func (r Rights) Enters(env id.Environment) bool {
	if env == "" {
		return false
	}
	inside := InEnvironments()
	holds := func(p Permission) bool { return slices.Contains(inside, p) }
	return len(r.Environments[env]) > 0 || slices.ContainsFunc(r.Team, holds)
}

// Missing returns the first of the permissions that does not apply in an environment or, if env is empty, in the team.
func (r Rights) Missing(env id.Environment, list []Permission) (Permission, bool) {
	i := slices.IndexFunc(list, func(p Permission) bool { return !r.Has(env, p) })
	if i < 0 {
		return "", false
	}
	return list[i], true
}

func merge(list, more []Permission) []Permission {
	for _, p := range more {
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list
}
