package db

import (
	"context"
	"database/sql"
	"fmt"
)

// Bump raises the counter of a cached collection inside the transaction that changes it, so that every process which
// caches the collection can see that it must read again.
func Bump(ctx context.Context, tx *sql.Tx, collection string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO cache_versions (name, version) VALUES ($1, 1)
		ON CONFLICT (name) DO UPDATE SET version = cache_versions.version + 1`, collection)
	if err != nil {
		return fmt.Errorf("raise the version of %s: %w", collection, err)
	}
	return nil
}

// VersionColumn binds the counter of a collection, for a SELECT of a row that is cached: one snapshot has both, so the
// row is as new as the version.
func VersionColumn(collection string, version *int64) Column {
	return Col("COALESCE((SELECT v.version FROM cache_versions v WHERE v.name = '"+collection+"'), 0)", version)
}

// Versions returns the counters of all cached collections.
func (d *DB) Versions(ctx context.Context) (map[string]int64, error) {
	rows, err := d.read.QueryContext(ctx, "SELECT name, version FROM cache_versions")
	if err != nil {
		return nil, fmt.Errorf("read the versions: %w", err)
	}
	versions := map[string]int64{}
	err = Each(rows, func(r *sql.Rows) error {
		var name string
		var version int64
		if err := r.Scan(&name, &version); err != nil {
			return err
		}
		versions[name] = version
		return nil
	})
	return versions, err
}
