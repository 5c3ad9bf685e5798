package limiter

import (
	"sync"
	"time"

	"sallyport/internal/platform/id"
)

// seen is what a provider has last said about the limit of a connection.
type seen struct {
	// Limit is the number of requests of a whole window; 0 if it is not known.
	Limit int64
	// Remaining is how many of them are left; negative if it is not known.
	Remaining int64
	// ResetAt is the end of the window; zero if it is not known.
	ResetAt time.Time
	// BlockedUntil is until when the provider wants no request; zero if it has not said so.
	BlockedUntil time.Time
	// ObservedAt is when the last response came.
	ObservedAt time.Time
}

// opensAt returns when a request may be sent, as far as the provider has said.
func (s *seen) opensAt() time.Time {
	if s.Remaining == 0 && s.ResetAt.After(s.BlockedUntil) {
		return s.ResetAt
	}
	return s.BlockedUntil
}

// shift moves the times from one clock to another.
func (s *seen) shift(by time.Duration) {
	for _, t := range []*time.Time{&s.ResetAt, &s.BlockedUntil, &s.ObservedAt} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
}

// merge adds what was seen at another time. The later response decides about the window, the later end about a block.
func (s *seen) merge(o seen) {
	blocked := s.BlockedUntil
	if o.BlockedUntil.After(blocked) {
		blocked = o.BlockedUntil
	}
	if !o.ObservedAt.Before(s.ObservedAt) {
		if o.Remaining < 0 { // the response said nothing about the window
			o.Limit, o.Remaining, o.ResetAt = s.Limit, s.Remaining, s.ResetAt
		}
		*s = o
	}
	s.BlockedUntil = blocked
}

// maxKnown bounds the connections in memory. Others are limited by their budgets only, until the provider says more.
const maxKnown = 100_000

// known is what a node knows of connections that providers have said something about.
type known struct {
	mu           sync.Mutex
	byConnection map[string]*entry
	// dirty are those with news that is not stored yet.
	dirty map[string]*entry
}

type entry struct {
	environment id.Environment
	seen
}

// wait returns how long a connection must not send.
func (k *known) wait(connection string, now time.Time) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.byConnection[connection]
	if e == nil {
		return 0
	}
	return max(0, e.opensAt().Sub(now))
}

// spend counts a request that is sent, until a response says how many are left.
func (k *known) spend(connection string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.byConnection[connection]; e != nil && e.Remaining > 0 {
		e.Remaining--
	}
}

// add adds what this node has seen.
func (k *known) add(c *Caller, s seen) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dirty == nil {
		k.dirty = map[string]*entry{}
	}
	k.dirty[c.Connection] = k.merge(c.Connection, c.Environment, s)
}

// hear adds what other nodes have seen.
func (k *known) hear(rows []row) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range rows {
		k.merge(rows[i].connection, rows[i].environment, rows[i].seen)
	}
}

// merge adds what was seen of a connection; k.mu is held.
func (k *known) merge(connection string, env id.Environment, s seen) *entry {
	e := k.byConnection[connection]
	if e == nil {
		if k.byConnection == nil {
			k.byConnection = map[string]*entry{}
		}
		if len(k.byConnection) >= maxKnown {
			k.makeRoom(s.ObservedAt)
		}
		e = &entry{environment: env, seen: seen{Remaining: -1}}
		k.byConnection[connection] = e
	}
	e.merge(s)
	return e
}

// makeRoom forgets what is not needed: connections that may send, and if these are few, any others.
func (k *known) makeRoom(now time.Time) {
	const enough = maxKnown - maxKnown/10
	for _, needed := range []bool{true, false} {
		for connection, e := range k.byConnection { // map order is random enough to choose by
			if len(k.byConnection) <= enough {
				return
			}
			if !needed || !e.opensAt().After(now) {
				delete(k.byConnection, connection)
			}
		}
	}
}

// news returns what is not stored yet, and forgets that it is not.
func (k *known) news() []row {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]row, 0, len(k.dirty))
	for connection, e := range k.dirty {
		out = append(out, row{connection: connection, environment: e.environment, seen: e.seen})
	}
	k.dirty = nil
	return out
}

// restore marks rows that could not be stored.
func (k *known) restore(rows []row) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range rows {
		if e := k.byConnection[rows[i].connection]; e != nil {
			if k.dirty == nil {
				k.dirty = map[string]*entry{}
			}
			k.dirty[rows[i].connection] = e
		}
	}
}

// of returns what is known of a connection in memory.
func (k *known) of(connection string) (seen, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.byConnection[connection]; e != nil {
		return e.seen, true
	}
	return seen{}, false
}
