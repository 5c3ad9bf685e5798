package e2e_test

import (
	"net/http"
	"strings"
)

type teamFixtures struct {
	// spare is an environment that holds nothing.
	spare string
}

// Team covers the team and its environments.
func (capabilities) Team() capability {
	return capability{
		create: func(w *world, _ credentials, f fixtures) {
			w.t.Helper()
			f.put(teamFixtures{spare: w.created(w.user(""), "/team/environments", object{"name": "spare-for-" + f.name})})
		},
		samples: func(_ *world, f fixtures) []sample {
			spare := map[string]string{"id": part[teamFixtures](f).spare}
			suffix := strings.ToLower(f.environment[4:])
			return []sample{
				{id: "get-team", status: http.StatusOK},
				{id: "update-team", body: object{"name": "Sample"}, status: http.StatusOK},
				{id: "create-environment", body: object{"name": "sample-" + suffix, "type": "live"},
					status: http.StatusCreated},
				{id: "list-environments", status: http.StatusOK},
				{id: "get-environment", path: spare, status: http.StatusOK},
				{id: "update-environment", path: spare, body: object{"name": "renamed-" + suffix}, status: http.StatusOK},
				{id: "delete-environment", path: spare, status: http.StatusNoContent},
			}
		},
		lists: map[string]map[string]string{"list-environments": {}},
	}
}
