package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// MaxNotice is the maximum size of a text for Notify, in bytes.
const MaxNotice = 7900

// Notify sends texts to the processes that Listen on the channel, on PostgreSQL. It changes nothing, so nothing waits
// for the disk. It must not be part of a transaction with work: PostgreSQL lets one transaction that notifies commit at
// a time.
func Notify(ctx context.Context, d *DB, channel string, texts []string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if _, err := d.reserved.ExecContext(ctx, "SELECT pg_notify($1, n.text) FROM unnest($2::text[]) AS n (text)", channel,
		texts); err != nil {
		return fmt.Errorf("notify other processes: %w", err)
	}
	return nil
}

// listenCheck is how often Listen looks whether the server is still there.
const listenCheck = 15 * time.Second

// Listen calls hear with each text that any process sends on the channel, over a connection of its own, until that is
// lost or ctx ends. It calls begun when it listens: what was sent before is not heard. It is for PostgreSQL.
func Listen(ctx context.Context, d *DB, channel string, begun func(), hear func(text string)) (err error) {
	conn, err := pgx.ConnectConfig(ctx, d.listen.Copy())
	if err != nil {
		return fmt.Errorf("connect to listen: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
		defer cancel()
		err = errors.Join(err, conn.Close(closing))
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	begun()
	for {
		n, err := waitForNotice(ctx, conn)
		if err != nil {
			return err
		}
		if n != nil {
			hear(n.Payload)
		}
	}
}

// waitForNotice returns the next notification, and nil if there was none for some time and the server is there.
func waitForNotice(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	waiting, cancel := context.WithTimeout(ctx, listenCheck)
	defer cancel()
	n, err := conn.WaitForNotification(waiting)
	if err == nil || ctx.Err() != nil || waiting.Err() == nil {
		return n, err
	}
	checking, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := conn.Ping(checking); err != nil {
		return nil, fmt.Errorf("look whether the server is there: %w", err)
	}
	return nil, nil //nolint:nilnil // neither a notification nor an error
}
