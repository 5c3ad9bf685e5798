package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
)

// A claim whose commit may have gone through although its response was lost is released as soon as the database can
// show it, and only that claim.
func TestClaimInDoubt(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		_, err := store.DB.Schema().ExecContext(t.Context(), `CREATE TABLE polls (id text PRIMARY KEY, due_ms bigint NOT NULL,
			claim_id text NOT NULL, tries bigint NOT NULL)`)
		require.NoError(t, err)
		clk := clock.NewManual(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
		seen := make(chan string, 10)
		q := New(Config{DB: store.DB, Clock: clk, Logger: slog.New(slog.DiscardHandler), Node: "node", Lease: time.Minute,
			Poll: time.Second, Table: Table{Name: "polls", ID: "id", Due: "due_ms", Claim: "claim_id", Attempts: "tries"},
			Handle: func(_ context.Context, j *Job) (Outcome, error) {
				seen <- fmt.Sprint(j.ID, j.Attempt)
				return Done(nil), nil
			}})
		lost, held := q.claims.Next(), q.claims.Next()
		for jobID, claim := range map[string]string{"a": lost, "b": held} {
			_, err := store.DB.Write().ExecContext(t.Context(), "INSERT INTO polls VALUES ($1, $2, $3, 1)", jobID,
				clock.Millis(clk.Now().Add(time.Minute)), claim)
			require.NoError(t, err)
		}
		q.doubts.Add(held, context.DeadlineExceeded) // that one was not stored
		require.NoError(t, q.RunDue(t.Context()))
		require.Empty(t, seen)
		q.doubts.Add(lost, fmt.Errorf("commit: %w", db.ErrCommitUnknown))
		require.NoError(t, q.RunDue(t.Context()))
		require.Len(t, seen, 1)
		require.Equal(t, "a1", <-seen, "the claim that nobody held is no attempt")
		require.Empty(t, q.doubts.claims)
	})
}

// A table that cannot be a queue is refused immediately.
func TestTableThatIsNoQueue(t *testing.T) {
	t.Parallel()
	for _, table := range []Table{
		{Name: "t", ID: "id", Due: "due_ms"},
		{Name: "t", ID: "id", Claim: "claim_id"},
		{Name: "t", ID: "id", Due: "due_ms", Lease: "lease_ms", Attempts: "tries"},
	} {
		require.Panics(t, func() { New(Config{Table: table}) })
	}
}
