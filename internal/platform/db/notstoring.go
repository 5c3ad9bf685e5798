package db

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Reasons for which a database that responds stores nothing. Their texts may be shown to anyone.
var (
	errDiskFull = errors.New("the disk of the database is full")
	errReadOnly = errors.New("the database is read-only")
	errStorage  = errors.New("the storage of the database reports errors")
)

// NotStoring returns the reason that err gives for storing nothing: errDiskFull, errReadOnly or errStorage. It returns
// nil for other errors.
func NotStoring(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch {
		case pg.Code == "53100":
			return errDiskFull
		case pg.Code == "25006":
			return errReadOnly
		case strings.HasPrefix(pg.Code, "58"), pg.Code == "XX001", pg.Code == "XX002":
			return errStorage
		default:
			return nil
		}
	}
	var lite *sqlite.Error
	if !errors.As(err, &lite) {
		return nil
	}
	switch lite.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return errDiskFull
	case sqlite3.SQLITE_READONLY:
		return errReadOnly
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return errStorage
	default:
		return nil
	}
}

// OnNotStoring makes Tx call fn with the reason whenever a transaction fails because the database stores nothing.
func (d *DB) OnNotStoring(fn func(reason error)) { d.notStoring.Store(&fn) }

func (d *DB) reportNotStoring(err error) {
	if fn := d.notStoring.Load(); fn != nil {
		if reason := NotStoring(err); reason != nil {
			(*fn)(reason)
		}
	}
}
