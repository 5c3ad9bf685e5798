package db

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"
)

// keptChanges is how many of the last changes of a collection are kept by key. A process that has not looked for longer
// reads everything again.
const keptChanges = 10_000

const (
	// ChangesTimeout bounds how long a cache waits for the changes of other processes.
	ChangesTimeout = time.Second
	// MaxUnseen is how long a cache uses what it has in memory without knowing the changes of other processes: after that
	// it drops everything. With a look each second, a change shows on other processes after five seconds at most.
	MaxUnseen = 3 * time.Second
)

// InTime returns refresh with ChangesTimeout as its bound. The bound belongs to the job that calls it each second: a
// caller that needs the changes waits as long as its own context says.
func InTime(refresh func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, ChangesTimeout)
		defer cancel()
		return refresh(ctx)
	}
}

// Bump raises the version of a cached collection inside the transaction that changes it, so that every process which
// caches the collection can see that it must read again. key names what has changed, in the form that the collection's
// owner chooses; empty if processes compare only the version.
//
// The version's row stays locked until the transaction ends, so versions ascend in the order of the commits: once a
// version is visible, so is every change up to it.
func Bump(ctx context.Context, tx *sql.Tx, collection, key string) error {
	if key != "" {
		return BumpAll(ctx, tx, collection, key)
	}
	_, err := raise(ctx, tx, collection, 1)
	return err
}

// raise raises the version of a collection and returns it.
func raise(ctx context.Context, tx *sql.Tx, collection string, by int) (version int64, err error) {
	err = tx.QueryRowContext(ctx, `INSERT INTO cache_versions (name, version) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET version = cache_versions.version + $2 RETURNING version`, collection, by).Scan(
		&version)
	if err != nil {
		return 0, fmt.Errorf("raise the version of %s: %w", collection, err)
	}
	return version, nil
}

// BumpAll is Bump for several keys that one transaction has changed, in as many statements as for one. Without keys it
// does nothing.
func BumpAll(ctx context.Context, tx *sql.Tx, collection string, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	version, err := raise(ctx, tx, collection, len(keys))
	if err != nil {
		return err
	}
	insert, args := "INSERT INTO cache_changes (name, version, key) VALUES ", make([]any, 0, 3*len(keys))
	for i, key := range keys {
		if i > 0 {
			insert += ", "
		}
		insert += In(len(args)+1, 3) //nolint:gosec // the text is of constants and placeholders
		args = append(args, collection, version-int64(i), key)
	}
	if _, err := tx.ExecContext(ctx, insert, args...); err != nil {
		return fmt.Errorf("record changes of %s: %w", collection, err)
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM cache_changes WHERE name = $1 AND version <= $2", collection,
		version-keptChanges); err != nil {
		return fmt.Errorf("forget old changes of %s: %w", collection, err)
	}
	return nil
}

// VersionColumn binds the version of a collection, for a SELECT of a row that is cached: one snapshot has both, so the
// row is as new as the version.
func VersionColumn(collection string, version *int64) Column {
	return Col("COALESCE((SELECT v.version FROM cache_versions v WHERE v.name = '"+collection+"'), 0)", version)
}

// Versions returns the versions of all cached collections.
func (d *DB) Versions(ctx context.Context) (map[string]int64, error) {
	rows, err := d.Reserved().QueryContext(ctx, "SELECT name, version FROM cache_versions")
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

// Changes is how a cached collection has changed since an earlier version.
type Changes struct {
	// Version is the present version.
	Version int64
	// Known is false if anything may have changed: a version in between names no key. A process of the previous release
	// has raised it, or it was so long ago that it is no longer kept.
	Known bool
	// Keys names what has changed, each once, if Known is set.
	Keys []string
}

// Changes returns how the collection has changed since the version given. A negative version stands for an unknown one.
func (d *DB) Changes(ctx context.Context, collection string, since int64) (Changes, error) {
	versions, err := d.Versions(ctx)
	if err != nil {
		return Changes{}, err
	}
	c := Changes{Version: versions[collection]}
	missing := c.Version - since
	if since < 0 || missing < 0 || missing > keptChanges {
		return c, nil
	}
	if missing > 0 {
		rows, err := d.Reserved().QueryContext(ctx, `SELECT key FROM cache_changes WHERE name = $1 AND version > $2
			AND version <= $3`, collection, since, c.Version)
		if err != nil {
			return Changes{}, fmt.Errorf("read the changes of %s: %w", collection, err)
		}
		if err := Each(rows, func(r *sql.Rows) error {
			var key string
			err := r.Scan(&key)
			c.Keys = append(c.Keys, key)
			return err
		}); err != nil {
			return Changes{}, fmt.Errorf("read the changes of %s: %w", collection, err)
		}
	}
	if c.Known = int64(len(c.Keys)) == missing; !c.Known {
		c.Keys = nil
	}
	slices.Sort(c.Keys)
	c.Keys = slices.Compact(c.Keys)
	return c, nil
}
