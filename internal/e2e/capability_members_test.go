package e2e_test

import (
	"net/http"
	"time"

	"github.com/stretchr/testify/require"
)

type memberFixtures struct {
	// role is one of two that the team has made and no one has; member is a user with one role, binding.
	role, member, binding string
}

// Members covers members, roles and their bindings.
func (capabilities) Members() capability {
	return capability{
		create: func(w *world, _ credentials, f fixtures) {
			w.t.Helper()
			var own memberFixtures
			for _, n := range []string{"first", "second"} {
				own.role = w.created(w.user(""), "/roles", object{"name": n + " of " + f.name,
					"permissions": []string{"webhook_events:read"}})
				own.member = w.addMember(w.team(), n+"-"+f.name+"@example.test", "viewer")
			}
			var bindings []roleBinding
			w.call(w.user(""), http.MethodGet, "/roles/bindings?principal_id="+own.member, nil).want(w, http.StatusOK).into(w,
				&bindings)
			require.Len(w.t, bindings, 1)
			own.binding = bindings[0].ID
			f.put(own)
		},
		samples: memberSamples,
		lists: map[string]map[string]string{
			"list-roles": {},
			"list-role-bindings": {"principal_id": "usr_x", "role": "viewer",
				"environment_id": ownEnvironment},
			"list-members": {"email": "a@example.test", "role": "viewer", "disabled": "false"},
		},
		references: map[string]func(r foreign, operation, field string){
			"create-role-binding environment_id": foreign.scope,
		},
	}
}

func memberSamples(w *world, f fixtures) []sample {
	own := part[memberFixtures](f)
	role, member := map[string]string{"id": own.role}, map[string]string{"id": own.member}
	binding := map[string]string{"id": own.binding}
	return []sample{
		{id: "list-permissions", status: http.StatusOK},
		{id: "list-roles", status: http.StatusOK},
		{id: "create-role", body: object{"name": "sample-" + own.role, "description": "A sample.",
			"permissions": []string{"webhook_events:read"}}, status: http.StatusCreated},
		{id: "get-role", path: role, status: http.StatusOK},
		{id: "update-role", path: role, body: object{"name": "renamed-" + own.role, "description": "",
			"permissions": []string{"audit:read"}}, status: http.StatusOK},
		{id: "delete-role", path: role, status: http.StatusNoContent},
		{id: "list-role-bindings", status: http.StatusOK},
		{id: "create-role-binding", body: object{"principal": object{"type": "user", "id": own.member},
			"role": "developer", "scope": object{"environment_id": f.environment},
			"expires_at": w.clk.Now().Add(24 * time.Hour)}, status: http.StatusCreated},
		{id: "get-role-binding", path: binding, status: http.StatusOK},
		{id: "update-role-binding", path: binding, body: object{"expires_at": w.clk.Now().Add(48 * time.Hour)},
			status: http.StatusOK},
		{id: "delete-role-binding", path: binding, status: http.StatusNoContent},
		{id: "list-members", status: http.StatusOK},
		{id: "get-member", path: member, status: http.StatusOK},
		{id: "update-member", path: member, body: object{"disabled": true}, status: http.StatusOK},
		{id: "remove-member", path: member, status: http.StatusNoContent},
	}
}
