package db

import (
	"context"
	"runtime"
	"time"

	"sallyport/internal/platform/turnstile"
)

const (
	// listWait bounds how long a read waits for its turn, and listTimeout how long it may take then.
	listWait, listTimeout = 3 * time.Second, 5 * time.Second
	// maxLists is how many reads of List run at a time, at most.
	maxLists = 4
)

// places returns how many reads of List may run at a time. SQLite runs in this process, so half of its processors are
// left to everything else.
func places(e Engine) int {
	if e == Postgres {
		return maxLists
	}
	return min(maxLists, max(1, runtime.GOMAXPROCS(0)/2))
}

func newGate(e Engine) *turnstile.Gate {
	return turnstile.New(places(e), max(1, places(e)-1), listWait, "Too many lists are being read; retry later")
}

// List runs a read whose cost depends on what is stored, and not only on what it returns, such as a part of a list with
// filters. Few run at a time, owners take turns, and they have connections of their own, so that no client's reads
// delay the gateway's work or another environment's for long. The owner is the environment, or the team where there is
// none. The read runs one query at a time through q. A longer search calls List for each of its parts: turns are taken
// between them, and none keeps a snapshot that SQLite's log must preserve.
//
// If no turn comes in time the error is unavailable, with the time after which to retry.
func (d *DB) List(ctx context.Context, owner string, read func(ctx context.Context, q Querier) error) error {
	refuseInTx(d, "List")
	leave, err := d.gate.Enter(ctx, owner)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return read(ctx, d.lists)
}

// Listed is List for a read that returns rows.
func Listed[T any](ctx context.Context, d *DB, owner string,
	read func(ctx context.Context, q Querier) (T, error)) (out T, err error) {
	err = d.List(ctx, owner, func(ctx context.Context, q Querier) error {
		out, err = read(ctx, q)
		return err
	})
	return out, err
}
