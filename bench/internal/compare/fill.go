package compare

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

const (
	// fillAge is how old the oldest event of a fill is: less than anything is kept for.
	fillAge = 15 * 24 * time.Hour
	// fillStep is how many events a transaction of a fill stores.
	fillStep = 100_000
)

// fill stores so many events in a database whose gateway is away: copies of the first event of a connection, received
// at equal distances over the last days, with its deliveries, attempts and keys. Copies of waiting deliveries have
// payloads too. Columns are copied by what they are called, so that a change of a table that keeps the meaning of its
// names changes nothing here.
func (s *scene) fill(ctx context.Context, connection string, events int) (err error) {
	if events == 0 {
		return nil
	}
	d, err := db.Open(ctx, s.config.DatabaseURL, s.config.DataDir)
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	f := &fill{pool: d.Write(), postgres: s.database != nil, events: int64(events),
		step: max(1, fillAge.Milliseconds()/int64(events)), start: clock.Millis(s.bench.clk.Now().Add(-fillAge))}
	err = f.pool.QueryRowContext(ctx, `SELECT event_uuid, connection_uuid, n_succeeded = 0 FROM webhook_events
		WHERE connection_uuid = (SELECT uuid FROM connections WHERE path_token = $1) ORDER BY event_uuid LIMIT 1`,
		path.Base(connection)).Scan(&f.event, &f.connection, &f.open)
	if err != nil {
		return fmt.Errorf("fill: find an event to copy: %w", err)
	}
	if !f.postgres { // the pool has one connection; what a crash would lose is filled again
		if _, err := f.pool.ExecContext(ctx, "PRAGMA synchronous = OFF; PRAGMA cache_size = -400000"); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	began := s.bench.clk.Now()
	if err := f.run(ctx); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	s.bench.Say("%s: %d events in %s", s.bench.Engine, events, s.bench.clk.Now().Sub(began).Round(time.Second))
	return nil
}

// fill copies one event.
type fill struct {
	pool              *sql.DB
	postgres          bool
	event, connection string
	// open says that the deliveries of the event wait.
	open                bool
	events, start, step int64
}

func (f *fill) run(ctx context.Context) error {
	tables := []struct{ name, where string }{
		{"webhook_events", "event_uuid = $1"}, {"deliveries", "event_uuid = $1"}, {"delivery_attempts", "event_uuid = $1"},
		{"webhook_event_keys", "event_uuid = $1"},
	}
	if f.open {
		tables = append(tables, struct{ name, where string }{"webhook_event_payloads", "event_uuid = $1"})
	}
	for _, t := range tables {
		columns, err := f.columns(ctx, t.name)
		if err != nil {
			return err
		}
		dropped, err := f.dropIndexes(ctx, t.name)
		if err != nil {
			return err
		}
		for from := int64(0); from < f.events; from += fillStep {
			if err := f.copy(ctx, t.name, t.where, columns, from, min(from+fillStep, f.events)); err != nil {
				return err
			}
		}
		for _, text := range dropped {
			if _, err := f.pool.ExecContext(ctx, text); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
		if f.postgres {
			if _, err := f.pool.ExecContext(ctx, "VACUUM (ANALYZE) "+t.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// columns reads the columns of a table.
func (f *fill) columns(ctx context.Context, table string) (names []string, err error) {
	text := "SELECT name FROM pragma_table_info($1)"
	if f.postgres {
		text = "SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped"
	}
	rows, err := f.pool.QueryContext(ctx, text, table)
	if err != nil {
		return nil, err
	}
	err = db.Each(rows, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		names = append(names, name)
		return err
	})
	return names, err
}

// dropIndexes drops the indexes that are no constraints, because making them again is faster than keeping them up to
// date, and returns the statements that do. Partitioned tables have none.
func (f *fill) dropIndexes(ctx context.Context, table string) (statements []string, err error) {
	text := `SELECT sql, name FROM sqlite_master WHERE type = 'index' AND tbl_name = $1 AND sql NOT LIKE 'CREATE UNIQUE %'`
	if f.postgres {
		text = `SELECT indexdef, indexrelid::regclass::text FROM pg_index
			JOIN pg_indexes ON indexname = indexrelid::regclass::text WHERE indrelid = $1::regclass AND NOT indisunique`
	}
	rows, err := f.pool.QueryContext(ctx, text, table)
	if err != nil {
		return nil, err
	}
	var names []string
	err = db.Each(rows, func(rows *sql.Rows) error {
		var text, name string
		err := rows.Scan(&text, &name)
		statements, names = append(statements, text), append(names, name)
		return err
	})
	for _, name := range names {
		if err == nil {
			_, err = f.pool.ExecContext(ctx, "DROP INDEX "+name)
		}
	}
	return statements, err
}

// copy stores the copies with these numbers.
func (f *fill) copy(ctx context.Context, table, where string, columns []string, from, to int64) error {
	values := make([]string, len(columns))
	for i, c := range columns {
		values[i] = f.value(c)
	}
	numbers := "(WITH RECURSIVE s(i) AS (SELECT $2 UNION ALL SELECT i + 1 FROM s WHERE i + 1 < $3) SELECT i FROM s)"
	if f.postgres {
		numbers = "(SELECT generate_series($2::bigint, $3::bigint - 1) AS i)"
	}
	//nolint:gosec // the names are those of the schema
	text := fmt.Sprintf(`INSERT INTO %s (%s) SELECT %s FROM %s n CROSS JOIN
		(SELECT *, row_number() OVER () - 1 AS ordinal FROM %s WHERE %s) t ORDER BY n.i`, table, strings.Join(columns, ", "),
		strings.Join(values, ", "), numbers, table, where)
	if _, err := f.pool.ExecContext(ctx, text, f.event, from, to); err != nil {
		return fmt.Errorf("copy into %s: %w", table, err)
	}
	return nil
}

// value is the expression of a column in a copy.
func (f *fill) value(column string) string {
	at := fmt.Sprintf("(%d + n.i * %d)", f.start, f.step)
	switch column {
	case "event_uuid", "id":
		return f.uuid(at)
	case "idempotency_key":
		if f.postgres {
			return "md5(n.i::text)"
		}
		return "lower(hex(randomblob(16)))"
	case "received_ms", "updated_ms", "created_ms", "due_ms", "claimed_ms", "started_ms":
		return at
	case "completed_ms", "forwarded_ms", "failed_ms":
		return "CASE WHEN t." + column + " IS NOT NULL THEN " + at + " END"
	case "expires_ms":
		// Some keys never expire: their time is the largest number.
		return "CASE WHEN t.expires_ms = 9223372036854775807 THEN t.expires_ms ELSE " + at +
			" + t.expires_ms - t.claimed_ms END"
	case "key_hash":
		return f.hash()
	default:
		return "t." + column
	}
}

// uuid is a UUID of version 7 with that time.
func (f *fill) uuid(at string) string {
	if f.postgres {
		return fmt.Sprintf(`substr(lpad(to_hex(%[1]s), 12, '0'), 1, 8) || '-' || substr(lpad(to_hex(%[1]s), 12, '0'), 9, 4) ||
			'-7000-8000-' || lpad(to_hex(n.i), 12, '0')`, at)
	}
	return fmt.Sprintf(`substr(printf('%%012x', %[1]s), 1, 8) || '-' || substr(printf('%%012x', %[1]s), 9, 4) ||
		'-7000-8000-' || printf('%%012x', n.i)`, at)
}

// hash is a hash as long as the one that is copied. The hashes are spread evenly and come in their order, because
// storing millions in random order takes minutes.
func (f *fill) hash() string {
	const keys = 2 // of an event, at most
	number := fmt.Sprintf("(n.i * %d + t.ordinal) * %d", keys, max(1, (int64(1)<<32)/(keys*f.events)))
	if f.postgres {
		return fmt.Sprintf(`substring(decode(lpad(to_hex((%s)::bigint), 8, '0') || md5(n.i::text) || md5((-n.i)::text), 'hex')
			FROM 1 FOR length(t.key_hash))`, number)
	}
	return fmt.Sprintf("substr(unhex(printf('%%08x', %s) || hex(randomblob(28))), 1, length(t.key_hash))", number)
}
