package db

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// statements caches SQLite's prepared statements of the hot path by text: preparing a multi-row insert costs more than
// running it. A fixed set of row counts (powers of two) keeps the set of texts small. pgx caches by text itself.
//
// The one writer connection is busy while a transaction runs, so a text met for the first time inside one is noted and
// prepared before the next transaction begins.
type statements struct {
	mu     sync.Mutex
	byText map[string]*sql.Stmt
	wanted []string
}

func (s *statements) get(text string) *sql.Stmt {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.byText[text]
	if st == nil {
		s.wanted = append(s.wanted, text)
	}
	return st
}

// prepareWanted prepares the texts noted since the last call. A failure only costs speed, so it is left to the statement
// itself to report.
func (s *statements) prepareWanted(ctx context.Context, pool *sql.DB) {
	s.mu.Lock()
	wanted := s.wanted
	s.wanted = nil
	s.mu.Unlock()
	for _, text := range wanted {
		s.prepare(ctx, pool, text)
	}
}

func (s *statements) prepare(ctx context.Context, pool *sql.DB, text string) {
	s.mu.Lock()
	_, ok := s.byText[text]
	s.mu.Unlock()
	if ok {
		return
	}
	st, err := pool.PrepareContext(ctx, text)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byText == nil {
		s.byText = map[string]*sql.Stmt{}
	}
	if old := s.byText[text]; old != nil {
		_ = old.Close() // the same text prepared twice at once; the later one stays
	}
	s.byText[text] = st
}

func (s *statements) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, st := range s.byText {
		err = errors.Join(err, st.Close())
	}
	s.byText = nil
	return err
}

// MultiRow is a statement over many rows whose text depends on their number, such as a multi-row INSERT.
type MultiRow struct {
	// Text returns the statement for n rows. It must depend on n alone.
	Text func(n int) string
	// Columns is the number of placeholders of a row.
	Columns int
	// texts caches Text by the logarithm of n.
	texts [maxChunkLog + 1]string
	once  sync.Once
}

// maxChunkLog is the logarithm of the greatest number of rows in one statement: with 32 columns it stays under both
// engines' limits of placeholders.
const maxChunkLog = 6

func (m *MultiRow) text(log int) string {
	m.once.Do(func() {
		for l := range m.texts {
			m.texts[l] = m.Text(1 << l)
		}
	})
	return m.texts[log]
}

// chunks calls fn for powers of two that add up to n.
func chunks(n int, fn func(from, log int) error) error {
	from := 0
	for log := maxChunkLog; log >= 0; log-- {
		for n-from >= 1<<log {
			if err := fn(from, log); err != nil {
				return err
			}
			from += 1 << log
		}
	}
	return nil
}

func (d *DB) exec(ctx context.Context, tx *sql.Tx, text string, args []any) (sql.Result, error) {
	if d.engine == SQLite {
		if st := d.stmts.get(text); st != nil {
			return tx.StmtContext(ctx, st).ExecContext(ctx, args...)
		}
	}
	return tx.ExecContext(ctx, text, args...)
}

func (d *DB) query(ctx context.Context, tx *sql.Tx, text string, args []any) (*sql.Rows, error) {
	if d.engine == SQLite {
		if st := d.stmts.get(text); st != nil {
			return tx.StmtContext(ctx, st).QueryContext(ctx, args...)
		}
	}
	return tx.QueryContext(ctx, text, args...)
}

// Exec runs m over the rows whose values args holds one after the other, and returns the number of rows affected.
func (d *DB) Exec(ctx context.Context, tx *sql.Tx, m *MultiRow, args []any) (int64, error) {
	var affected int64
	err := chunks(len(args)/m.Columns, func(from, log int) error {
		res, err := d.exec(ctx, tx, m.text(log), args[from*m.Columns:(from+1<<log)*m.Columns])
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		affected += n
		return err
	})
	return affected, err
}

// Query runs m like Exec and calls scan for every row returned.
func (d *DB) Query(ctx context.Context, tx *sql.Tx, m *MultiRow, args []any, scan func(*sql.Rows) error) error {
	return chunks(len(args)/m.Columns, func(from, log int) error {
		rows, err := d.query(ctx, tx, m.text(log), args[from*m.Columns:(from+1<<log)*m.Columns])
		if err != nil {
			return err
		}
		return Each(rows, scan)
	})
}

// Each calls scan for every row and closes rows.
func Each(rows *sql.Rows, scan func(*sql.Rows) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
