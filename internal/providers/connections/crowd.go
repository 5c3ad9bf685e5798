package connections

import (
	"maps"
	"sync"
	"time"

	"sallyport/internal/platform/id"
	"sallyport/internal/providers/probes"
)

const (
	// crowdSize is how many connections of an environment, or how many environments, have to be refused by a host, and be
	// half of those tested, for the provider to be the probable reason. crowdLasts is for how long it is believed to be.
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
	// swept is when hosts were last forgotten that said nothing within the window.
	swept time.Time
}

type crowdHost struct {
	outcomes map[string]crowdOutcome // by the UUID of the connection
	// since is when most were first refused: of the connections of an environment, and under no name of the
	// environments.
	since map[id.Environment]time.Time
}

type crowdOutcome struct {
	environment id.Environment
	at          time.Time
	refused     bool
}

// temper makes the refusal of a report an error of the provider where it refuses many connections.
func (w *crowd) temper(c *Connection, r *probes.Report, now time.Time) {
	if c.EnabledStatus != Active {
		return // it was refused before
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweep(now)
	h := w.byHost[c.host()]
	if h == nil {
		if w.byHost == nil {
			w.byHost = map[string]*crowdHost{}
		}
		h = &crowdHost{outcomes: map[string]crowdOutcome{}, since: map[id.Environment]time.Time{}}
		w.byHost[c.host()] = h
	}
	refused := r.Code == probes.CodeCredentialsRefused
	h.outcomes[c.UUID] = crowdOutcome{environment: c.Environment, at: now, refused: refused}
	h.forget(now.Add(-w.window))
	own, all := h.refused(c.Environment)
	ownLasts, allLasts := h.lasts(c.Environment, own, now), h.lasts("", all, now)
	if refused && (ownLasts || allLasts) {
		r.Status, r.Code = probes.Degraded, probes.CodeProviderError
	}
}

// sweep forgets hosts that have said nothing within the window.
func (w *crowd) sweep(now time.Time) {
	if now.Sub(w.swept) < w.window {
		return
	}
	w.swept = now
	for host, h := range w.byHost {
		if h.forget(now.Add(-w.window)); len(h.outcomes) == 0 {
			delete(w.byHost, host)
		}
	}
}

// forget drops outcomes from before the time given.
func (h *crowdHost) forget(from time.Time) {
	maps.DeleteFunc(h.outcomes, func(_ string, o crowdOutcome) bool { return o.at.Before(from) })
}

// refused reports whether most connections of an environment were refused, and whether most environments were. One
// environment counts once, so that its wrong credentials decide nothing about those of others.
func (h *crowdHost) refused(env id.Environment) (own, all bool) {
	type counts struct{ refused, tested int }
	of := map[id.Environment]counts{}
	for _, o := range h.outcomes {
		n := of[o.environment]
		if n.tested++; o.refused {
			n.refused++
		}
		of[o.environment] = n
	}
	environments := 0
	for _, n := range of {
		if n.refused > 0 && 2*n.refused >= n.tested {
			environments++
		}
	}
	n := of[env]
	return n.refused >= crowdSize && 2*n.refused >= n.tested, environments >= crowdSize && 2*environments >= len(of)
}

// lasts reports whether most are refused, and have not been for too long.
func (h *crowdHost) lasts(of id.Environment, refused bool, now time.Time) bool {
	if !refused {
		delete(h.since, of)
		return false
	}
	if h.since[of].IsZero() {
		h.since[of] = now
	}
	return now.Sub(h.since[of]) < crowdLasts
}
