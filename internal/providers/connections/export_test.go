package connections

import (
	"context"
	"errors"
	"sync"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/probes"
	"sallyport/internal/providers/registry"
)

// ReadFrom makes Lookup read from q.
func (s *Service) ReadFrom(q db.Querier) { s.loader.read, s.loader.paths = q, q }

// ListQuery returns the statement of a page of a list without its columns, and its arguments.
func ListQuery(v access.View, f Filter, p page.Request) (string, []any, error) {
	w, tail, err := f.where(v, p)
	if err != nil {
		return "", nil, err
	}
	return "SELECT uuid " + table + w.Text() + " " + tail, w.Args(), nil
}

// AccessToken returns the access token with which a request of the connection would be made.
func AccessToken(ctx context.Context, s *Service, c *Connection) (string, error) {
	_, values, err := s.auth.open(ctx, c)
	return values.Credentials[outbound.AccessToken].Reveal(), err
}

// BeforeCredentials makes the service call fn once, after it has next read a connection and before its credentials.
func (s *Service) BeforeCredentials(fn func()) {
	s.auth.providers = &hookedProviders{Providers: s.auth.providers, fn: fn}
}

type hookedProviders struct {
	Providers
	once sync.Once
	fn   func()
}

func (p *hookedProviders) Find(env id.Environment, slug string) (*registry.Provider, bool) {
	p.once.Do(p.fn)
	return p.Providers.Find(env, slug)
}

// Believes returns a function that reports whether the refusal of a connection is believed, by a node that tests
// connections.
func Believes(window time.Duration) func(c *Connection, now time.Time) bool {
	w := &crowd{window: window}
	return func(c *Connection, now time.Time) bool {
		r := probes.Report{Status: probes.Unhealthy, Code: probes.CodeCredentialsRefused}
		w.temper(c, &r, now)
		return r.Code == probes.CodeCredentialsRefused
	}
}

// RefreshCaches makes a Service see what others have changed, as its process does once a second.
func RefreshCaches(ctx context.Context, s *Service) error {
	return errors.Join(s.Refresh(ctx), s.auth.vault.Refresh(ctx))
}
