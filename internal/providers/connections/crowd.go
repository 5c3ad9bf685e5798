package connections

import (
	"sync"
	"time"

	"sallyport/internal/providers/probes"
)

const (
	// crowdSize is how many connections of one host have to be refused, and be half of those tested, for the provider to
	// be the probable reason. crowdLasts is for how long it is believed to be.
	crowdSize  = 3
	crowdLasts = 24 * time.Hour
)

// crowd knows what hosts have said to the tests of this node lately. A provider that refuses the credentials of many
// connections at the same time is probably wrong.
type crowd struct {
	// window is how long an outcome counts.
	window time.Duration

	mu     sync.Mutex
	byHost map[string]*crowdHost
}

type crowdHost struct {
	outcomes map[string]crowdOutcome // by the UUID of the connection
	// since is when most were first refused; zero while they are not.
	since time.Time
}

type crowdOutcome struct {
	at      time.Time
	refused bool
}

// temper makes the refusal of a report an error of the provider where it refuses many connections.
func (w *crowd) temper(c *Connection, r *probes.Report, now time.Time) {
	if c.EnabledStatus != Active {
		return // it was refused before
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.byHost[c.host()]
	if h == nil {
		if w.byHost == nil {
			w.byHost = map[string]*crowdHost{}
		}
		h = &crowdHost{outcomes: map[string]crowdOutcome{}}
		w.byHost[c.host()] = h
	}
	refused := r.Code == probes.CodeCredentialsRefused
	h.outcomes[c.UUID] = crowdOutcome{at: now, refused: refused}
	if !h.mostRefused(now.Add(-w.window)) {
		h.since = time.Time{}
		return
	}
	if h.since.IsZero() {
		h.since = now
	}
	if refused && now.Sub(h.since) < crowdLasts {
		r.Status, r.Code = probes.Degraded, probes.CodeProviderError
	}
}

// mostRefused reports whether at least crowdSize connections, and half of all, were refused. It forgets outcomes from
// before the time given.
func (h *crowdHost) mostRefused(from time.Time) bool {
	refused := 0
	for uuid, o := range h.outcomes {
		switch {
		case o.at.Before(from):
			delete(h.outcomes, uuid)
		case o.refused:
			refused++
		}
	}
	return refused >= crowdSize && 2*refused >= len(h.outcomes)
}
