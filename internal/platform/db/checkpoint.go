package db

import (
	"context"
	"fmt"
)

// walFrames is how many frames the write-ahead log must hold for its end to be worth a moment of the writer: 40 MB of pages.
const walFrames = 10_000

// Checkpoint copies SQLite's write-ahead log into the database while commits go on, and reports whether the log had grown
// long. Then only the frames that were added meanwhile are copied with the writer waiting, after which the next commit
// starts the log anew. It waits for no reader. It does nothing on PostgreSQL.
//
// The length of the log is what the checkpoint itself tells. Nothing here opens the log or its index as a file: on POSIX
// systems closing any descriptor of a file ends all locks that the process holds on it, SQLite's among them.
func (d *DB) Checkpoint(ctx context.Context) (long bool, err error) {
	if d.engine != SQLite {
		return false, nil
	}
	frames, err := checkpoint(ctx, d.read)
	if err != nil || frames < walFrames {
		return false, err
	}
	// The second pass finds what came during the first, which synced the disk.
	for _, on := range []Querier{d.read, d.write} {
		if _, err := checkpoint(ctx, on); err != nil {
			return true, err
		}
	}
	return true, nil
}

// checkpoint copies what no reader still needs and returns how many frames the log holds.
func checkpoint(ctx context.Context, on Querier) (int64, error) {
	var busy, frames, copied int64
	if err := on.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &frames, &copied); err != nil {
		return 0, fmt.Errorf("checkpoint: %w", err)
	}
	return frames, nil
}
