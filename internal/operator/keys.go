package operator

import (
	"context"
	"slices"
	"time"

	"sallyport/internal/identity/apikeys"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/platform/secretbox"
)

// commandLine is the actor that the audit trail names for what a command does.
func commandLine() access.Principal { return access.System("cli") }

// KeyRequest describes an API key to create from the command line.
type KeyRequest struct {
	Name string
	// Environment is the id or the name of an environment.
	Environment string
	// Routes are opened by one grant; none is a key that opens nothing.
	Routes []access.Route
	// Calls narrow the grant of the route that runs actions; nil does not.
	Calls *access.CallLimits
	// Lifetime is how long the key works; 0 means apikeys.DefaultKeyLifetime.
	Lifetime time.Duration
	// Connections are those that the grant is about; none stands for all.
	Connections []string
	// SourceCIDRs are the networks that the key works from; none stands for all.
	SourceCIDRs []string
	// Rate is the limit of the key's requests; nil for that of the service.
	Rate *ratelimit.Limit
}

// Key is an API key without its secret, in the form of the API.
type Key struct {
	ID            string            `json:"id"`
	Name          string            `json:"name"`
	EnvironmentID string            `json:"environment_id"`
	Environment   string            `json:"environment"`
	Prefix        string            `json:"prefix"`
	LastFour      string            `json:"last_four"`
	Status        apikeys.KeyStatus `json:"status"`
	Grants        []Grant           `json:"grants"`
	GrantCount    int               `json:"grant_count"`
	SourceCIDRs   []string          `json:"source_cidrs"`
	RateLimit     *KeyRate          `json:"rate_limit"`
	CreatedAt     httpapi.Time      `json:"created_at"`
	UpdatedAt     httpapi.Time      `json:"updated_at"`
	ExpiresAt     httpapi.Time      `json:"expires_at"`
	DisabledAt    *httpapi.Time     `json:"disabled_at"`
	RevokedAt     *httpapi.Time     `json:"revoked_at"`
	PreviousUntil *httpapi.Time     `json:"previous_secret_until"`
	LastUsed      *KeyUse           `json:"last_used"`
}

// KeyRate limits the requests with a Key: how many per second in the long run, and how many together after a pause.
type KeyRate struct {
	PerSecond int64 `json:"per_second"`
	Burst     int64 `json:"burst"`
}

// KeyUse is a use of a Key.
type KeyUse struct {
	At        httpapi.Time `json:"at"`
	IP        string       `json:"ip"`
	UserAgent string       `json:"user_agent"`
	Route     string       `json:"route"`
}

// Grant is a grant of a Key.
type Grant struct {
	ID          string         `json:"id"`
	Effect      apikeys.Effect `json:"effect"`
	Routes      []access.Route `json:"routes"`
	Connections []string       `json:"connections"`
	Actions     []string       `json:"actions,omitempty"`
	Methods     []string       `json:"methods,omitempty"`
	MaxRisk     string         `json:"max_risk,omitempty"`
	NotAfter    *httpapi.Time  `json:"not_after"`
}

// CreateKey makes an API key at the time given and returns it with its text, which cannot be had again.
func (s *Store) CreateKey(ctx context.Context, now time.Time, r KeyRequest) (Key, secretbox.Secret, error) {
	env, err := findEnvironment(ctx, s.Identity.Team, commandLine(), r.Environment)
	if err != nil {
		return Key{}, "", err
	}
	n := apikeys.NewKey{Name: r.Name, Environment: env.ID, SourceCIDRs: r.SourceCIDRs, Rate: r.Rate}
	if len(r.Routes) > 0 {
		n.Grants = grantsOf(r)
	}
	if r.Lifetime != 0 {
		expires := clock.Millis(now.Add(r.Lifetime))
		n.ExpiresMillis = &expires
	}
	k, text, err := s.Identity.Keys.CreateKey(ctx, commandLine(), n)
	if err != nil {
		return Key{}, "", err
	}
	return keyOf(k, env.Name, now), text, nil
}

// grantsOf returns the grants of a new key: one, or two where that of the actions is narrowed.
func grantsOf(r KeyRequest) []apikeys.Grant {
	g := apikeys.Grant{Effect: apikeys.Allow, Routes: r.Routes, Connections: r.Connections}
	if r.Calls.Empty() {
		return []apikeys.Grant{g}
	}
	calls := g
	calls.Routes, calls.Calls = []access.Route{access.RouteActions}, r.Calls
	g.Routes = slices.DeleteFunc(slices.Clone(r.Routes), func(route access.Route) bool {
		return route == access.RouteActions
	})
	if len(g.Routes) == 0 {
		return []apikeys.Grant{calls}
	}
	return []apikeys.Grant{g, calls}
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
		rows, err := s.Identity.Keys.ListKeys(ctx, commandLine(), nil, r)
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

func (s *Store) environmentNames(ctx context.Context) (map[id.Environment]string, error) {
	list, err := s.Identity.Team.Environments(ctx, commandLine())
	names := map[id.Environment]string{}
	for _, e := range list {
		names[e.ID] = e.Name
	}
	return names, err
}

func keyOf(k apikeys.Key, environment string, now time.Time) Key {
	out := Key{
		ID: k.ID, Name: k.Name, EnvironmentID: string(k.Environment), Environment: environment, Prefix: k.Prefix,
		LastFour: k.LastFour, Status: k.Status(now), Grants: []Grant{}, GrantCount: k.GrantCount,
		CreatedAt: httpapi.TimeMillis(k.CreatedMillis), UpdatedAt: httpapi.TimeMillis(k.UpdatedMillis),
		ExpiresAt: httpapi.TimeMillis(k.ExpiresMillis), DisabledAt: httpapi.TimePtr(k.DisabledMillis),
		RevokedAt: httpapi.TimePtr(k.RevokedMillis), PreviousUntil: httpapi.TimePtr(k.PreviousUntil(now)),
	}
	for _, p := range k.SourceCIDRs {
		out.SourceCIDRs = append(out.SourceCIDRs, p.String())
	}
	if l := k.Rate; l != nil {
		out.RateLimit = &KeyRate{PerSecond: l.PerSecond, Burst: l.Burst}
	}
	if u := k.LastUsed; u != nil {
		out.LastUsed = &KeyUse{At: httpapi.TimeMillis(u.AtMillis), IP: u.IP, UserAgent: u.UserAgent, Route: u.Route}
	}
	for _, g := range k.Grants {
		shown := Grant{ID: g.ID, Effect: g.Effect, Routes: g.Routes, Connections: g.Connections,
			NotAfter: httpapi.TimePtr(g.NotAfterMillis)}
		if g.Connections == nil {
			shown.Connections = []string{apikeys.AllConnections}
		}
		if l := g.Calls; l != nil {
			shown.Actions, shown.Methods, shown.MaxRisk = l.Actions, l.Methods, l.MaxRisk
		}
		out.Grants = append(out.Grants, shown)
	}
	return out
}
