package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
)

// Rights that are taken on one node are gone on every node, at the latest after five seconds: a role that was
// taken, that lists less or that has ended, a member who was disabled or removed. The access tokens stay the same all
// along.
func TestRevocationReachesEveryNode(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		here, there := w, w
		if w.databaseURL != "" {
			there = w.node()
		}
		owner := w.user("")
		role := here.newRole("support", access.EventsRead, access.SubscriptionsRead)
		revoke := func(method, path string, body any, status int) { here.call(owner, method, path, body).want(w, status) }
		cases := []struct {
			name   string
			status int
			code   apperr.Code
			end    func(user, binding string)
		}{
			{"a role that was taken", http.StatusNotFound, apperr.CodeNotFound, func(_, binding string) {
				revoke(http.MethodDelete, "/roles/bindings/"+binding, nil, http.StatusNoContent)
			}},
			{"a role that has ended", http.StatusNotFound, apperr.CodeNotFound, func(_, binding string) {
				revoke(http.MethodPatch, "/roles/bindings/"+binding, object{"expires_at": w.clk.Now().Add(time.Second)},
					http.StatusOK)
				w.clk.Advance(time.Second)
			}},
			{"a member who was disabled", http.StatusUnauthorized, apperr.CodeUnauthorized, func(user, _ string) {
				revoke(http.MethodPatch, "/team/members/"+user, object{"disabled": true}, http.StatusOK)
			}},
			{"a member who was removed", http.StatusUnauthorized, apperr.CodeUnauthorized, func(user, _ string) {
				revoke(http.MethodDelete, "/team/members/"+user, nil, http.StatusNoContent)
			}},
			{"a role that lists less", http.StatusForbidden, apperr.CodeForbidden, func(string, string) {
				revoke(http.MethodPatch, "/roles/"+role, object{"permissions": []string{"webhook_subscriptions:read"}},
					http.StatusOK)
			}},
		}
		for i, c := range cases {
			email := string(rune('a'+i)) + "@example.test"
			user := w.newcomer(email)
			binding := here.give(user, role, object{"environment_id": w.env})
			token := byToken(there.login(email, w.password), w.env)
			there.call(token, http.MethodGet, "/webhook-events", nil).want(w, http.StatusOK)
			s := there.stream(token, "")
			c.end(user, binding.ID)
			at := w.clk.Now()
			for _, node := range []*world{there, here} {
				e := node.call(token, http.MethodGet, "/webhook-events", nil).refused(node, c.status, c.code)
				require.NotEmpty(w.t, e.Error.Message, c.name)
			}
			event, reason := s.ends()
			require.Equal(w.t, "stream.closed credential_ended", event+" "+reason, c.name)
			require.LessOrEqual(w.t, w.clk.Now().Sub(at), 5*time.Second, c.name)
		}
	})
}
