package connections

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/providers/credentials"
	"sallyport/internal/providers/outbound"
)

// way is where requests of a connection go, as its settings, its credentials and its provider configuration lead there.
// It is never changed.
type way struct {
	mode   *outbound.Mode
	target outbound.Target
	// values are the names of its credentials.
	values []string
	// allowed are the hosts to which these may be sent, and moved says that requests would go to another.
	allowed []string
	moved   bool
}

// origin is what a way follows from, besides the provider's definition.
type origin struct {
	engine  *outbound.Engine
	sealed  *credentials.Sealed
	baseURL string
	changed time.Time
}

// maxWays bounds the ways in memory.
const maxWays = 20_000

// ways remembers the ways of connections, because every call needs one. It may be outdated: what a way follows from is
// compared. The zero ways are empty.
type ways struct {
	mu   sync.RWMutex
	list map[string]knownWay
}

type knownWay struct {
	origin origin
	way    *way
}

func (w *ways) get(uuid string, o origin) *way {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if known := w.list[uuid]; known.origin == o {
		return known.way
	}
	return nil
}

func (w *ways) set(uuid string, o origin, found *way) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.list == nil {
		w.list = map[string]knownWay{}
	}
	for victim := range w.list { // map order is random enough to choose by
		if len(w.list) < maxWays {
			break
		}
		delete(w.list, victim)
	}
	w.list[uuid] = knownWay{o, found}
}

// wayOf returns the way of a connection's requests. The error is connection_not_ready if none can be made.
func (a *authenticator) wayOf(ctx context.Context, c *Connection, engine *outbound.Engine,
	sealed *credentials.Sealed) (*way, error) {
	target, err := a.target(ctx, c, sealed.Mode, nil)
	if err != nil {
		return nil, err
	}
	o := origin{engine: engine, sealed: sealed, baseURL: target.BaseURL, changed: c.UpdatedAt}
	if known := a.ways.get(c.UUID, o); known != nil {
		return known, nil
	}
	found := &way{target: target}
	var settings []string
	for _, name := range sealed.Fields {
		if _, secret := cutConfig(name); secret {
			settings = append(settings, name)
		} else {
			found.values = append(found.values, name)
		}
	}
	secrets, err := a.vault.Open(sealed, settings...)
	if err != nil {
		return nil, err
	}
	given := maps.Clone(c.Config)
	for name, value := range secrets {
		field, _ := cutConfig(name)
		given[field] = value.Reveal()
	}
	config, problems := engine.ResolveConfig(sealed.Mode, given)
	if len(problems) > 0 {
		return nil, unfit(&outbound.ConfigError{Problems: problems})
	}
	found.target.Config = config
	mode, ok := engine.Mode(sealed.Mode)
	if !ok {
		return nil, unfit(nil)
	}
	found.mode = mode
	hosts, err := hostsOf(engine, mode, found.target, !hasToken(sealed.Fields))
	if err != nil {
		return nil, unfit(err)
	}
	if found.allowed = sealed.Hosts; !contain(found.allowed, hosts) {
		found.allowed = allowedHosts(engine, found.target, &sealed.Set)
	}
	found.moved = !contain(found.allowed, hosts)
	if len(settings) == 0 { // no secret stays in memory
		a.ways.set(c.UUID, o, found)
	}
	return found, nil
}

// Unfit refuses requests of a connection whose settings the present definition does not accept.
const Unfit = "The connection's settings do not fit the provider's definition"

// unfit is Unfit with what is missing or wrong, as far as the definition says so.
func unfit(err error) error {
	message := Unfit
	var config *outbound.ConfigError
	if errors.As(err, &config) {
		parts := make([]string, len(config.Problems))
		for i, p := range config.Problems {
			parts[i] = p.Field + " " + p.Message
		}
		message += ": " + strings.Join(parts, "; ")
	}
	return apperr.New(apperr.CodeConnectionNotReady, message)
}
