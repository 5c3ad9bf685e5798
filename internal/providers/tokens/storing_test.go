package tokens

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/credentials"
)

// lockable are connections, of which other transactions have some.
type lockable struct {
	Accounts

	taken []string
}

// Lock implements Accounts.
func (l lockable) Lock(_ context.Context, _ *sql.Tx, uuids []string) ([]string, error) {
	free := slices.DeleteFunc(slices.Clone(uuids), func(uuid string) bool { return slices.Contains(l.taken, uuid) })
	slices.Sort(free)
	return free, nil
}

// Outcomes of the same moment are stored in one transaction, which announces each of them to other processes. One whose
// connection another transaction has is left, and does not keep the others waiting. One that cannot be stored makes all
// be stored alone, and then nothing of the transaction has taken effect. While the database is away, none waits for
// others.
func TestOutcomesAreStoredTogether(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		clk := clock.NewManual(time.UnixMilli(1_000_000))
		svc := New(Config{DB: s.DB, Clock: clk, Accounts: lockable{taken: []string{"taken"}},
			Vault: credentials.NewVault(credentials.Config{DB: s.DB})})
		_, err := s.DB.Write().ExecContext(t.Context(), "CREATE TABLE outcomes (uuid text)")
		require.NoError(t, err)
		var transactions []*sql.Tx
		add := func(uuid string, failure error) *joining {
			return &joining{held: &row{connectionUUID: uuid}, stored: make(chan bool, 1),
				write: func(ctx context.Context, tx *sql.Tx, announced bool) error {
					require.True(t, announced)
					transactions = append(transactions, tx)
					_, err := tx.ExecContext(ctx, "INSERT INTO outcomes (uuid) VALUES ($1)", uuid)
					return errors.Join(err, failure)
				}}
		}
		store := func(batch ...*joining) (stored []bool) {
			transactions = nil
			svc.renewed.storeTogether(batch)
			for _, o := range batch {
				stored = append(stored, <-o.stored)
			}
			return stored
		}
		outcomes := func() (uuids []string) {
			rows, err := s.DB.Read().QueryContext(t.Context(), "SELECT uuid FROM outcomes ORDER BY uuid")
			require.NoError(t, err)
			require.NoError(t, db.Each(rows, func(r *sql.Rows) error {
				var uuid string
				err := r.Scan(&uuid)
				uuids = append(uuids, uuid)
				return err
			}))
			return uuids
		}
		changes := func(since int64) db.Changes {
			c, err := s.DB.Changes(t.Context(), "credentials", since)
			require.NoError(t, err)
			return c
		}

		require.Equal(t, []bool{false}, store(add("one", nil)), "one alone needs no other goroutine")
		require.Empty(t, transactions)

		require.Equal(t, []bool{true, false, true}, store(add("b", nil), add("taken", nil), add("a", nil)))
		require.Equal(t, []string{"a", "b"}, outcomes())
		require.Len(t, slices.Compact(transactions), 1)
		before := changes(0)
		require.Equal(t, []string{"a", "b"}, before.Keys)

		require.Equal(t, []bool{false, false}, store(add("c", nil), add("d", errLost)))
		require.Equal(t, []string{"a", "b"}, outcomes())
		require.Empty(t, changes(before.Version).Keys)

		require.Equal(t, []bool{false, false}, store(add("e", driver.ErrBadConn), add("f", nil)))
		require.NotEmpty(t, transactions)
		require.Equal(t, []bool{false, false}, store(add("e", nil), add("f", nil)), "a moment later")
		require.Empty(t, transactions, "one by one, which do not wait for each other")
		clk.Advance(2 * awayInterval)
		require.Equal(t, []bool{true, true}, store(add("e", nil), add("f", nil)))
	})
}

// An outcome that comes while the process ends is stored, alone.
func TestOutcomeAtTheEnd(t *testing.T) {
	t.Parallel()
	svc := New(Config{Clock: clock.System()})
	joiners := []*joiner{svc.renewed, svc.failed}
	for _, j := range joiners {
		require.False(t, j.join(&row{}, nil), "before the start")
	}
	require.NoError(t, svc.startJoining(t.Context()))
	require.NoError(t, svc.stop(t.Context()))
	for _, j := range joiners {
		for range 3 * maxTogether { // more than wait for a batch
			require.False(t, j.join(&row{}, nil))
		}
	}
}

// quiet are accounts of which nothing is in memory.
type quiet struct{ Accounts }

// Forget implements Accounts.
func (quiet) Forget(string) {}

// New tokens exist nowhere else: while the database is away they wait for it, longer than the lease, until another node
// is known to have taken that. An outcome without tokens has no meaning after the lease.
func TestNewTokensOutliveTheLease(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		for name, c := range map[string]struct {
			tokens bool
			last   error
			want   error
		}{
			"new tokens, and the database comes back": {tokens: true},
			"new tokens, and another node was faster": {tokens: true, last: errLost, want: errLost},
			"a failure": {want: driver.ErrBadConn},
		} {
			clk := clock.NewManual(time.UnixMilli(1_000_000))
			svc := New(Config{DB: s.DB, Clock: clk, Accounts: quiet{}, Logger: slog.New(slog.DiscardHandler)})
			j := svc.failed
			if c.tokens {
				j = svc.renewed
			}
			held := &row{connectionUUID: "c", leaseUntil: clk.Now().Add(time.Minute)}
			const away = 2 * time.Minute
			back := clk.Now().Add(away)
			stored := make(chan error, 1)
			go func() {
				stored <- svc.store(t.Context(), j, held, func(context.Context, *sql.Tx, bool) error {
					if clk.Now().Before(back) {
						return driver.ErrBadConn
					}
					return c.last
				})
			}()
			await.Condition(t, name, func() bool {
				if clk.Timers() > 0 {
					clk.Advance(storeInterval)
				}
				return len(stored) == 1
			})
			err := <-stored
			require.ErrorIs(t, err, c.want, name)
			require.Equal(t, c.tokens, !clk.Now().Before(back), "%s: it ended at %s", name, clk.Now())
		}
	})
}
