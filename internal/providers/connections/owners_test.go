package connections_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/connections"
)

const member = "usr_06dyxk8z3pk6n5q1v7wc4t2m9r"

// asMember is a request of the member.
func (w *world) asMember() access.Principal {
	who := w.a
	who.Kind, who.ID = access.KindUser, member
	return who
}

// A member's credentials that are tested while the member is removed from the team are not stored, also for a
// connection that had none before.
func TestRemovedOwnerStoresNothing(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s).withAPI(t), newProvider(t)
		testing, failed := false, error(nil)
		remove := func(ctx context.Context) {
			committed := func() {}
			failed = s.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
				committed, err = connections.NewOwners(w.svc).Release(ctx, tx, w.a, []id.Environment{w.a.Environment}, member)
				return err
			})
			committed()
		}
		slow := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if testing {
				testing = false
				remove(r.Context())
			}
			p.ServeHTTP(rw, r)
		}))
		await.Close(t, slow)
		with := acmeConnection("with", slow.URL, bearer("good-token"))
		with.OwnerUserID = member
		w.create(t, w.a, with)
		without := acmeConnection("without", slow.URL, nil)
		without.Credentials = patch.Field[connections.Credentials]{}
		without.OwnerUserID, without.Pending = member, true
		w.create(t, w.a, without)
		for _, name := range []string{"with", "without"} {
			w.clock.Advance(time.Minute)
			testing = true
			_, err := w.svc.Update(t.Context(), w.asMember(), "acme", name, connections.Change{
				Credentials: patch.To(connections.Credentials{Values: bearer("good-token")})})
			require.False(t, testing, "the credentials were tested")
			requireCode(t, apperr.CodeConnectionNotReady, err)
			require.NoError(t, failed)
			c := w.read(t, name)
			require.Nil(t, c.Credentials)
			require.Equal(t, "owner_removed", c.StatusReason)
			require.NotEqual(t, connections.Active, c.Status)
			// The next one is removed when it is tested, and not before.
			require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
				_, err := tx.ExecContext(t.Context(), `UPDATE connections SET enabled_reason = '', status_reason = ''
					WHERE connection_id = 'without'`)
				return err
			}))
		}
	})
}

// A member who was disabled and is then removed leaves no connection that no one can enable.
func TestDisabledOwnerIsRemoved(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s).withAPI(t)
		in := acmeConnection("waiting", "https://api.example.com", nil)
		in.Credentials = patch.Field[connections.Credentials]{}
		in.OwnerUserID, in.Pending = member, true
		w.create(t, w.a, in)
		owners := connections.NewOwners(w.svc)
		for _, follow := range []func(tx *sql.Tx) (func(), error){
			func(tx *sql.Tx) (func(), error) {
				return owners.Suspend(t.Context(), tx, w.a, []id.Environment{w.a.Environment}, member)
			},
			func(tx *sql.Tx) (func(), error) {
				return owners.Release(t.Context(), tx, w.a, []id.Environment{w.a.Environment}, member)
			},
		} {
			require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
				_, err := follow(tx)
				return err
			}))
		}
		c := w.read(t, "waiting")
		require.Equal(t, connections.Pending, c.Status)
		require.Equal(t, "owner_removed", c.StatusReason)
	})
}

// A member has at most a hundred connections in an environment, so that disabling or removing them is a short
// transaction.
func TestOwnedConnectionsHaveALimit(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s).withAPI(t)
		for i := range 101 {
			in := acmeConnection(fmt.Sprintf("of-the-member-%d", i), "https://api.example.com", nil)
			in.Credentials = patch.Field[connections.Credentials]{}
			in.OwnerUserID, in.Pending = member, true
			_, _, err := w.svc.Create(t.Context(), w.a, in)
			if i < 100 {
				require.NoError(t, err)
			} else {
				require.Equal(t, []string{"connect.user_id limit"}, violations(t, err))
			}
			in.ConnectionID, in.OwnerUserID = ptr(fmt.Sprintf("of-another-%d", i)), "usr_06dyxk8z3pk6n5q1v7wc4t2m9s"
			if i == 100 {
				_, _, err = w.svc.Create(t.Context(), w.a, in)
				require.NoError(t, err, "others have limits of their own")
			}
		}
	})
}
