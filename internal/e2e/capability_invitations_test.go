package e2e_test

import (
	"net/http"
	"time"
)

type invitationFixtures struct {
	// pending is the id of one of two invitations; token is that of the other.
	pending, token string
}

// Invitations covers invitations to the team.
func (capabilities) Invitations() capability {
	return capability{
		create: func(w *world, _ credentials, f fixtures) {
			w.t.Helper()
			f.put(invitationFixtures{
				token:   w.invite("invited-"+f.name+"@example.test", object{"environment_id": f.environment}).Token,
				pending: w.invite("pending-"+f.name+"@example.test", object{"team": true}).ID,
			})
			// another link may be had
			w.change("UPDATE invitations SET sent_ms = sent_ms - 60000, created_ms = created_ms - 60000")
		},
		samples: func(w *world, f fixtures) []sample {
			own := part[invitationFixtures](f)
			pending := map[string]string{"id": own.pending}
			return []sample{
				{id: "create-invitation", body: object{"email": "sample-" + f.name + "@example.test", "role": "viewer",
					"scope":      object{"environment_id": f.environment},
					"expires_at": w.clk.Now().Add(24 * time.Hour)}, status: http.StatusCreated},
				{id: "list-invitations", status: http.StatusOK},
				{id: "get-invitation", path: pending, status: http.StatusOK},
				{id: "resend-invitation", path: pending, status: http.StatusOK},
				{id: "revoke-invitation", path: pending, status: http.StatusNoContent},
				{id: "accept-invitation", path: map[string]string{"token": own.token},
					body: object{"password": "staple battery horse"}, status: http.StatusCreated},
			}
		},
		lists: map[string]map[string]string{"list-invitations": {"status": "pending", "email": "a@example.test"}},
		references: map[string]func(r foreign, operation, field string){
			"create-invitation environment_id": foreign.scope,
		},
	}
}
