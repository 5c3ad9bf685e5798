package connections_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/connections"
)

// A change of a connection drops that one from memory and no other, on the process that made it and on those that
// follow: one key that changes a connection again and again does not make the webhooks of others read the database.
func TestAChangeReadsOnlyItsConnection(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		other := w.newService(t)
		c := w.create(t, w.b, github("theirs"))
		w.create(t, w.a, github("mine"))
		processes := []*connections.Service{w.svc, other}
		var before []*connections.Inbound
		lookup := func(svc *connections.Service, segment string) *connections.Inbound {
			t.Helper()
			in, err := svc.Lookup(t.Context(), segment)
			require.NoError(t, err)
			return in
		}
		for _, svc := range processes {
			lookup(svc, "mine")
			before = append(before, lookup(svc, "theirs"), lookup(svc, c.PathToken))
			require.NoError(t, svc.Refresh(t.Context()))
		}
		_, err := s.DB.Write().ExecContext(t.Context(), `UPDATE connections SET webhook = 'unreadable' WHERE uuid = $1`,
			c.UUID)
		require.NoError(t, err)
		for n := range int64(50) {
			_, err := w.svc.Update(t.Context(), w.a, "github", "mine", connections.Change{MaxBodyBytes: ptr(n + 1)})
			require.NoError(t, err)
			var after []*connections.Inbound
			for _, svc := range processes {
				require.NoError(t, svc.Refresh(t.Context()))
				require.Equal(t, n+1, lookup(svc, "mine").Connection.Webhook.MaxBodyBytes)
				after = append(after, lookup(svc, "theirs"), lookup(svc, c.PathToken))
			}
			for i := range before {
				require.Same(t, before[i], after[i])
			}
		}
	})
}

// A process of the previous release raises the version without saying what it has changed: the others read again.
func TestChangesOfThePreviousRelease(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		w.create(t, w.a, github("acme"))
		require.NoError(t, w.svc.Refresh(t.Context()))
		_, err := w.svc.Lookup(t.Context(), "acme")
		require.NoError(t, err)
		for _, statement := range []string{`UPDATE connections SET status = 'disabled'`,
			`UPDATE cache_versions SET version = version + 1`} {
			_, err := s.DB.Write().ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
		require.NoError(t, w.svc.Refresh(t.Context()))
		in, err := w.svc.Lookup(t.Context(), "acme")
		require.NoError(t, err)
		require.Equal(t, connections.Disabled, in.Connection.Status)
	})
}

// A process knows its own changes of connections, tokens and aliases immediately and those of another after its next
// Refresh, in any order of changes: no path leads to a connection that it no longer names.
func TestPathsFollowTheirConnections(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		processes := []*connections.Service{w.newService(t), w.newService(t)}
		round := 0
		rapid.Check(t, func(rt *rapid.T) {
			round++
			p := w.a
			ids := []string{fmt.Sprint("one", round), fmt.Sprint("two", round)}
			aliases := append(slices.Clone(ids), fmt.Sprint("alias", round))
			segments := slices.Clone(aliases)
			agree := func(svc *connections.Service) {
				fresh := w.newService(t)
				for _, segment := range segments {
					want, wantErr := fresh.Lookup(t.Context(), segment)
					got, err := svc.Lookup(t.Context(), segment)
					require.Equal(rt, apperr.Is(wantErr, apperr.CodeNotFound), apperr.Is(err, apperr.CodeNotFound), segment)
					if wantErr == nil {
						require.NoError(rt, err)
						require.Equal(rt, want.Connection, got.Connection, segment)
						require.Equal(rt, want.ByAlias, got.ByAlias)
					}
				}
			}
			last := 0
			for range rapid.IntRange(1, 10).Draw(rt, "steps") {
				at := rapid.IntRange(0, 1).Draw(rt, "process")
				svc := processes[at]
				if at != last { // what the other has changed may not show yet, and may be changed
					require.NoError(rt, svc.Refresh(t.Context()))
					last = at
				}
				connectionID := rapid.SampledFrom(ids).Draw(rt, "connection")
				var err error
				var c connections.Connection
				switch rapid.IntRange(0, 4).Draw(rt, "kind") {
				case 0, 1:
					in := github(connectionID)
					in.OnConflict = connections.ConflictUpdate
					c, _, err = svc.Create(t.Context(), p, in)
				case 2:
					c, err = svc.RotatePath(t.Context(), p, "github", connectionID)
				case 3:
					c, err = svc.Update(t.Context(), p, "github", connectionID,
						connections.Change{Alias: patch.To(rapid.SampledFrom(aliases).Draw(rt, "alias"))})
				default:
					err = svc.Delete(t.Context(), p, "github", connectionID)
				}
				if !apperr.Is(err, apperr.CodeNotFound) && !apperr.Is(err, apperr.CodeAliasTaken) {
					require.NoError(rt, err)
				}
				if c.PathToken != "" {
					segments = append(segments, c.PathToken)
				}
				agree(svc)
			}
			for _, svc := range processes {
				require.NoError(rt, svc.Refresh(t.Context()))
				agree(svc)
			}
		})
	})
}

// A path that another process has just given to a known connection works immediately, without a Refresh: a provider may
// post to it as soon as it has been shown.
func TestANewPathOfAnotherProcess(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		other := w.newService(t)
		w.create(t, w.a, github("acme"))
		_, err := other.Lookup(t.Context(), "acme")
		require.NoError(t, err)
		rotated, err := w.svc.RotatePath(t.Context(), w.a, "github", "acme")
		require.NoError(t, err)
		in, err := other.Lookup(t.Context(), rotated.PathToken)
		require.NoError(t, err)
		require.Equal(t, rotated.UUID, in.Connection.UUID)
		_, err = w.svc.Update(t.Context(), w.a, "github", "acme", connections.Change{Alias: patch.To("moved")})
		require.NoError(t, err)
		in, err = other.Lookup(t.Context(), "moved")
		require.NoError(t, err)
		require.True(t, in.ByAlias)
	})
}

// A failed Refresh is no reason to read everything again. After the drop that follows when it keeps failing, everything
// is read again.
func TestAProcessThatCannotFollow(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		w.create(t, w.a, github("acme"))
		status := func() connections.Status {
			t.Helper()
			in, err := w.svc.Lookup(t.Context(), "acme")
			require.NoError(t, err)
			return in.Connection.Status
		}
		store := func(status connections.Status) {
			t.Helper()
			_, err := s.DB.Write().ExecContext(t.Context(), `UPDATE connections SET status = $1`, string(status))
			require.NoError(t, err)
		}
		unreachable, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, w.svc.Refresh(t.Context()))
		require.Equal(t, connections.Active, status())
		store(connections.Disabled)
		require.Error(t, w.svc.Refresh(unreachable))
		require.Equal(t, connections.Active, status())
		for _, c := range w.svc.Module().Caches {
			c.Drop()
		}
		require.Equal(t, connections.Disabled, status())
	})
}

// A change whose commit got no response may take effect after this process has looked at the connection. It is seen
// like a change of another process.
func TestACommitThatTakesEffectLate(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		c := w.create(t, w.a, github("acme"))
		require.NoError(t, w.svc.Refresh(t.Context()))
		status := func() connections.Status {
			t.Helper()
			in, err := w.svc.Lookup(t.Context(), c.PathToken)
			require.NoError(t, err)
			return in.Connection.Status
		}
		require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(t.Context(), `UPDATE connections SET status = 'disabled'`); err != nil {
				return err
			}
			if err := db.Bump(t.Context(), tx, connections.Collection, c.UUID); err != nil {
				return err
			}
			// The caller of the change has lost its connection, and does this meanwhile.
			w.svc.ProvidersChanged() // drops the snapshot
			require.Equal(t, connections.Active, status())
			require.NoError(t, w.svc.Refresh(t.Context()))
			return nil
		}))
		require.NoError(t, w.svc.Refresh(t.Context()))
		require.Equal(t, connections.Disabled, status())
	})
}
