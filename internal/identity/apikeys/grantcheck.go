package apikeys

import (
	"slices"

	"sallyport/internal/identity/members"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

// checkGrantable returns privilege_escalation if the grants open more to a key of the environment than the actor may do
// there themselves. A grant that denies gives nothing.
func checkGrantable(actor access.Principal, env id.Environment, grants []Grant) error {
	return checkOpened(actor, env, slices.DeleteFunc(slices.Clone(grants), func(g Grant) bool {
		return g.Effect != Allow
	}))
}

// checkOpened is checkGrantable for the routes of grants, regardless of their effect: removing a deny opens what it
// closed.
func checkOpened(actor access.Principal, env id.Environment, grants []Grant) error {
	var given []access.Permission
	for _, g := range grants {
		for _, r := range g.Routes {
			given = append(given, r.Permissions()...)
		}
	}
	return members.MayGive(actor, env, given)
}

// requireKeyAccess returns nil where the actor has the permission on the keys of the environment. Without any, its keys
// do not exist for them.
func requireKeyAccess(actor access.Principal, env id.Environment, want access.Permission) error {
	switch {
	case actor.HasIn(env, want):
		return nil
	case actor.HasIn(env, access.APIKeysRead):
		return apperr.New(apperr.CodeForbidden, "The user does not have the permission "+string(want)+
			" in the key's environment")
	default:
		return apperr.NotFound("API key")
	}
}
