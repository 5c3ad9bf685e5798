package app

import (
	"context"
	"time"

	"sallyport/internal/identity"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/secretbox"
)

// operator is who the trail names for what the command line does.
func operator() access.Principal { return access.System("cli") }

// KeyRequest is what the command line makes an API key from.
type KeyRequest struct {
	Name string
	// Environment is the id or the name of an environment.
	Environment string
	// Routes are opened by one grant; none is a key that opens nothing.
	Routes []access.Route
	// Lifetime is how long the key works; 0 means identity.DefaultKeyLifetime.
	Lifetime time.Duration
}

// Key is an API key without its secret, in the form of the API.
type Key struct {
	ID            string             `json:"id"`
	Name          string             `json:"name"`
	EnvironmentID string             `json:"environment_id"`
	Environment   string             `json:"environment"`
	Prefix        string             `json:"prefix"`
	LastFour      string             `json:"last_four"`
	Status        identity.KeyStatus `json:"status"`
	Grants        []Grant            `json:"grants"`
	CreatedAt     httpapi.Time       `json:"created_at"`
	ExpiresAt     httpapi.Time       `json:"expires_at"`
	RevokedAt     *httpapi.Time      `json:"revoked_at"`
}

// Grant is a grant of a Key.
type Grant struct {
	Effect identity.Effect `json:"effect"`
	Routes []access.Route  `json:"routes"`
}

// CreateKey makes an API key at the time given and returns it with its text, which cannot be had again.
func (s *Store) CreateKey(ctx context.Context, now time.Time, r KeyRequest) (Key, secretbox.Secret, error) {
	env, err := s.Identity.FindEnvironment(ctx, operator(), r.Environment)
	if err != nil {
		return Key{}, "", err
	}
	n := identity.NewKey{Name: r.Name, Environment: env.ID}
	if len(r.Routes) > 0 {
		n.Grants = []identity.Grant{{Effect: identity.Allow, Routes: r.Routes}}
	}
	if r.Lifetime != 0 {
		expires := clock.Millis(now.Add(r.Lifetime))
		n.ExpiresMillis = &expires
	}
	k, text, err := s.Identity.CreateKey(ctx, operator(), n)
	if err != nil {
		return Key{}, "", err
	}
	return keyOf(k, env.Name, now), text, nil
}

// ListKeys returns every API key of the team, newest first, with its state at the time given.
func (s *Store) ListKeys(ctx context.Context, now time.Time) ([]Key, error) {
	names, err := s.environmentNames(ctx)
	if err != nil {
		return nil, err
	}
	out := []Key{}
	r := page.Request{Limit: page.MaxLimit}
	for {
		rows, err := s.Identity.ListKeys(ctx, operator(), nil, r)
		if err != nil {
			return nil, err
		}
		more := len(rows) > r.Limit
		rows = rows[:min(len(rows), r.Limit)]
		for _, k := range rows {
			out = append(out, keyOf(k, names[k.Environment], now))
		}
		if !more {
			return out, nil
		}
		r.After = rows[len(rows)-1].ID
	}
}

// RevokeKey ends an API key for good. A server that is running refuses it from the next request on.
func (s *Store) RevokeKey(ctx context.Context, now time.Time, keyID string) (Key, error) {
	k, err := s.Identity.RevokeKey(ctx, operator(), keyID)
	if err != nil {
		return Key{}, err
	}
	names, err := s.environmentNames(ctx)
	return keyOf(k, names[k.Environment], now), err
}

func (s *Store) environmentNames(ctx context.Context) (map[id.Environment]string, error) {
	list, err := s.Identity.Environments(ctx, operator())
	names := map[id.Environment]string{}
	for _, e := range list {
		names[e.ID] = e.Name
	}
	return names, err
}

func keyOf(k identity.Key, environment string, now time.Time) Key {
	out := Key{
		ID: k.ID, Name: k.Name, EnvironmentID: string(k.Environment), Environment: environment, Prefix: k.Prefix, LastFour: k.LastFour,
		Status: k.Status(now), Grants: []Grant{}, CreatedAt: httpapi.TimeMillis(k.CreatedMillis),
		ExpiresAt: httpapi.TimeMillis(k.ExpiresMillis), RevokedAt: httpapi.TimePtr(k.RevokedMillis),
	}
	for _, g := range k.Grants {
		out.Grants = append(out.Grants, Grant{Effect: g.Effect, Routes: g.Routes})
	}
	return out
}
