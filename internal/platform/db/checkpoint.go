package db

import (
	"context"
	"fmt"
	"time"
)

// walFrames is how many frames the write-ahead log must hold for its end to be worth a moment of the writer: 40 MB of
// pages.
const walFrames = 10_000

// The write-ahead log is copied often while it grows fast, and seldom otherwise.
const (
	checkpointBusy = 250 * time.Millisecond
	checkpointIdle = 2 * time.Second
)

// Checkpoint copies SQLite's write-ahead log into the database while commits go on, and returns the time until the next
// checkpoint, which is short if the log had grown long. Then only the frames that were added meanwhile are copied and
// synced with the writer waiting, after which the next commit starts the log from its beginning. It waits for no
// reader. It does nothing on PostgreSQL.
//
// The checkpoint itself reports the length of the log. Nothing here opens the log or its index as a file: on POSIX
// systems closing any descriptor of a file ends all locks that the process holds on it, SQLite's among them.
func (d *DB) Checkpoint(ctx context.Context) (next time.Duration, err error) {
	if d.engine != SQLite {
		return checkpointIdle, nil
	}
	frames, err := checkpoint(ctx, d.read)
	if err != nil || frames < walFrames {
		return checkpointIdle, err
	}
	// SQLite syncs the database only when it has copied the whole log, which while commits go on is in the last pass. The
	// pages that earlier passes copied are synced here, so that the writer waits for a few pages and not for all.
	if err := d.sync(); err != nil {
		return checkpointBusy, err
	}
	if _, err := checkpoint(ctx, d.read); err != nil {
		return checkpointBusy, err
	}
	if err := d.sync(); err != nil {
		return checkpointBusy, err
	}
	if _, err := checkpoint(ctx, d.write); err != nil {
		return checkpointBusy, err
	}
	return checkpointBusy, nil
}

// checkpoint copies what no reader still needs and returns how many frames the log holds.
func checkpoint(ctx context.Context, on Querier) (int64, error) {
	var busy, frames, copied int64
	if err := on.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &frames, &copied); err != nil {
		return 0, fmt.Errorf("checkpoint: %w", err)
	}
	return frames, nil
}

func (d *DB) sync() error {
	if err := d.file.Sync(); err != nil {
		return fmt.Errorf("sync the database file: %w", err)
	}
	return nil
}
