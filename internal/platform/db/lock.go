package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
)

// lockIdle is the time in milliseconds without a statement after which the server ends the connection that holds a
// Lock: a node that vanished must not keep the others out.
const lockIdle = "60000"

// Lock is held by one process at a time. On SQLite it is always free: one process works on the file.
type Lock struct {
	conn *sql.Conn
	key  LockKey
}

// TryLock takes the lock of the key, or reports that another process holds it. Its holder calls Check every few
// seconds, and Unlock when done.
func (d *DB) TryLock(ctx context.Context, key LockKey) (l *Lock, ok bool, err error) {
	if d.engine != Postgres {
		return &Lock{}, true, nil
	}
	conn, err := d.Read().Conn(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("take a lock: %w", err)
	}
	err = conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", int64(key)).Scan(&ok)
	if err == nil && ok {
		_, err = conn.ExecContext(ctx, "SET idle_session_timeout = "+lockIdle)
	}
	l = &Lock{conn, key}
	if err != nil {
		return nil, false, errors.Join(fmt.Errorf("take a lock: %w", err), l.drop())
	}
	if !ok {
		return nil, false, conn.Close() // returns it to the pool
	}
	return l, true, nil
}

// Check returns an error when another process may hold the lock by now.
func (l *Lock) Check(ctx context.Context) error {
	if l.conn == nil {
		return nil
	}
	var one int
	if err := l.conn.QueryRowContext(ctx, "SELECT 1").Scan(&one); err != nil {
		return fmt.Errorf("check a lock: %w", err)
	}
	return nil
}

// Unlock releases the lock.
func (l *Lock) Unlock(ctx context.Context) error {
	if l.conn == nil {
		return nil
	}
	_, err := l.conn.ExecContext(ctx, "RESET idle_session_timeout")
	if err == nil {
		_, err = l.conn.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", int64(l.key))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("release a lock: %w", err), l.drop())
	}
	return l.conn.Close()
}

// drop closes the connection, which releases its locks, instead of returning it to the pool.
func (l *Lock) drop() error {
	err := l.conn.Raw(func(any) error { return driver.ErrBadConn })
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	return err
}
