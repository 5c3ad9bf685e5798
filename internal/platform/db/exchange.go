package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// connector makes the connections of PostgreSQL's pools.
type connector struct {
	driver.Connector
	// limit bounds each statement outside a transaction; 0 if it may take any time.
	limit time.Duration
}

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	pg, ok := conn.(*stdlib.Conn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the driver's connection is a %T", conn), conn.Close())
	}
	return &pgConn{Conn: pg, limit: c.limit}, nil
}

// pgConn is a connection that spares exchanges with the server: BEGIN travels with the first statement of a
// transaction, and COMMIT with the last ones where ExecLast names them. A small transaction waits for the server more
// than it works, and each exchange costs both sides a wake-up.
//
// It also ends every statement in time, so that a server or a network that went silent becomes an error.
type pgConn struct {
	*stdlib.Conn
	state txState
	// tx is the context of the transaction, which bounds all its statements, regardless of their own contexts; nil outside
	// one. There, limit bounds each statement.
	tx    context.Context //nolint:containedctx // it is that of BeginTx, whose statements come with others
	limit time.Duration
	// release frees what the bound of the last statement holds.
	release context.CancelFunc
}

// txState is how far the connection's transaction has come.
type txState int

const (
	// noTx: there is no transaction, or database/sql ends it.
	noTx txState = iota
	// notBegun: BEGIN has not been sent yet.
	notBegun
	// begun: BEGIN has succeeded.
	begun
	// committed: COMMIT has succeeded, with the last statements.
	committed
	// failed: BEGIN or COMMIT has failed. There is no transaction, and nothing may be sent as if there were one.
	failed
	// unknown: COMMIT was sent, and no response came.
	unknown
)

var (
	errTxOver   = errors.New("the transaction was committed with its last statements")
	errTxFailed = errors.New("the transaction has failed")
)

// pingTimeout bounds how long a connection that was idle has to respond before another is taken. All of a server that
// has moved are dead, and a transaction must find a new one in its time.
const pingTimeout = 2 * time.Second

// ResetSession implements driver.SessionResetter.
func (c *pgConn) ResetSession(ctx context.Context) error {
	c.free()
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return c.Conn.ResetSession(ctx)
}

// Close implements driver.Conn.
func (c *pgConn) Close() error {
	c.free()
	return c.Conn.Close()
}

// bounded returns the context of a statement with the bound that applies to it. The statement before must be over, as
// the connection itself requires.
func (c *pgConn) bounded(ctx context.Context) context.Context {
	c.free()
	var deadline time.Time
	var limited bool
	switch {
	case c.tx == nil && c.limit == 0:
		return ctx
	case c.tx == nil:
		deadline, limited = time.Now().Add(c.limit), true //nolint:forbidigo // a deadline of the network is by the wall clock
	case ctx.Done() == nil:
		return c.tx
	default:
		deadline, limited = c.tx.Deadline()
	}
	if own, ok := ctx.Deadline(); !limited || ok && own.Before(deadline) {
		return ctx
	}
	ctx, c.release = context.WithDeadline(ctx, deadline)
	return ctx
}

func (c *pgConn) free() {
	if c.release != nil {
		c.release()
		c.release = nil
	}
}

// BeginTx implements driver.ConnBeginTx. It sends nothing.
func (c *pgConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if o != (driver.TxOptions{}) {
		return c.Conn.BeginTx(ctx, o)
	}
	if c.Conn.Conn().IsClosed() {
		return nil, driver.ErrBadConn
	}
	c.state, c.tx = notBegun, ctx
	return &pgTx{conn: c, ctx: ctx}, nil
}

// ended forgets the transaction.
func (c *pgConn) ended() {
	c.free()
	c.state, c.tx = noTx, nil
}

// begin sends BEGIN if a transaction waits for it.
func (c *pgConn) begin(ctx context.Context) error {
	switch c.state {
	case notBegun:
		if _, err := c.Conn.Conn().Exec(ctx, "begin"); err != nil {
			c.state = failed
			return err
		}
		c.state = begun
	case committed:
		return errTxOver
	case failed, unknown:
		return errTxFailed
	case noTx, begun:
	}
	return nil
}

// QueryContext implements driver.QueryerContext.
func (c *pgConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	ctx = c.bounded(ctx)
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	return c.Conn.QueryContext(ctx, query, args)
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *pgConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	ctx = c.bounded(ctx)
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	return c.Conn.PrepareContext(ctx, query)
}

// ExecContext implements driver.ExecerContext.
func (c *pgConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.state == noTx || c.state == begun {
		return c.Conn.ExecContext(c.bounded(ctx), query, args)
	}
	values := make([]any, len(args))
	for i, a := range args {
		values[i] = a.Value
	}
	batch := &pgx.Batch{}
	batch.Queue(query, values...)
	affected, err := c.send(ctx, batch, false)
	if err != nil {
		return nil, err
	}
	return driver.RowsAffected(affected[0]), nil
}

// send sends statements in one exchange, with BEGIN before them if it was not sent yet, and COMMIT after them if they
// are the last. It returns the number of rows that each affected. After ErrCommitUnknown the transaction may be stored
// or not; after any other error it is not.
func (c *pgConn) send(ctx context.Context, statements *pgx.Batch, last bool) (affected []int64, err error) {
	switch c.state {
	case committed:
		return nil, errTxOver
	case failed, unknown:
		return nil, errTxFailed
	case noTx, notBegun, begun:
	}
	batch, first := statements, 0
	if c.state == notBegun {
		batch, first = &pgx.Batch{}, 1
		batch.Queue("begin")
		batch.QueuedQueries = append(batch.QueuedQueries, statements.QueuedQueries...)
	}
	if last {
		batch.Queue("commit")
	}
	conn := c.Conn.Conn()
	affected, err = execute(conn.SendBatch(c.bounded(ctx), batch), batch.Len(), last)
	switch {
	case err == nil && last:
		c.state = committed
		return affected[first : len(affected)-1], nil
	case err == nil:
		c.state = begun
		return affected[first:], nil
	case last && !refused(err):
		c.state = unknown
		return nil, fmt.Errorf("%w: %w", ErrCommitUnknown, err)
	case conn.PgConn().TxStatus() != noServerTx:
		c.state = begun // and has to be rolled back
	default:
		c.state = failed
	}
	return nil, err
}

// noServerTx is the status of a server's session in which no transaction has begun.
const noServerTx = 'I'

// execute reads the results of n statements, the last of which may be a COMMIT.
func execute(results pgx.BatchResults, n int, commits bool) ([]int64, error) {
	affected := make([]int64, n)
	for i := range affected {
		tag, err := results.Exec()
		if err == nil && commits && i == n-1 && tag.String() != "COMMIT" {
			err = pgx.ErrTxCommitRollback
		}
		if err != nil {
			return nil, errors.Join(err, results.Close())
		}
		affected[i] = tag.RowsAffected()
	}
	return affected, results.Close()
}

// pgTx ends the transaction of a pgConn.
type pgTx struct {
	conn *pgConn
	ctx  context.Context //nolint:containedctx // driver.Tx takes none; it is that of BeginTx, as in pgx
}

// Commit implements driver.Tx.
func (t *pgTx) Commit() error {
	state := t.conn.state
	t.conn.ended()
	switch state {
	case failed:
		return pgx.ErrTxCommitRollback
	case unknown:
		return driver.ErrBadConn
	case noTx, notBegun, committed:
		return nil // there is nothing to commit
	case begun:
	}
	conn := t.conn.Conn.Conn()
	tag, err := conn.Exec(t.ctx, "commit")
	if err != nil {
		if conn.PgConn().TxStatus() != noServerTx {
			_ = conn.Close(t.ctx) // a transaction that is neither stored nor rolled back ends with its connection
		}
		return err
	}
	if tag.String() == "ROLLBACK" {
		return pgx.ErrTxCommitRollback
	}
	return nil
}

// Rollback implements driver.Tx.
func (t *pgTx) Rollback() error {
	t.conn.ended()
	conn := t.conn.Conn.Conn()
	if conn.IsClosed() {
		return driver.ErrBadConn
	}
	if conn.PgConn().TxStatus() == noServerTx {
		return nil // it has not begun, or is over
	}
	if _, err := conn.Exec(t.ctx, "rollback"); err != nil {
		_ = conn.Close(t.ctx)
		return err
	}
	return nil
}

// ExecLast is ExecAll for the last statements of a function of Tx: PostgreSQL gets them with the COMMIT in one
// exchange. No statement can follow in the transaction.
func (d *DB) ExecLast(ctx context.Context, tx *sql.Tx, list ...Statement) ([]int64, error) {
	// A check runs before the commit.
	return d.execAll(ctx, tx, CheckOf(ctx) == nil, list)
}
