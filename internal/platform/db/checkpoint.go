package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// The write-ahead log in frames, each a page.
const (
	// longLog is how many frames the log must hold for its end to be worth a moment of the writer: 40 MB.
	longLog = 10_000
	// overgrownLog is when readers are held back as well, because there is always one whose snapshot keeps the log from
	// starting again: 100 MB.
	overgrownLog = 25_000
	frameBytes   = 4096 + 24
)

// The write-ahead log is copied often while it grows fast, and seldom otherwise.
const (
	checkpointBusy = 250 * time.Millisecond
	checkpointIdle = 2 * time.Second
)

const (
	// holdTimeout bounds how long new readers wait for those before them, and for the writer, to end.
	holdTimeout = 500 * time.Millisecond
	// copyTimeout bounds how long everything waits for the copy. It leaves transactions half of their time.
	copyTimeout = writeTimeout / 2
)

// Checkpoint copies SQLite's write-ahead log into the database while commits go on, and returns the time until the next
// checkpoint, which is short if the log had grown long. Then only the frames that were added meanwhile are copied and
// synced with the writer waiting, after which the next commit starts the log from its beginning. It waits for no
// reader, unless the log has overgrown: then it holds new readers back for a moment. It does nothing on PostgreSQL.
//
// The checkpoint itself reports the length of the log. Nothing here opens the log or its index as a file: on POSIX
// systems closing any descriptor of a file ends all locks that the process holds on it, SQLite's among them.
func (d *DB) Checkpoint(ctx context.Context) (next time.Duration, err error) {
	if d.engine != SQLite {
		return checkpointIdle, nil
	}
	frames, err := checkpoint(ctx, d.reserved)
	d.log.Store(frames * frameBytes)
	if err != nil || frames < longLog {
		return checkpointIdle, err
	}
	// SQLite syncs the database only when it has copied the whole log, which while commits go on is in the last pass. The
	// pages that earlier passes copied are synced here, so that the writer waits for a few pages and not for all.
	if err := d.sync(); err != nil {
		return checkpointBusy, err
	}
	if frames >= overgrownLog {
		held, err := checkpointWithoutReaders(ctx, d)
		if !held {
			return checkpointIdle, err // so that readers are not held back time and again
		}
		return checkpointBusy, err
	}
	return checkpointBusy, copyToEnd(ctx, d, d.reserved)
}

// copyToEnd copies the rest of the log: on a reader's connection what was added meanwhile, and then with the writer
// waiting the few frames since.
func copyToEnd(ctx context.Context, d *DB, reader Querier) error {
	if _, err := checkpoint(ctx, reader); err != nil {
		return err
	}
	if err := d.sync(); err != nil {
		return err
	}
	_, err := checkpoint(ctx, d.write)
	return err
}

// checkpointWithoutReaders copies the whole log while no snapshot of this process is open, so that nothing keeps the
// next commit from starting the log again: readers that begin after the copy read the database and not the log. held is
// false if the others did not end in time.
//
// It takes the writer's turn before the connections for reading, as a transaction that reads through one of them does.
// The other order could stop both, and with them everything else. Only lists come before the writer: they take longest,
// and no transaction waits for one.
func checkpointWithoutReaders(ctx context.Context, d *DB) (held bool, err error) {
	holding, cancel := context.WithTimeout(ctx, holdTimeout)
	defer cancel()
	lists, err := holdReaders(holding, d.lists)
	defer releaseReaders(lists)
	if err != nil {
		return false, unlessLate(ctx, err)
	}
	if err := d.writer.acquire(holding, turnOf(ctx), ownerOf(ctx)); err != nil {
		return false, unlessLate(ctx, err)
	}
	began := d.clk.Now()
	defer func() { d.writer.release(d.clk.Now().Sub(began)) }()
	readers, err := holdReaders(holding, d.read, d.reserved)
	defer releaseReaders(readers)
	if err != nil {
		return false, unlessLate(ctx, err)
	}
	copying, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	return true, copyToEnd(copying, d, lists[0])
}

// unlessLate returns err, and nil if it says that the others did not end in time, which the next checkpoint finds out.
func unlessLate(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

// holdReaders takes every connection of the pools: each comes free when its query has ended, and new queries wait.
// releaseReaders must follow, also after an error.
func holdReaders(ctx context.Context, pools ...*sql.DB) (conns []*sql.Conn, err error) {
	for _, pool := range pools {
		for range pool.Stats().MaxOpenConnections {
			c, err := pool.Conn(ctx)
			if err != nil {
				return conns, fmt.Errorf("hold readers back: %w", err)
			}
			conns = append(conns, c)
		}
	}
	return conns, nil
}

func releaseReaders(conns []*sql.Conn) {
	for _, c := range conns {
		_ = c.Close() // gives it back to its pool
	}
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
