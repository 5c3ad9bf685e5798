package events

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// LogStore reads, orders and trims the log. Transactions add to it with a Log.
type LogStore struct{ db *db.DB }

// NewLogStore returns a LogStore.
func NewLogStore(d *db.DB) *LogStore { return &LogStore{db: d} }

// The extent of an environment's log, in time and in messages.
const (
	LogAge      = time.Hour
	LogMessages = 10_000
)

// sequenceChunk is the number of records that one transaction assigns positions to.
const sequenceChunk = 500

// Sequence assigns positions to committed records that have none. It does nothing on SQLite, whose single writer
// commits in the order of positions, and nothing while another process does it.
//
// A visible record was committed, and so was everything that its transaction saw. Because one transaction after the
// other assigns positions, no record ever appears before a position that was read.
func (s *LogStore) Sequence(ctx context.Context) error {
	if s.db.Engine() != db.Postgres {
		return nil
	}
	for {
		var waiting bool
		err := s.db.Read().QueryRowContext(ctx,
			"SELECT EXISTS (SELECT 1 FROM webhook_event_log WHERE position IS NULL)").Scan(&waiting)
		if err != nil {
			return fmt.Errorf("look for records without a position: %w", err)
		}
		if !waiting {
			return nil
		}
		n, err := s.sequence(ctx)
		if err != nil {
			return fmt.Errorf("give positions: %w", err)
		}
		if n < sequenceChunk {
			return nil
		}
	}
}

func (s *LogStore) sequence(ctx context.Context) (n int64, err error) {
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		if held, err := s.db.TryAdvisoryLock(ctx, tx, db.LockSequence); err != nil || !held {
			return err
		}
		// This is a separate statement, because it must see what the previous holder of the lock has committed.
		n, err = db.Affected(tx.ExecContext(ctx, `UPDATE webhook_event_log AS l SET position = n.position FROM (
			SELECT w.ordinal, (SELECT COALESCE(MAX(m.position), 0)
			FROM webhook_event_log m) + ROW_NUMBER() OVER (ORDER BY w.ordinal) AS position
			FROM (SELECT ordinal FROM webhook_event_log WHERE position IS NULL ORDER BY ordinal LIMIT $1) w) n
			WHERE l.ordinal = n.ordinal`, sequenceChunk))
		return err
	})
	return n, err
}

// Head returns the newest position, or 0.
func (s *LogStore) Head(ctx context.Context) (int64, error) {
	var head int64
	err := s.db.Read().QueryRowContext(ctx,
		"SELECT COALESCE(MAX(position), 0) FROM webhook_event_log WHERE position IS NOT NULL").Scan(&head)
	if err != nil {
		return 0, fmt.Errorf("read the head of the log: %w", err)
	}
	return head, nil
}

// After returns the records of all environments after a position, oldest first, at most limit.
func (s *LogStore) After(ctx context.Context, after int64, limit int) ([]LogRecord, error) {
	return s.log(ctx, "l.position > $1 ORDER BY l.position LIMIT "+strconv.Itoa(limit), after)
}

// AfterIn returns the environment's records after one position up to another, oldest first, at most limit.
func (s *LogStore) AfterIn(ctx context.Context, env id.Environment, after, to int64,
	limit int) ([]LogRecord, error) {
	return s.log(ctx, "l.environment_id = $1 AND l.position > $2 AND l.position <= $3 ORDER BY l.position LIMIT "+
		strconv.Itoa(limit), string(env), after, to)
}

// HeadIn returns the place of the environment's newest record up to a position; ok is false without one.
func (s *LogStore) HeadIn(ctx context.Context, env id.Environment, to int64) (LogPlace, bool, error) {
	return s.place(ctx, "l.environment_id = $1 AND l.position <= $2 ORDER BY l.position DESC LIMIT 1", string(env), to)
}

// PlaceAt returns the place of the environment's record at a position; ok is false without one.
func (s *LogStore) PlaceAt(ctx context.Context, env id.Environment, position int64) (LogPlace, bool, error) {
	return s.place(ctx, "l.environment_id = $1 AND l.position = $2", string(env), position)
}

// Kept returns which positions still have a record.
func (s *LogStore) Kept(ctx context.Context, positions []int64) (map[int64]bool, error) {
	kept := make(map[int64]bool, len(positions))
	for chunk := range slices.Chunk(positions, 100) {
		args := make([]any, len(chunk))
		for i, p := range chunk {
			args[i] = p
		}
		rows, err := s.db.Read().QueryContext(ctx, "SELECT l.position FROM webhook_event_log l WHERE l.position IN "+
			db.In(1, len(args)), args...)
		if err != nil {
			return nil, fmt.Errorf("look for records: %w", err)
		}
		if err := db.Each(rows, func(r *sql.Rows) error {
			var p int64
			err := r.Scan(&p)
			kept[p] = true
			return err
		}); err != nil {
			return nil, fmt.Errorf("look for records: %w", err)
		}
	}
	return kept, nil
}

// LogPlace is the position of a record, and the number of its messages.
type LogPlace struct {
	Position int64
	At       time.Time
	Messages int
}

func (s *LogStore) place(ctx context.Context, condition string, args ...any) (p LogPlace, ok bool, err error) {
	var at int64
	err = s.db.Read().QueryRowContext(ctx, "SELECT l.position, l.at_ms, l.messages FROM webhook_event_log l WHERE "+
		condition, args...).
		Scan(&p.Position, &at, &p.Messages)
	p.At = clock.FromMillis(at)
	ok, err = db.Found("a place in the log", err)
	return p, ok, err
}

func (s *LogStore) log(ctx context.Context, condition string, args ...any) ([]LogRecord, error) {
	rows, err := s.db.Read().QueryContext(ctx,
		"SELECT l.position, l.environment_id, l.at_ms, l.entries FROM webhook_event_log l WHERE "+condition, args...)
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	var records []LogRecord
	if err := db.Each(rows, func(r *sql.Rows) error {
		var record LogRecord
		var at int64
		var entries sql.RawBytes
		if err := r.Scan(&record.Position, &record.Environment, &at, &entries); err != nil {
			return err
		}
		record.At = clock.FromMillis(at)
		err := record.decode(entries)
		records = append(records, record)
		return err
	}); err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	return records, nil
}

// LogSpan measures the environment's log after a position.
type LogSpan struct {
	// Messages counts the messages, until it exceeds LogMessages.
	Messages int
	// First is the position of the first record, Oldest its time. Both are zero if there is none.
	First  int64
	Oldest time.Time
}

// Span measures the environment's log after one position up to another.
func (s *LogStore) Span(ctx context.Context, env id.Environment, after, to int64) (LogSpan, error) {
	var span LogSpan
	var first, oldest sql.NullInt64
	// Every record has at least one message.
	err := s.db.Read().QueryRowContext(ctx, `SELECT COALESCE(SUM(q.messages), 0), MIN(q.position), MIN(q.at_ms)
		FROM (SELECT l.position, l.messages, l.at_ms
		FROM webhook_event_log l WHERE l.environment_id = $1 AND l.position > $2 AND l.position <= $3 ORDER BY l.position
		LIMIT `+strconv.Itoa(LogMessages+1)+`) q`, string(env), after, to).Scan(&span.Messages, &first, &oldest)
	if err != nil {
		return LogSpan{}, fmt.Errorf("measure the log: %w", err)
	}
	if oldest.Valid {
		span.First, span.Oldest = first.Int64, clock.FromMillis(oldest.Int64)
	}
	return span, nil
}
