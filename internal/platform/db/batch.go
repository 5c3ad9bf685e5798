package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
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

// prepareWanted prepares the texts noted since the last call. A failure only costs speed, so it is left to the
// statement itself to report.
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
	st, err := pool.PrepareContext(ctx, text) //nolint:sqlclosecheck // the cache closes it
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byText == nil {
		s.byText = map[string]*sql.Stmt{}
	}
	if old := s.byText[text]; old != nil {
		_ = old.Close() // the same text prepared twice at the same time; the later one stays
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

// MultiRow is a statement over many rows, such as a multi-row INSERT. Its text is Before, the rows, After.
//
// SQLite gets the rows as VALUES with nameless placeholders (it looks named ones up one by one, which with a thousand
// of them takes longer than the insert), in chunks of powers of two so that few texts have to be prepared. PostgreSQL
// gets one array per column through unnest: parsing and planning a thousand placeholders cost it more than the rows.
// For few rows the arrays cost more, so it gets them as VALUES too.
type MultiRow struct {
	Before string
	// Types are the types of a row's values: text, bigint, boolean or bytea.
	Types []string
	// Row is the row's template, in which each ? takes the next value: "(?, ?, 0)". Empty means all values and nothing
	// else.
	Row   string
	After string

	once  sync.Once
	texts [maxChunkLog + 1]string
	few   [maxFew]string
	array string
}

// maxChunkLog is the logarithm of the greatest number of rows in one of SQLite's statements: with 32 columns it stays
// under the limit of placeholders.
const maxChunkLog = 6

// maxFew is the greatest number of rows that PostgreSQL gets as VALUES. An event that is stored alone is one row of
// most tables, and two of its keys.
const maxFew = 2

func (m *MultiRow) prepare() {
	m.once.Do(func() {
		row := m.Row
		if row == "" {
			row = "(" + strings.TrimSuffix(strings.Repeat("?, ", len(m.Types)), ", ") + ")"
		}
		for l := range m.texts {
			m.texts[l] = m.Before + " VALUES " + strings.TrimSuffix(strings.Repeat(row+", ", 1<<l), ", ") + " " + m.After
		}
		for n := range m.few {
			m.few[n] = m.Before + " VALUES " + m.numbered(row, n+1) + " " + m.After
		}
		columns, arrays := make([]string, len(m.Types)), make([]string, len(m.Types))
		for i, t := range m.Types {
			columns[i] = "c" + strconv.Itoa(i+1)
			arrays[i] = "CAST($" + strconv.Itoa(i+1) + " AS " + t + "[])"
		}
		list := strings.TrimSuffix(strings.TrimPrefix(row, "("), ")")
		for _, c := range columns {
			list = strings.Replace(list, "?", "u."+c, 1)
		}
		m.array = m.Before + " SELECT " + list + " FROM unnest(" + strings.Join(arrays, ", ") + ") AS u (" +
			strings.Join(columns, ", ") + ") " + m.After
	})
}

// numbered returns n rows with the typed, numbered placeholders of PostgreSQL.
func (m *MultiRow) numbered(row string, n int) string {
	var b strings.Builder
	next := 0
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		parts := strings.Split(row, "?")
		b.WriteString(parts[0])
		for c, part := range parts[1:] {
			next++
			b.WriteString("CAST($" + strconv.Itoa(next) + " AS " + m.Types[c] + ")" + part)
		}
	}
	return b.String()
}

// Columns is the number of values of a row.
func (m *MultiRow) Columns() int { return len(m.Types) }

// run calls fn with each text and its arguments. args holds the values of the rows one after the other.
func (m *MultiRow) run(e Engine, args []any, fn func(text string, args []any) error) error {
	m.prepare()
	n := len(args) / len(m.Types)
	if n == 0 {
		return nil
	}
	if e == Postgres && n <= maxFew {
		return fn(m.few[n-1], args)
	}
	if e == Postgres {
		arrays, err := m.arrays(args)
		if err != nil {
			return err
		}
		return fn(m.array, arrays)
	}
	from := 0
	for log := maxChunkLog; log >= 0; log-- {
		for n-from >= 1<<log {
			to := from + 1<<log
			if err := fn(m.texts[log], args[from*len(m.Types):to*len(m.Types)]); err != nil {
				return err
			}
			from = to
		}
	}
	return nil
}

// arrays turns rows of values into one array per column.
func (m *MultiRow) arrays(args []any) ([]any, error) {
	width := len(m.Types)
	out := make([]any, width)
	for c, t := range m.Types {
		var err error
		switch t {
		case "text":
			out[c], err = column(args, c, width, valueOf[string])
		case "bigint":
			out[c], err = column(args, c, width, intOf)
		case "boolean":
			out[c], err = column(args, c, width, valueOf[bool])
		case "bytea":
			out[c], err = column(args, c, width, bytesOf)
		default:
			err = fmt.Errorf("a statement over many rows cannot take %s", t)
		}
		if err != nil {
			return nil, fmt.Errorf("column %d: %w", c+1, err)
		}
	}
	return out, nil
}

// column returns the values of a column, as pointers only where one of them is NULL. Both are FlatArrays, which pgx
// encodes without looking at every element by reflection.
func column[T any](args []any, c, width int, convert func(any) (v T, null, ok bool)) (any, error) {
	values := make(pgtype.FlatArray[T], 0, len(args)/width)
	var nulls []int
	for i := c; i < len(args); i += width {
		v, null, ok := convert(args[i])
		if !ok {
			return nil, fmt.Errorf("unexpected %T", args[i])
		}
		if null {
			nulls = append(nulls, len(values))
		}
		values = append(values, v)
	}
	if nulls == nil {
		return values, nil
	}
	pointers := make(pgtype.FlatArray[*T], len(values))
	for i := range values {
		pointers[i] = &values[i]
	}
	for _, i := range nulls {
		pointers[i] = nil
	}
	return pointers, nil
}

func valueOf[T any](v any) (value T, null, ok bool) {
	switch v := v.(type) {
	case nil:
		return value, true, true
	case T:
		return v, false, true
	case *T:
		if v == nil {
			return value, true, true
		}
		return *v, false, true
	default:
		return value, false, false
	}
}

func intOf(v any) (value int64, null, ok bool) {
	if p, ok := v.(*int); ok {
		if p == nil {
			return 0, true, true
		}
		return int64(*p), false, true
	}
	return valueOf[int64](v)
}

func bytesOf(v any) (value []byte, null, ok bool) {
	if v == nil {
		return nil, false, true // a nil slice is NULL by itself
	}
	value, ok = v.([]byte)
	return value, false, ok
}

// Statement is a MultiRow with the values of its rows, one row after the other.
type Statement struct {
	Rows *MultiRow
	Args []any
}

// ExecAll runs statements in their order and returns the number of rows that each affected. PostgreSQL gets them in one
// exchange.
func (d *DB) ExecAll(ctx context.Context, tx *sql.Tx, list ...Statement) ([]int64, error) {
	return d.execAll(ctx, tx, false, list)
}

func (d *DB) execAll(ctx context.Context, tx *sql.Tx, last bool, list []Statement) ([]int64, error) {
	affected := make([]int64, len(list))
	if d.engine == Postgres {
		return affected, d.pipeline(ctx, tx, last, list, affected)
	}
	for i, st := range list {
		var err error
		if affected[i], err = d.Exec(ctx, tx, st.Rows, st.Args); err != nil {
			return nil, err
		}
	}
	return affected, nil
}

// pipeline sends the statements as one batch on the connection of tx, with the COMMIT if they are the last.
func (d *DB) pipeline(ctx context.Context, tx *sql.Tx, last bool, list []Statement, affected []int64) error {
	v, _ := d.conns.Load(tx)
	conn, ok := v.(*sql.Conn)
	if !ok {
		return errors.New("the transaction was not begun by Tx")
	}
	batch := &pgx.Batch{}
	var index []int
	for i, st := range list {
		if err := st.Rows.run(Postgres, st.Args, func(text string, args []any) error {
			batch.Queue(text, args...)
			index = append(index, i)
			return nil
		}); err != nil {
			return err
		}
	}
	return conn.Raw(func(driverConn any) error {
		pg, ok := driverConn.(*pgConn)
		if !ok {
			return fmt.Errorf("the driver's connection is a %T", driverConn)
		}
		counts, err := pg.send(ctx, batch, last)
		for i, n := range counts {
			affected[index[i]] += n
		}
		return err
	})
}

func (d *DB) exec(ctx context.Context, tx *sql.Tx, text string, args []any) (sql.Result, error) {
	return Prepared(d, tx).ExecContext(ctx, text, args...)
}

// Prepared returns a transaction whose statements stay prepared on SQLite, where preparing one takes as long as running
// it. It is for constant texts that run often: they are kept until the database is closed. pgx keeps them by itself.
func Prepared(d *DB, tx *sql.Tx) Querier {
	if d.engine == SQLite {
		return preparedTx{tx, &d.stmts}
	}
	return tx
}

type preparedTx struct {
	*sql.Tx

	stmts *statements
}

func (p preparedTx) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	if st := p.stmts.get(text); st != nil {
		return p.StmtContext(ctx, st).ExecContext(ctx, args...) //nolint:sqlclosecheck // the transaction closes it
	}
	return p.Tx.ExecContext(ctx, text, args...)
}

func (p preparedTx) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if st := p.stmts.get(text); st != nil {
		return p.StmtContext(ctx, st).QueryContext(ctx, args...) //nolint:sqlclosecheck // the transaction closes it
	}
	return p.Tx.QueryContext(ctx, text, args...)
}

func (p preparedTx) QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row {
	if st := p.stmts.get(text); st != nil {
		return p.StmtContext(ctx, st).QueryRowContext(ctx, args...) //nolint:sqlclosecheck // the transaction closes it
	}
	return p.Tx.QueryRowContext(ctx, text, args...)
}

// Query runs m, which returns rows, over the rows whose values args holds one after the other, and calls scan with each
// row that it returns.
func (d *DB) Query(ctx context.Context, tx *sql.Tx, m *MultiRow, args []any, scan func(*sql.Rows) error) error {
	return m.run(d.engine, args, func(text string, args []any) error {
		rows, err := tx.QueryContext(ctx, text, args...) //nolint:rowserrcheck // Each checks it
		if err != nil {
			return err
		}
		return Each(rows, scan)
	})
}

// Exec runs m over the rows whose values args holds one after the other, and returns the number of rows affected.
func (d *DB) Exec(ctx context.Context, tx *sql.Tx, m *MultiRow, args []any) (int64, error) {
	var affected int64
	err := m.run(d.engine, args, func(text string, args []any) error {
		res, err := d.exec(ctx, tx, text, args)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		affected += n
		return err
	})
	return affected, err
}
