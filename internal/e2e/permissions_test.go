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

// A role opens the operations of its permissions, and nothing else: each system role, given in the team and in one
// environment, and a role of each single permission, through one access token that outlives them all. A permitted
// request is recognised by its query, which no operation takes: it is refused for that, and has no effect.
func TestPermissionMatrix(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		samples := w.samples(f)
		elsewhere := w.environment("production")
		user := w.newcomer("somebody@example.test")
		token := w.login("somebody@example.test", w.password)

		opened := map[string]bool{}
		probe := func(s sample, in string, entered bool, holds bool) {
			w.t.Helper()
			a := w.call(byToken(token, in), s.op.Method, s.url("", "")+"?nobody-takes-this=1", nil)
			switch {
			case s.op.Environment && !entered:
				a.refused(w, http.StatusNotFound, apperr.CodeNotFound)
			case holds:
				require.Contains(w.t, a.violations(w), "query.nobody-takes-this unknown_parameter", s.op.ID)
				opened[s.op.ID] = true
			default:
				require.Contains(w.t, a.refused(w, http.StatusForbidden, apperr.CodeForbidden).Error.Message,
					string(s.op.Permission), s.op.ID)
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
				default: // what lies in environments and is not named by the header; TestRightsOfOneEnvironment bounds it
					probe(s, w.env, entered, own(s) || s.op.AnyEnvironment && slices.Contains(list, s.op.Permission))
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
		out = append(out, given{w.newRole("only "+string(p), p), []access.Permission{p}, p == access.EventsRead})
	}
	return out
}

// newRole makes a role and returns its id.
func (w *world) newRole(name string, permissions ...access.Permission) string {
	w.t.Helper()
	var made struct {
		ID string `json:"id"`
	}
	w.call(w.user(""), http.MethodPost, "/roles", object{"name": name, "permissions": permissions}).want(w,
		http.StatusCreated).into(w, &made)
	return made.ID
}

// roleBinding is as much of one as the tests look at.
type roleBinding struct {
	ID   string `json:"id"`
	Role string `json:"role"`
}

// newcomer adds a member without a role and returns the user's id.
func (w *world) newcomer(email string) string {
	w.t.Helper()
	user := w.addMember(w.team(), email, "viewer")
	var first []roleBinding
	w.call(w.user(""), http.MethodGet, "/roles/bindings?principal_id="+user, nil).want(w, http.StatusOK).into(w, &first)
	require.Len(w.t, first, 1)
	w.call(w.user(""), http.MethodDelete, "/roles/bindings/"+first[0].ID, nil).want(w, http.StatusNoContent)
	return user
}

// give gives a user a role, as the owner.
func (w *world) give(user, role string, scope object) roleBinding {
	w.t.Helper()
	var b roleBinding
	w.call(w.user(""), http.MethodPost, "/roles/bindings", object{"principal": object{"type": "user", "id": user},
		"role": role, "scope": scope}).
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

// A user with every right in one environment and none in the team reaches nothing of another one by the operations
// whose path or query names it, with any method. Operations that name none show only theirs.
func TestRightsOfOneEnvironment(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		own := w.environment("production")
		user := w.newcomer("somebody@example.test")
		all := w.newRole("everything", access.InEnvironments()...)
		w.give(user, all, object{"environment_id": own})
		caller := byToken(w.login("somebody@example.test", w.password), "")
		named := 0
		w.unchanged(func() {
			for _, s := range w.samples(f) {
				if s.op.AnyEnvironment && len(s.path) > 0 {
					w.callSample(caller, s).refused(w, http.StatusNotFound, apperr.CodeNotFound)
					named++
				}
			}
			for _, path := range []string{"/admin/audit-events", "/admin/audit-events/export"} {
				w.call(caller, http.MethodGet, path+"?environment_id="+w.env, nil).refused(w, http.StatusNotFound,
					apperr.CodeNotFound)
				w.call(caller, http.MethodGet, path, nil).refused(w, http.StatusForbidden, apperr.CodeForbidden)
			}
			w.call(caller, http.MethodPost, "/team/environments", object{"name": "more"}).refused(w, http.StatusForbidden,
				apperr.CodeForbidden)
			w.call(caller, http.MethodPost, "/api-keys", object{"name": "k", "environment_id": w.env}).refused(w,
				http.StatusNotFound, apperr.CodeNotFound)
			var rows []object
			w.call(caller, http.MethodGet, "/api-keys", nil).want(w, http.StatusOK).into(w, &rows)
			require.Empty(w.t, rows)
			w.call(caller, http.MethodGet, "/team/environments", nil).want(w, http.StatusOK).into(w, &rows)
			require.Len(w.t, rows, 1)
			require.Equal(w.t, own, rows[0]["id"])
		})
		require.Positive(w.t, named)
		w.call(caller, http.MethodPatch, "/team/environments/"+own, object{"name": "prod"}).want(w, http.StatusOK)
		w.call(caller, http.MethodGet, "/team/environments/"+own, nil).want(w, http.StatusOK)
		w.call(caller, http.MethodGet, "/admin/audit-events?environment_id="+own, nil).want(w, http.StatusOK)

		// A user who may enter an environment without that permission gets its name in the response.
		blind := w.newcomer("blind@example.test")
		w.give(blind, w.newRole("reader", access.EnvironmentsRead, access.AuditRead), object{"environment_id": own})
		w.give(blind, "viewer", object{"environment_id": w.env})
		c := byToken(w.login("blind@example.test", w.password), "")
		for method, path := range map[string]string{
			http.MethodPatch: "/team/environments/" + own, http.MethodGet: "/team/environments/" + w.env,
			http.MethodDelete: "/team/environments/" + own,
		} {
			w.call(c, method, path, nil).refused(w, http.StatusForbidden, apperr.CodeForbidden)
		}
		w.call(c, http.MethodGet, "/admin/audit-events?environment_id="+w.env, nil).refused(w, http.StatusForbidden,
			apperr.CodeForbidden)
	})
}
