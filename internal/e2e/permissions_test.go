package e2e_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
)

// given is a role, and what it lists; inOne are those that are given in one environment, too.
type given struct {
	id          string
	permissions []access.Permission
	inOne       bool
}

// Promise: what a role lists, and nothing else, is open to whoever has it, on every operation: each system role, given in the team
// and in one environment, and a role of each single permission, through one access token that outlives them all. A request that is let in
// is recognised by its query, which no operation takes: it is refused for that, and works on nothing.
func TestPermissionMatrix(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		samples := w.samples(w.furnish(w.dev(), w.env, "acme"))
		elsewhere := w.environment("production")
		user := w.addMember(w.team(), "somebody@example.test", "viewer")
		token := w.login("somebody@example.test", w.password)
		var first []roleBinding
		w.call(w.user(""), http.MethodGet, "/roles/bindings?principal_id="+user, nil).want(w, http.StatusOK).into(w, &first)
		require.Len(w.t, first, 1)
		w.call(w.user(""), http.MethodDelete, "/roles/bindings/"+first[0].ID, nil).want(w, http.StatusNoContent)

		opened := map[string]bool{}
		probe := func(s sample, in string, entered bool, holds bool) {
			w.t.Helper()
			a := w.call(byToken(token, in), s.op.Method, s.url("", "")+"?nobody-takes-this=1", nil)
			switch {
			case s.op.Environment && !entered:
				a.refused(w, http.StatusNotFound, apperr.CodeNotFound)
			case holds:
				require.Contains(w.t, a.faults(w), "query.nobody-takes-this unknown_parameter", s.op.ID)
				opened[s.op.ID] = true
			default:
				require.Contains(w.t, a.refused(w, http.StatusForbidden, apperr.CodeForbidden).Error.Message, string(s.op.Permission), s.op.ID)
			}
		}
		inside := func(p access.Permission) bool { return slices.Contains(access.InEnvironments(), p) }
		own := func(s sample) bool { return slices.Contains(access.OwnAccount(), s.op.Permission) }
		everywhere := func(list []access.Permission) {
			for _, s := range samples {
				if !s.op.Public {
					probe(s, w.env, slices.ContainsFunc(list, inside), own(s) || slices.Contains(list, s.op.Permission))
				}
			}
		}
		inOne := func(list []access.Permission) {
			entered := slices.ContainsFunc(list, inside)
			for _, s := range samples {
				switch {
				case s.op.Public:
				case s.op.Environment:
					probe(s, w.env, entered, slices.Contains(list, s.op.Permission))
					probe(s, elsewhere, false, false)
				case !inside(s.op.Permission): // what lies in environments, and is not named by the header, is for each capability to bound
					probe(s, w.env, entered, own(s))
				}
			}
		}
		everywhere(nil)
		for _, role := range w.everyRole() {
			w.whileGiven(user, role.id, object{"team": true}, func() { everywhere(role.permissions) })
			if role.inOne {
				w.whileGiven(user, role.id, object{"environment_id": w.env}, func() { inOne(role.permissions) })
			}
		}
		everywhere(nil)
		for _, s := range samples {
			require.True(w.t, s.op.Public || opened[s.op.ID], "nobody is let in to %s", s.op.ID)
		}
	})
}

// everyRole returns the system roles, and makes and returns a role of each single permission.
func (w *world) everyRole() []given {
	w.t.Helper()
	var out []given
	for _, role := range access.SystemRoles() {
		out = append(out, given{string(role), role.Permissions(), role != access.Owner})
	}
	for _, p := range access.Grantable() {
		var made struct {
			ID string `json:"id"`
		}
		w.call(w.user(""), http.MethodPost, "/roles", object{"name": "only " + string(p), "permissions": []access.Permission{p}}).
			want(w, http.StatusCreated).into(w, &made)
		out = append(out, given{made.ID, []access.Permission{p}, p == access.EventsRead})
	}
	return out
}

// roleBinding is as much of one as the tests look at.
type roleBinding struct {
	ID   string `json:"id"`
	Role string `json:"role"`
}

// give gives a user a role, as the owner.
func (w *world) give(user, role string, scope object) roleBinding {
	w.t.Helper()
	var b roleBinding
	w.call(w.user(""), http.MethodPost, "/roles/bindings", object{"principal": object{"type": "user", "id": user}, "role": role, "scope": scope}).
		want(w, http.StatusCreated).into(w, &b)
	return b
}

// whileGiven gives a user a role, for as long as fn takes.
func (w *world) whileGiven(user, role string, scope object, fn func()) {
	w.t.Helper()
	b := w.give(user, role, scope)
	fn()
	w.call(w.user(""), http.MethodDelete, "/roles/bindings/"+b.ID, nil).want(w, http.StatusNoContent)
}
