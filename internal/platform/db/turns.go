package db

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Turn is a class of work that writes. SQLite has one writer, for which transactions wait. Between them its time is
// shared by class: what a class has used is weighed, and the class that has used least goes next. So a request waits
// for the transaction in progress and hardly for others, no matter how much the workers have to store, and the workers
// store their part, no matter how many requests there are. Within a class the time is shared by owner in the same way,
// so that the requests of one environment do not delay those of another.
type Turn int

// The classes, in the order in which they go if they have used the same.
const (
	// TurnRequest is work for which a client waits: the default.
	TurnRequest Turn = iota
	// TurnDelivery is that of the workers that send: claims, leases and outcomes. They get the same time as requests, so
	// that they keep up with what requests store.
	TurnDelivery
	// TurnJob is work for which no one waits.
	TurnJob
	turns
)

// weight divides the time that a class uses.
func (t Turn) weight() time.Duration {
	if t == TurnJob {
		return 1
	}
	return 4
}

type turnKey struct{}

// WithTurn returns a context whose write transactions are of the class.
func WithTurn(ctx context.Context, t Turn) context.Context {
	return context.WithValue(ctx, turnKey{}, t)
}

// turnOf returns the class of the context's write transactions.
func turnOf(ctx context.Context) Turn {
	t, _ := ctx.Value(turnKey{}).(Turn)
	return t
}

type ownerKey struct{}

// WithOwner returns a context whose write transactions are those of an owner: the environment, or the team where there
// is none.
func WithOwner(ctx context.Context, owner string) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// ownerOf returns the owner of the context's write transactions; empty for work for all of them, such as the commits of
// events.
func ownerOf(ctx context.Context) string {
	owner, _ := ctx.Value(ownerKey{}).(string)
	return owner
}

// Waiting returns how many transactions of all classes wait for SQLite's writer; 0 on PostgreSQL.
func (d *DB) Waiting() (n int) {
	d.writer.mu.Lock()
	defer d.writer.mu.Unlock()
	for t := range d.writer.classes {
		n += d.writer.classes[t].waiting
	}
	return n
}

// writer passes SQLite's connection for writing from one transaction to the next. Its zero value is free.
type writer struct {
	mu   sync.Mutex
	busy bool
	// classes share the time. level is the weighed time that the class had used that was served last, at the beginning of
	// its turn. A class that comes back from a rest starts at the level: it saves nothing up.
	classes [turns]class
	level   time.Duration
	// current is the class that has the connection, and owner its owner there.
	current Turn
	owner   *owner
	// arrivals counts the transactions that have waited.
	arrivals int64
}

// class is what the writer knows of a class.
type class struct {
	used    time.Duration
	waiting int
	// owners share the time of the class, as classes share that of the writer. Those that rest are forgotten once their
	// number has reached forgetAt.
	owners   map[string]*owner
	level    time.Duration
	forgetAt int
}

// owner is what a class knows of an owner: the weighed time that it has used, and its transactions that wait.
type owner struct {
	used    time.Duration
	weight  time.Duration
	waiting []waiter
}

// waiter is a transaction that waits for its turn; number is its place in the order of their arrival.
type waiter struct {
	turn   chan struct{}
	number int64
}

// sharedWeight divides the time that work for all owners uses, so that it has a part even when many of them are busy.
const sharedWeight = 4

// leastForgotten is the number of owners from which on those that rest are forgotten.
const leastForgotten = 64

// acquire waits for the turn of a transaction of the class and the owner. It returns ctx's error if that ends first;
// otherwise release must follow.
func (w *writer) acquire(ctx context.Context, t Turn, name string) error {
	w.mu.Lock()
	c := &w.classes[t]
	o := c.owner(name, w.owner)
	if c.waiting == 0 && (!w.busy || w.current != t) {
		c.used = max(c.used, w.level)
	}
	if len(o.waiting) == 0 && (!w.busy || w.owner != o) {
		o.used = max(o.used, c.level)
	}
	if !w.busy {
		w.serve(t, o)
		w.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	w.arrivals++
	o.waiting = append(o.waiting, waiter{turn, w.arrivals})
	c.waiting++
	w.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.IndexFunc(o.waiting, func(x waiter) bool { return x.turn == turn }); i >= 0 {
		o.waiting = slices.Delete(o.waiting, i, i+1)
		c.waiting--
		return ctx.Err()
	}
	return nil // its turn came at the same time
}

// owner returns what is known of an owner. The one that has the connection is not forgotten.
func (c *class) owner(name string, current *owner) *owner {
	if o := c.owners[name]; o != nil {
		return o
	}
	if c.owners == nil {
		c.owners, c.forgetAt = map[string]*owner{}, leastForgotten
	}
	if len(c.owners) >= c.forgetAt {
		for name, o := range c.owners {
			if len(o.waiting) == 0 && o.used <= c.level && o != current {
				delete(c.owners, name)
			}
		}
		c.forgetAt = max(leastForgotten, 2*len(c.owners))
	}
	o := &owner{weight: 1}
	if name == "" {
		o.weight = sharedWeight
	}
	c.owners[name] = o
	return o
}

// next returns the owner that goes next: of those that wait the one that has used least, and of several the one that
// has waited longest.
func (c *class) next() (next *owner) {
	for _, o := range c.owners {
		if len(o.waiting) > 0 && (next == nil || o.used < next.used ||
			o.used == next.used && o.waiting[0].number < next.waiting[0].number) {
			next = o
		}
	}
	return next
}

// serve gives the connection to an owner of the class.
func (w *writer) serve(t Turn, o *owner) {
	c := &w.classes[t]
	w.busy, w.current, w.owner = true, t, o
	w.level, c.level = max(w.level, c.used), max(c.level, o.used)
}

// release ends a turn that took so long, and gives the connection to the next.
func (w *writer) release(took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &w.classes[w.current]
	c.used += took / w.current.weight()
	w.owner.used += took / w.owner.weight
	if c.waiting == 0 {
		c.level = max(c.level, w.owner.used) // what was used before has delayed no one who waits
	}
	w.busy, w.owner = false, nil
	next := turns
	for t := range turns {
		if w.classes[t].waiting > 0 && (next == turns || w.classes[t].used < w.classes[next].used) {
			next = t
		}
	}
	if next == turns {
		return
	}
	o := w.classes[next].next()
	w.serve(next, o)
	close(o.waiting[0].turn)
	o.waiting = slices.Delete(o.waiting, 0, 1)
	w.classes[next].waiting--
}
