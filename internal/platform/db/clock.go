package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"sallyport/internal/platform/clock"
)

// MaxClockOffset is how far a node's clock may be from the database's: leases and due times assume that they agree.
const MaxClockOffset = 2 * time.Second

// maxJump is how far the node's two clocks may move apart between two comparisons with the database.
const maxJump = time.Second

var (
	errClock    = errors.New("the clock is more than two seconds off the database's")
	errClockSet = errors.New("the node's clock was set while it was compared with the database's")
)

// Clock is the database's clock as seen from this node. Leases and due times that several nodes share use it, so that
// they do not depend on which node wrote them. Between two comparisons it counts the time that passes: setting the
// node's clock does not change it. SQLite has no clock of its own: there it is the node's, and Follow moves due times
// along if that is set.
type Clock struct {
	db      *DB
	own     clock.Clock
	measure func(ctx context.Context, d *DB, own clock.Clock) (time.Duration, error)
	// compared is the last comparison; nil before the first.
	compared atomic.Pointer[comparison]
}

// comparison is what the database's clock showed at a moment of this node.
type comparison struct {
	shown time.Time
	at    clock.Moment
}

// NewClock returns a Clock that shows the node's time until Sync has succeeded. A nil measure means ClockOffset.
func NewClock(d *DB, own clock.Clock,
	measure func(ctx context.Context, d *DB, own clock.Clock) (time.Duration, error)) *Clock {
	if measure == nil {
		measure = ClockOffset
	}
	return &Clock{db: d, own: own, measure: measure}
}

// Now returns the time of the database's clock.
func (c *Clock) Now() time.Time { return c.at(c.now()) }

// at returns what the database's clock shows at a moment of this node.
func (c *Clock) at(m clock.Moment) time.Time {
	last := c.compared.Load()
	if last == nil {
		return c.own.Now()
	}
	return last.shown.Add(last.at.Elapsed(m))
}

// Moment returns the present moment by the node's clocks.
func (c *Clock) Moment() clock.Moment { return c.now() }

func (c *Clock) now() clock.Moment { return clock.MomentOf(c.own) }

// NewTimer returns a timer of the node's clock.
func (c *Clock) NewTimer(d time.Duration) clock.Timer { return c.own.NewTimer(d) }

// Sync compares the database's clock with the node's.
func (c *Clock) Sync(ctx context.Context) error {
	before := c.now()
	offset, err := c.measure(ctx, c.db, c.own)
	if err != nil {
		return err
	}
	shown, after := c.own.Now().Round(0).Add(offset), c.now()
	if before.Jump(after).Abs() > maxJump {
		return errClockSet
	}
	c.compared.Store(&comparison{shown: shown, at: after})
	return nil
}

// Check returns an error while the node's clock is too far from the database's.
func (c *Clock) Check() error {
	if c.db.Engine() == SQLite {
		return nil // there is no other
	}
	now := c.now()
	if last := c.compared.Load(); last != nil &&
		last.shown.Add(last.at.Elapsed(now)).Sub(now.Wall()).Abs() > MaxClockOffset {
		return errClock
	}
	return nil
}

// Follow looks, on SQLite, whether the node's clock was set or the machine slept. If so, it calls shift in a
// transaction, which moves stored due times by as much, so that everything waits for as long as before, and follows the
// node's clock then. If shift fails, it follows the clock all the same. Until then, IsUncertain returns true.
func (c *Clock) Follow(ctx context.Context, shift func(ctx context.Context, tx *sql.Tx, by time.Duration) error) error {
	last := c.compared.Load()
	if last == nil || c.db.Engine() != SQLite {
		return nil
	}
	var err error
	if by := last.at.Jump(c.now()); by.Abs() > maxJump {
		err = c.db.Tx(ctx, func(tx *sql.Tx) error { return shift(ctx, tx, by) })
	}
	now := c.now()
	c.compared.Store(&comparison{shown: now.Wall(), at: now})
	return err
}

// IsUncertain reports whether the node's two clocks have moved apart since the last comparison: its clock was set, or
// the machine slept, which Now may have missed. Then no lease may begin before the next Sync, because it might end
// earlier than this node expects.
func (c *Clock) IsUncertain() bool {
	last := c.compared.Load()
	return last != nil && last.at.Jump(c.now()).Abs() > maxJump
}

// ClockOffset returns how far the database's clock is ahead of this node's. That of SQLite is zero, and the query shows
// that the database responds.
func ClockOffset(ctx context.Context, d *DB, own clock.Clock) (time.Duration, error) {
	if d.Engine() == SQLite {
		return 0, d.Ping(ctx)
	}
	// Waiting for a connection is not part of the round trip.
	conn, err := d.Reserved().Conn(ctx)
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
