package db

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// syncCommits makes every commit of a session wait until it is on the disk, regardless of the settings of the server,
// the database and the role. Settings that wait for more, such as remote_apply, stay.
const syncCommits = `SELECT set_config('synchronous_commit',
	CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)`

// syncSession applies syncCommits to a new connection.
func syncSession(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, syncCommits); err != nil {
		return fmt.Errorf("make commits wait for the disk: %w", err)
	}
	return nil
}

// Weaknesses returns the settings of the database, as the connections that write have them, with which an acknowledged
// event can be lost or damaged when the machine of the database loses its power: each in one sentence; none if all is
// well.
func (d *DB) Weaknesses(ctx context.Context) ([]string, error) {
	if d.engine == SQLite {
		return d.sqliteWeaknesses(ctx)
	}
	var fsync, pages, commits string
	if err := d.write.QueryRowContext(ctx, `SELECT current_setting('fsync'), current_setting('full_page_writes'),
		current_setting('synchronous_commit')`).Scan(&fsync, &pages, &commits); err != nil {
		return nil, fmt.Errorf("read the settings of the database: %w", err)
	}
	var weak []string
	if fsync == "off" {
		weak = append(weak, "fsync is off: after a power failure the database can be damaged and events are lost")
	}
	if pages == "off" {
		weak = append(weak, "full_page_writes is off: after a power failure the database can be damaged")
	}
	if commits == "off" {
		weak = append(weak, "synchronous_commit is off although the connection has set it, as behind a pooler that shares "+
			"sessions: acknowledged events can be lost")
	}
	return weak, nil
}

// synchronousFull is the value of SQLite's pragma with which each commit is synced.
const synchronousFull = 2

func (d *DB) sqliteWeaknesses(ctx context.Context) ([]string, error) {
	var synchronous int
	if err := d.write.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous); err != nil {
		return nil, fmt.Errorf("read the settings of the database: %w", err)
	}
	if synchronous < synchronousFull {
		return []string{"synchronous is not FULL: after a power failure acknowledged events are lost"}, nil
	}
	return nil, nil
}
