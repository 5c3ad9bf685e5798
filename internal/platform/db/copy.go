package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
)

// ErrDamaged says that SQLite finds a file damaged.
var ErrDamaged = errors.New("the file is damaged")

// CopyTo writes a copy of SQLite's database, as one transaction sees it, into an empty file. Readers and writers
// continue meanwhile. The copy is compact, and not yet synced. Until it is finished, the write-ahead log cannot
// restart.
func (d *DB) CopyTo(ctx context.Context, path string) error {
	if _, err := d.write.ExecContext(ctx, "VACUUM INTO $1", path); err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	return nil
}

// Size returns how many bytes of SQLite's file are in use: the most that a copy needs.
func (d *DB) Size(ctx context.Context) (int64, error) {
	var size int64
	err := d.read.QueryRowContext(ctx, `SELECT (pages.page_count - free.freelist_count) * size.page_size
		FROM pragma_page_count pages, pragma_freelist_count free, pragma_page_size size`).Scan(&size)
	if err != nil {
		return 0, fmt.Errorf("measure the database: %w", err)
	}
	return size, nil
}

// OpenCopy opens a file that CopyTo made, for reading only. It creates no file next to it. The error is ErrDamaged if
// the file cannot be read as a database.
func OpenCopy(ctx context.Context, path string) (*DB, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open the copy: %w", err)
	}
	q := url.Values{"mode": {"ro"}, "immutable": {"1"}, "_pragma": {"query_only(1)", "trusted_schema(0)",
		"cell_size_check(1)"}}
	read, err := sql.Open("sqlite", "file:"+(&url.URL{Path: filepath.ToSlash(absolute)}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, fmt.Errorf("open the copy: %w", err)
	}
	d := &DB{engine: SQLite, write: read, read: read, lists: read, reserved: read, schema: read,
		gate: newGate(SQLite)}
	if err := d.Ping(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w or is not a database: %w", ErrDamaged, err), d.Close())
	}
	return d, nil
}

// CheckIntegrity makes SQLite check every page, row, index and reference. It returns ErrDamaged if one is damaged.
func (d *DB) CheckIntegrity(ctx context.Context) error {
	var found string
	err := d.read.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&found)
	if err == nil && found != "ok" {
		err = errors.New(found)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	var table string
	err = d.read.QueryRowContext(ctx, "SELECT \"table\" FROM pragma_foreign_key_check LIMIT 1").Scan(&table)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("check the references of the database: %w", err)
	default:
		return fmt.Errorf("%w: a row of %s refers to none", ErrDamaged, table)
	}
}
