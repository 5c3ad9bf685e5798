package jobs_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/jobs/jobstest"
	"sallyport/internal/platform/testkit"
)

// conform runs the suite over a table that it creates.
func conform(t *testing.T, table jobs.Table, create, insert string) {
	t.Helper()
	jobstest.Conform(t, func(t *testing.T, store testkit.Store) jobstest.Fixture {
		t.Helper()
		_, err := store.DB.Schema().ExecContext(t.Context(), create)
		require.NoError(t, err)
		return jobstest.Fixture{Table: table,
			Insert: func(ctx context.Context, tx *sql.Tx, key string, due time.Time) (string, error) {
				jobID := id.NewUUID()
				_, err := tx.ExecContext(ctx, insert, jobID, clock.Millis(due), key)
				return jobID, err
			}}
	})
}

// A table with everything.
func TestWholeTable(t *testing.T) {
	t.Parallel()
	conform(t, jobs.Table{Name: "exports", ID: "export_id", Due: "due_ms", Claim: "claim_id", Lease: "lease_ms",
		Attempts: "attempts", Lost: "leases_lost", Key: "environment", Progress: "progress", Finished: "finished_ms",
		Where: "status = 'open'"},
		`CREATE TABLE exports (export_id text PRIMARY KEY, status text NOT NULL DEFAULT 'open', due_ms bigint NOT NULL,
			claim_id text NOT NULL DEFAULT '', lease_ms bigint NOT NULL DEFAULT 0, attempts bigint NOT NULL DEFAULT 0,
			leases_lost bigint NOT NULL DEFAULT 0, environment text NOT NULL, progress text, finished_ms bigint)`,
		"INSERT INTO exports (export_id, due_ms, environment) VALUES ($1, $2, $3)")
}

// A table whose due time is also the end of the lease.
func TestTableWithoutLease(t *testing.T) {
	t.Parallel()
	conform(t, jobs.Table{Name: "polls", ID: "id", Due: "due_ms", Claim: "claim_id", Attempts: "attempts",
		Lost: "leases_lost", Key: "connection"},
		`CREATE TABLE polls (id text PRIMARY KEY, due_ms bigint NOT NULL, claim_id text NOT NULL DEFAULT '',
			attempts bigint NOT NULL DEFAULT 0, leases_lost bigint NOT NULL DEFAULT 0, connection text NOT NULL)`,
		"INSERT INTO polls (id, due_ms, connection) VALUES ($1, $2, $3)")
}

// A table with the least that makes a queue.
func TestLeastTable(t *testing.T) {
	t.Parallel()
	conform(t, jobs.Table{Name: "letters", ID: "id", Due: "due_ms", Attempts: "tries"},
		`CREATE TABLE letters (id text PRIMARY KEY, due_ms bigint NOT NULL, tries bigint NOT NULL DEFAULT 0)`,
		"INSERT INTO letters (id, due_ms) SELECT $1, $2 WHERE $3 <> '-'")
}
