package access

import (
	"slices"

	"sallyport/internal/platform/id"
)

// Rights are the permissions of a user, by where they hold. The rights on a member's own account are not among them:
// every member has those.
type Rights struct {
	// Team holds everywhere: in every environment, and for what concerns none.
	Team []Permission
	// Environments holds in one environment each, beyond Team.
	Environments map[id.Environment][]Permission
}

// Add adds the permissions of a role that is given in an environment, or in the team where env is empty. In an
// environment only those count that can hold there.
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

// Has reports whether the permission holds in an environment or, where env is empty, in the team.
func (r Rights) Has(env id.Environment, want Permission) bool {
	return slices.Contains(r.Team, want) || env != "" && slices.Contains(r.Environments[env], want)
}

// In returns what holds in an environment or, where env is empty, in the team, in the order of Registry.
func (r Rights) In(env id.Environment) []Permission {
	all := Grantable()
	if env != "" {
		all = InEnvironments()
	}
	return slices.DeleteFunc(all, func(p Permission) bool { return !r.Has(env, p) })
}

// Enters reports whether anything holds in the environment.
func (r Rights) Enters(env id.Environment) bool {
	if env == "" {
		return false
	}
	inside := InEnvironments()
	holds := func(p Permission) bool { return slices.Contains(inside, p) }
	return len(r.Environments[env]) > 0 || slices.ContainsFunc(r.Team, holds)
}

// Missing returns the first of the permissions that does not hold there, if there is one.
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
