package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// SkipLocked is the suffix with which several nodes share a queue; SQLite has one writer and needs none.
func (d *DB) SkipLocked() string {
	if d.engine == Postgres {
		return " FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// ForUpdate is the suffix that locks the rows a transaction is about to change; SQLite has one writer and needs none.
func (d *DB) ForUpdate() string {
	if d.engine == Postgres {
		return " FOR UPDATE"
	}
	return ""
}

// Storable reports whether both engines can store the text: PostgreSQL refuses U+0000 and text that is not UTF-8.
func Storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// In returns "($from,$from+1,…)" for n values.
func In(from, n int) string {
	var b strings.Builder
	b.WriteByte('(')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(from + i))
	}
	b.WriteByte(')')
	return b.String()
}

// AdvisoryLock takes the lock of the key until the transaction ends, and waits for it. SQLite's single writer
// serialises transactions by itself.
func (d *DB) AdvisoryLock(ctx context.Context, tx *sql.Tx, key LockKey) error {
	if d.engine != Postgres {
		return nil
	}
	_, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", int64(key))
	return err
}

// TryAdvisoryLock takes the lock of the key until the transaction ends, or reports that another transaction holds it.
func (d *DB) TryAdvisoryLock(ctx context.Context, tx *sql.Tx, key LockKey) (held bool, err error) {
	if d.engine != Postgres {
		return true, nil
	}
	err = tx.QueryRowContext(ctx, "SELECT pg_try_advisory_xact_lock($1)", int64(key)).Scan(&held)
	return held, err
}

// IsUniqueViolation reports whether err says that a row with that key exists.
func IsUniqueViolation(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "23505"
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		return lite.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || lite.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
	}
	return false
}

// isConflict reports whether err is a deadlock, a serialisation failure, or a row that was on its way to the default
// partition while a partition was made for it: nothing was stored and trying again is right.
func isConflict(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	// A partition's bounds are the only check without a name.
	moved := pg.Code == "23514" && pg.ConstraintName == ""
	return moved || pg.Code == "40P01" || pg.Code == "40001"
}

// IsLockTimeout reports whether err says that PostgreSQL's lock_timeout passed before a lock was free.
func IsLockTimeout(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "55P03"
}

// refused reports whether err is PostgreSQL's refusal of a commit, as opposed to the loss of the connection, which a
// server that is shutting down also reports.
func refused(err error) bool {
	var pg *pgconn.PgError
	return errors.Is(err, pgx.ErrTxCommitRollback) || errors.As(err, &pg) && pg.Code[:2] != "08" && pg.Code[:2] != "57"
}

// IsUnavailable reports whether err says that the database cannot serve now (lost connection, full disk, lock timeout),
// as opposed to refusing this one statement.
func IsUnavailable(err error) bool {
	if err == nil {
		return false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code[:2] {
		case "08", "53", "57", "58", "XX", "25", "40", "55":
			return true
		default:
			return false
		}
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		switch lite.Code() & 0xff {
		case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN,
			sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_PROTOCOL:
			return true
		default:
			return false
		}
	}
	var connect *pgconn.ConnectError
	var netErr net.Error
	return errors.Is(err, ErrCommitUnknown) || errors.As(err, &connect) || errors.As(err, &netErr) ||
		pgconn.Timeout(err) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, sql.ErrTxDone) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, net.ErrClosed) ||
		strings.Contains(err.Error(), "unexpected EOF") || strings.Contains(err.Error(), "conn closed")
}
