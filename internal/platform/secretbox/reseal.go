package secretbox

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

const (
	// window is the number of rows that are read at a time, whether they need another key or not, so that a read of a
	// large table ends soon. It bounds a transaction as well.
	window = 500
	// resealRetries limits how often one window is read again because rows of it changed in the meantime.
	resealRetries = 5
	// resealErrors limits the rows that the error names.
	resealErrors = 10

	// A transaction has as many rows as it stores within these times: sealing again must not hold the writer for long.
	longWrite, shortWrite = 15 * time.Millisecond, 5 * time.Millisecond
	firstRows, leastRows  = 50, 5
	// longRest is the longest pause after a transaction.
	longRest = time.Second
)

// Database is what sealing again needs of a database.
type Database interface {
	Read() *sql.DB
	Tx(ctx context.Context, fn func(tx *sql.Tx) error) error
}

// Column is one sealed column. Its names come from code and are part of the SQL text.
type Column struct {
	// Table and Column are as in the AD of its values. The column is bytea or BLOB.
	Table, Column string
	// IDColumn is the unique text column for paging; its value is the RowID of the AD.
	IDColumn string
}

// Progress is how far Reseal or Count has come in a column.
type Progress struct {
	Column Column
	// Values is the number of values that were looked at. Changed is how many of them were encrypted again, and Left how
	// many are still under another key than the primary one.
	Values, Changed, Left int
	// Done says that the column is complete.
	Done bool
}

// Reseal encrypts the values of the columns again with the primary key, where another key sealed them, and returns
// the sum of all columns. It can be stopped and started again at any time, and several processes can run it. It
// leaves a value that changes in the meantime. It skips values that do not open, and names their rows in its error.
// It reads at most 500 rows at a time, keeps transactions short and rests after each for as long as it took. It calls
// report, if given, after each window of rows.
//
// A running server may seal with the old key for five seconds after a rotation. Reseal run later than that finds every
// value; the older keys stay in the keyset, so an earlier run loses none.
func Reseal(ctx context.Context, d Database, box *Box, columns []Column, report func(Progress)) (Progress, error) {
	var total Progress
	var errs []error
	for _, c := range columns {
		r := resealer{db: d, box: box, column: c, rows: firstRows, progress: Progress{Column: c}, report: report}
		err := r.run(ctx)
		total.Values, total.Changed = total.Values+r.progress.Values, total.Changed+r.progress.Changed
		total.Left += r.progress.Left
		if err != nil {
			return total, fmt.Errorf("secretbox: reseal %s.%s: %w", c.Table, c.Column, err)
		}
		errs = append(errs, r.err())
	}
	return total, errors.Join(errs...)
}

type resealer struct {
	db     Database
	box    *Box
	column Column
	// rows is the number of rows of the next transaction.
	rows     int
	progress Progress
	report   func(Progress)
	failed   []string // row ids, the first few
	nFailed  int
}

type resealRow struct {
	id       string
	old, new []byte
}

// page is a window of a column: its last id, empty at the end, how many values it has, and those of other keys.
type page struct {
	last   string
	values int
	rows   []resealRow
}

// run goes through the column. It encrypts between reading and writing, outside of transactions.
func (r *resealer) run(ctx context.Context) error {
	after, retries := "", 0
	for {
		p, err := readPage(ctx, r.db, r.column, after, r.box.PrimaryKeyID())
		if err != nil {
			return err
		}
		if p.last == "" {
			r.progress.Done = true
			r.show()
			return nil
		}
		sealed := r.seal(p.rows, retries == 0)
		missed, err := r.store(ctx, sealed)
		if err != nil {
			return err
		}
		if missed > 0 && retries < resealRetries {
			retries++
			continue
		}
		r.progress.Left += len(p.rows) - len(sealed) + missed
		r.progress.Values += p.values
		after, retries = p.last, 0
		r.show()
	}
}

func (r *resealer) show() {
	if r.report != nil {
		r.report(r.progress)
	}
}

// readPage reads the next window by id. The database returns only those values that another key sealed.
func readPage(ctx context.Context, d Database, c Column, after string, primary uint32) (p page, err error) {
	prefix := binary.BigEndian.AppendUint32([]byte{tinkStartByte}, primary)
	rows, err := d.Read().QueryContext(ctx, "SELECT "+c.IDColumn+", "+c.Column+" IS NOT NULL, CASE WHEN substr("+c.Column+
		", 1, 5) <> $2 THEN "+c.Column+" END FROM "+c.Table+" WHERE "+c.IDColumn+" > $1 ORDER BY "+c.IDColumn+" LIMIT $3",
		after, prefix, window)
	if err != nil {
		return page{}, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var row resealRow
		var holds bool
		if err := rows.Scan(&row.id, &holds, &row.old); err != nil {
			return page{}, err
		}
		p.last = row.id
		if holds {
			p.values++
		}
		if row.old != nil {
			p.rows = append(p.rows, row)
		}
	}
	return p, rows.Err()
}

// seal returns the rows that open, encrypted again. count is false for a window that is read again, so that a failing
// row counts once.
func (r *resealer) seal(rows []resealRow, count bool) []resealRow {
	out := make([]resealRow, 0, len(rows))
	for _, row := range rows {
		ad := AD{Table: r.column.Table, Column: r.column.Column, RowID: row.id}
		plain, err := r.box.Open(row.old, ad)
		if err == nil {
			row.new, err = r.box.Seal(plain, ad)
			clear(plain)
		}
		if err == nil {
			out = append(out, row)
			continue
		}
		if !count {
			continue
		}
		r.nFailed++
		if len(r.failed) < resealErrors {
			r.failed = append(r.failed, row.id)
		}
	}
	return out
}

// store writes the rows in transactions that stay short, and rests after each, so that others can write as well.
// missed counts the rows that have changed.
func (r *resealer) store(ctx context.Context, rows []resealRow) (missed int, err error) {
	for len(rows) > 0 {
		n := min(len(rows), r.rows)
		began := r.box.clock.Now()
		done, err := r.write(ctx, rows[:n])
		if err != nil {
			return missed, err
		}
		r.progress.Changed += done
		missed += n - done
		rows = rows[n:]
		took := r.box.clock.Now().Sub(began)
		switch {
		case took > longWrite:
			r.rows = max(leastRows, r.rows/2)
		case took < shortWrite:
			r.rows = min(window, r.rows+r.rows/2)
		}
		if err := r.rest(ctx, min(took, longRest)); err != nil {
			return missed, err
		}
	}
	return missed, nil
}

func (r *resealer) rest(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := r.box.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write stores the rows in one transaction. It changes only rows with the value that was read, and returns how many.
func (r *resealer) write(ctx context.Context, rows []resealRow) (done int, err error) {
	c := r.column
	err = r.db.Tx(ctx, func(tx *sql.Tx) (err error) {
		done = 0
		//nolint:gosec // the identifiers come from code, the values are bound
		stmt, err := tx.PrepareContext(ctx, "UPDATE "+c.Table+" SET "+c.Column+" = $1 WHERE "+c.IDColumn+" = $2 AND "+
			c.Column+" = $3")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stmt.Close()) }()
		for _, row := range rows {
			res, err := stmt.ExecContext(ctx, row.new, row.id, row.old)
			if err != nil {
				return err
			}
			n, err := res.RowsAffected()
			if err != nil {
				return err
			}
			done += int(n)
		}
		return nil
	})
	return done, err
}

// err returns the error about rows that did not open, or nil.
func (r *resealer) err() error {
	if r.nFailed == 0 {
		return nil
	}
	return fmt.Errorf("secretbox: reseal %s.%s: %d values do not open and were left unchanged, for example of rows %q: %w",
		r.column.Table, r.column.Column, r.nFailed, r.failed, ErrDecrypt)
}
