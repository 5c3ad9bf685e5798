package secretbox

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// resealBatch is the maximum of rows in one transaction: sealing again must not hold the writer for long.
	resealBatch = 200
	// resealRetries limits how often one page is read again because rows of it changed in the meantime.
	resealRetries = 5
	// resealErrors limits the rows that the error names.
	resealErrors = 10
)

// Column is one sealed column. Its names come from code and are part of the SQL text.
type Column struct {
	// Table and Column are as in the AD of its values. The column is bytea or BLOB.
	Table, Column string
	// IDColumn is the unique text column for paging; its value is the RowID of the AD.
	IDColumn string
}

// Reseal encrypts the values of the columns again with the primary key, where another key sealed them, and returns the
// number of values that it changed. It can be stopped and started again at any time. It leaves a value that changes in
// the meantime. It skips values that do not open, and names their rows in its error.
//
// A running server may seal with the old key for five seconds after a rotation. Reseal run later than that finds every
// value; the older keys stay in the keyset, so an earlier run loses none.
func Reseal(ctx context.Context, db *sql.DB, box *Box, columns []Column) (int, error) {
	total := 0
	var errs []error
	for _, c := range columns {
		r := resealer{db: db, box: box, column: c}
		err := r.run(ctx)
		total += r.changed
		if err != nil {
			return total, fmt.Errorf("secretbox: reseal %s.%s: %w", c.Table, c.Column, err)
		}
		errs = append(errs, r.err())
	}
	return total, errors.Join(errs...)
}

type resealer struct {
	db      *sql.DB
	box     *Box
	column  Column
	changed int
	failed  []string // row ids, the first few
	nFailed int
}

type resealRow struct {
	id       string
	old, new []byte
}

// run pages through the column. It encrypts between reading and writing, outside of transactions.
func (r *resealer) run(ctx context.Context) error {
	after, retries := "", 0
	for {
		primary := r.box.PrimaryKeyID()
		rows, err := r.page(ctx, after, primary)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return nil
		}
		last := rows[len(rows)-1].id
		done, missed, err := r.write(ctx, r.seal(rows, retries == 0))
		r.changed += done
		if err != nil {
			return err
		}
		if missed > 0 && retries < resealRetries {
			retries++
			continue
		}
		after, retries = last, 0
	}
}

// page reads the next rows that another key than the primary one sealed, by id.
func (r *resealer) page(ctx context.Context, after string, primary uint32) (_ []resealRow, err error) {
	prefix := binary.BigEndian.AppendUint32([]byte{tinkStartByte}, primary)
	c := r.column
	//nolint:gosec // the identifiers come from code, the values are bound
	rows, err := r.db.QueryContext(ctx, "SELECT "+c.IDColumn+", "+c.Column+" FROM "+c.Table+
		" WHERE "+c.IDColumn+" > $1 AND substr("+c.Column+", 1, 5) <> $2 ORDER BY "+c.IDColumn+" LIMIT $3",
		after, prefix, resealBatch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var out []resealRow
	for rows.Next() {
		var row resealRow
		if err := rows.Scan(&row.id, &row.old); err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// seal encrypts the rows again and drops those that do not open. count is false for a page that is read again, so that
// a failing row counts once.
func (r *resealer) seal(rows []resealRow, count bool) []resealRow {
	out := rows[:0]
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

// write stores the rows in one transaction. It changes only rows with the value that was read; missed counts the
// others.
func (r *resealer) write(ctx context.Context, rows []resealRow) (done, missed int, err error) {
	if len(rows) == 0 {
		return 0, 0, nil
	}
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		if rerr := tx.Rollback(); rerr != nil && !errors.Is(rerr, sql.ErrTxDone) {
			err = errors.Join(err, rerr)
		}
	}()
	c := r.column
	//nolint:gosec // the identifiers come from code, the values are bound
	stmt, err := tx.PrepareContext(ctx, "UPDATE "+c.Table+" SET "+c.Column+" = $1 WHERE "+c.IDColumn+" = $2 AND "+c.Column+
		" = $3")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	for _, row := range rows {
		res, err := stmt.ExecContext(ctx, row.new, row.id, row.old)
		if err != nil {
			return 0, 0, err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return 0, 0, err
		}
		if n == 0 {
			missed++
			continue
		}
		done++
	}
	if err := tx.Commit(); err != nil {
		return 0, 0, err
	}
	return done, missed, nil
}

// err returns the error about rows that did not open, or nil.
func (r *resealer) err() error {
	if r.nFailed == 0 {
		return nil
	}
	return fmt.Errorf("secretbox: reseal %s.%s: %d values do not open and were left unchanged, for example of rows %q: %w",
		r.column.Table, r.column.Column, r.nFailed, r.failed, ErrDecrypt)
}
