package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
)

// MaxClockOffset is how far a node's clock may be from the database's: leases and due times assume that they agree.
const MaxClockOffset = 2 * time.Second

var errClock = errors.New("the clock is more than two seconds off the database's")

// Clock is the database's clock as seen from this node. Leases and due times that several nodes share use it, so that
// they do not depend on which node wrote them. SQLite has no clock of its own: there it is the node's.
type Clock struct {
	*clock.Shifted
	db      *DB
	own     clock.Clock
	measure func(ctx context.Context, d *DB, own clock.Clock) (time.Duration, error)
}

// NewClock returns a Clock that shows the node's time until Sync has succeeded. A nil measure means ClockOffset.
func NewClock(d *DB, own clock.Clock,
	measure func(ctx context.Context, d *DB, own clock.Clock) (time.Duration, error)) *Clock {
	if measure == nil {
		measure = ClockOffset
	}
	return &Clock{Shifted: clock.NewShifted(own), db: d, own: own, measure: measure}
}

// Sync measures how far the database's clock is ahead, and uses it from then on.
func (c *Clock) Sync(ctx context.Context) error {
	offset, err := c.measure(ctx, c.db, c.own)
	if err == nil {
		c.Set(offset)
	}
	return err
}

// Check returns an error where the clocks were too far apart at the last Sync.
func (c *Clock) Check() error {
	if c.Offset().Abs() > MaxClockOffset {
		return errClock
	}
	return nil
}

// ClockOffset returns how far the database's clock is ahead of this node's. That of SQLite is zero, and the query shows
// that the database responds.
func ClockOffset(ctx context.Context, d *DB, own clock.Clock) (time.Duration, error) {
	if d.Engine() == SQLite {
		return 0, d.Ping(ctx)
	}
	// Waiting for a connection is not part of the round trip.
	conn, err := d.Read().Conn(ctx)
	if err != nil {
		return 0, fmt.Errorf("reach the database's clock: %w", err)
	}
	defer func() { _ = conn.Close() }() // gives it back to the pool
	before := own.Now()
	var ms float64
	if err := conn.QueryRowContext(ctx, "SELECT EXTRACT(EPOCH FROM clock_timestamp()) * 1000").Scan(&ms); err != nil {
		return 0, fmt.Errorf("read the database's clock: %w", err)
	}
	half := own.Now().Sub(before) / 2
	return clock.FromMillis(int64(ms)).Sub(before.Add(half)), nil
}
