package db

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// walFrames is how many frames the write-ahead log must hold for a checkpoint to be worth its while: 40 MB of pages.
const walFrames = 10_000

// mxFrameOffset is where the WAL index keeps the number of the log's last valid frame, a 32-bit integer in the byte order
// of the machine (SQLite's "WAL-mode File Format", section 2.1). The size of the log's file says nothing: it stays large
// when the log starts anew.
const mxFrameOffset = 16

// Checkpoint copies SQLite's write-ahead log into the database when it has grown long, mostly while commits go on, and
// reports whether it did. Only the frames that were added meanwhile are copied with the writer waiting. It does nothing
// on PostgreSQL.
func (d *DB) Checkpoint(ctx context.Context) (bool, error) {
	if d.engine != SQLite {
		return false, nil
	}
	frames, err := d.walLength()
	if err != nil || frames < walFrames {
		return false, err
	}
	// The second pass finds what came during the first, which synced the disk.
	for range 2 {
		if err := checkpoint(ctx, d.read, "PASSIVE"); err != nil {
			return false, err
		}
	}
	// With everything copied the next write starts the log anew.
	return true, checkpoint(ctx, d.write, "RESTART")
}

// walLength returns the number of frames in the write-ahead log.
func (d *DB) walLength() (uint32, error) {
	f, err := os.Open(d.walIndexPath)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("open the WAL index: %w", err)
	}
	var b [4]byte
	_, err = f.ReadAt(b[:], mxFrameOffset)
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, fmt.Errorf("read the WAL index: %w", err)
	}
	return binary.NativeEndian.Uint32(b[:]), nil
}

func checkpoint(ctx context.Context, on Querier, mode string) error {
	var busy, log, copied int64
	if err := on.QueryRowContext(ctx, "PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &log, &copied); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}
