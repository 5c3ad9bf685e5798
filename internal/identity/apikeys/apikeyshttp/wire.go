package apikeyshttp

import (
	"slices"
	"time"

	"sallyport/internal/identity/apikeys"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/ratelimit"
)

// newAPIKey is the body that creates a key.
type newAPIKey struct {
	// A display name for the key; no control characters.
	Name string `json:"name" minLength:"1" maxLength:"100" example:"billing service"`
	// The environment whose data the key gives access to.
	EnvironmentID string `json:"environment_id" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The grants of the key. Default: none, so that the key can do nothing. A key can have 1000 grants; add grants beyond
	// the first 500 one by one.
	Grants []newGrant `json:"grants,omitempty" maxItems:"500"`
	// When the key stops working; in the future. Default: 90 days from now.
	ExpiresAt *httpapi.Time `json:"expires_at,omitempty" example:"2027-01-31T00:00:00.000Z"`
	// The networks that requests with the key may come from, in CIDR notation, without bits beyond the prefix. Requests
	// from other networks are `unauthorized`. Default: all networks.
	SourceCIDRs []string `json:"source_cidrs,omitempty" minItems:"1" maxItems:"50" example:"[\"192.0.2.0/24\"]"`
	// The rate limit of the key, instead of the service's limit for each key. Default: the service's limit.
	RateLimit *keyRate `json:"rate_limit,omitempty"`
}

// keyRate is the limit of a key's requests.
type keyRate struct {
	// The sustained number of requests per second, over all nodes.
	PerSecond int64 `json:"per_second" minimum:"1" maximum:"100000" example:"100"`
	// The number of requests allowed at the same time after a pause.
	Burst int64 `json:"burst" minimum:"1" maximum:"1000000" example:"500"`
}

func (r *keyRate) limit() *ratelimit.Limit {
	if r == nil {
		return nil
	}
	return &ratelimit.Limit{PerSecond: r.PerSecond, Burst: r.Burst}
}

// newGrant is the body that adds a grant.
type newGrant struct {
	// Whether the grant allows or denies its routes. `deny` takes precedence. Default `allow`.
	Effect apikeys.Effect `json:"effect,omitempty" default:"allow" example:"allow"`
	// The groups of operations:
	// - `webhooks`: subscriptions and replays, and reading events.
	// - `events`: reading events.
	// - `events:write`: publishing events.
	// - `connections`: connections.
	// - `catalog`: reading the catalog of actions.
	// - `actions`: running actions, and one's own executions.
	//
	// Denying `events` also denies reading events through `webhooks`.
	Routes []access.Route `json:"routes" minItems:"1" uniqueItems:"true" example:"[\"webhooks\"]"`
	// The connections that the grant covers, by their `connection_id`, whether or not they exist yet. `*` alone covers all
	// connections of the environment and data without a connection. The grants of a key can name 1000 connections in
	// total. Default `["*"]`.
	Connections []string `json:"connections,omitempty" minItems:"1" maxItems:"1000" default:"*" example:"[\"acme-production\"]"`
	// Which actions the grant is about, for the route `actions` alone: the key of a provider configuration, a slash and
	// the name of an action. `*` in either part stands for any characters. Default: all actions.
	Actions []string `json:"actions,omitempty" minItems:"1" maxItems:"100" uniqueItems:"true" example:"[\"github/*\"]"`
	// Which HTTP methods the actions may have, for the route `actions` alone. Default: all.
	Methods []string `json:"methods,omitempty" minItems:"1" uniqueItems:"true" enum:"GET,HEAD,POST,PUT,PATCH,DELETE" example:"[\"GET\"]"`
	// The highest risk that an action may have, for the route `actions` alone and for grants that allow. An action whose
	// risk is `unknown` counts as `high`. Default: any risk.
	MaxRisk string `json:"max_risk,omitempty" enum:"low,medium,high,critical" example:"medium"`
	// When the grant ends; in the future. An ended grant neither allows nor denies. Default: never.
	NotAfter *httpapi.Time `json:"not_after,omitempty" example:"2027-01-31T00:00:00.000Z"`
}

// APIKey is a key without its secret.
type APIKey struct {
	// The id of the key.
	ID string `json:"id" example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The display name of the key.
	Name string `json:"name" example:"billing service"`
	// The environment whose data the key gives access to.
	EnvironmentID string `json:"environment_id" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The part of the key before the secret. It identifies the key.
	Prefix string `json:"prefix" example:"spk_test_4fZk01Qw8x"`
	// The last four characters of the newest secret.
	LastFour string `json:"last_four" example:"k3Vd"`
	// The status of the key:
	// - `active`: the key works.
	// - `disabled`: the key is rejected until it is enabled.
	// - `revoked`: the key was revoked permanently.
	// - `expired`: the key has expired.
	Status apikeys.KeyStatus `json:"status" example:"active"`
	// The first 50 grants of the key, oldest first. An empty list allows nothing.
	Grants []grant `json:"grants"`
	// The number of grants of the key. `/grants` lists them all.
	GrantCount int `json:"grant_count" example:"1"`
	// The networks that requests with the key may come from; `null` for all.
	SourceCIDRs []string `json:"source_cidrs" nullable:"true" example:"[\"192.0.2.0/24\"]"`

	// The rate limit of the key; `null` for the service's limit for each key.
	RateLimit httpapi.OrNull[keyRate] `json:"rate_limit"`

	// When the key was created.
	CreatedAt httpapi.Time `json:"created_at" example:"2026-11-02T09:30:00.000Z"`
	// When the key or its grants were last changed.
	UpdatedAt httpapi.Time `json:"updated_at" example:"2026-11-02T09:30:00.000Z"`
	// When the key stops working.
	ExpiresAt httpapi.Time `json:"expires_at" example:"2027-01-31T09:30:00.000Z"`
	// When the key was disabled; `null` if it is not disabled.
	DisabledAt *httpapi.Time `json:"disabled_at" nullable:"true" example:"2026-12-24T18:00:00.000Z"`
	// When the key was revoked; `null` if it was not.
	RevokedAt *httpapi.Time `json:"revoked_at" nullable:"true" example:"2026-12-24T18:00:00.000Z"`
	// When the secret before the last rotation stops working; `null` if only one secret works.
	PreviousUntil *httpapi.Time `json:"previous_secret_until" nullable:"true" example:"2026-12-24T18:00:00.000Z"`

	// The last recorded use of the key; `null` if there is none. At most one use a minute is recorded.
	LastUsed httpapi.OrNull[keyUse] `json:"last_used"`
}

type keyUse struct {
	// When the key was used.
	At httpapi.Time `json:"at" example:"2026-11-02T09:30:00.000Z"`
	// The client's IP address.
	IP string `json:"ip" example:"192.0.2.17"`
	// The client's `User-Agent`, up to 256 bytes.
	UserAgent string `json:"user_agent" example:"billing/1.4"`
	// The method and path of the operation.
	Route string `json:"route" example:"GET /webhook-events/{event_uuid}"`
}

type grant struct {
	// The id of the grant.
	ID string `json:"id" example:"grt_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// Whether the grant allows or denies its routes.
	Effect apikeys.Effect `json:"effect" example:"allow"`
	// The groups of operations.
	Routes []access.Route `json:"routes" example:"[\"webhooks\"]"`
	// The connections that the grant covers, by their `connection_id`. `*` alone covers all connections of the environment
	// and data without a connection.
	Connections []string `json:"connections" example:"[\"*\"]"`
	// Which actions the grant is about; absent for all, and for routes that run none.
	Actions []string `json:"actions,omitempty" example:"[\"github/*\"]"`
	// Which HTTP methods the actions may have; absent for all.
	Methods []string `json:"methods,omitempty" example:"[\"GET\"]"`
	// The highest risk that an action may have; absent for any.
	MaxRisk string `json:"max_risk,omitempty" enum:"low,medium,high,critical" example:"medium"`
	// When the grant ends; `null` for never.
	NotAfter *httpapi.Time `json:"not_after" nullable:"true" example:"2027-01-31T00:00:00.000Z"`
}

// APIKeyCreated is a new key with the text that is shown this once.
type APIKeyCreated struct {
	APIKey
	// Generated: the key, to be sent as `API-Key`. It is not stored and cannot be shown again.
	Key string `json:"key" readOnly:"true" example:"spk_test_4fZk01Qw8x_EXAMPLE0EXAMPLE0EXAMPLE0EXAMPLE0EXAMPLEk3Vd_CHECKSUM"`
}

func (n newAPIKey) input() apikeys.NewKey {
	in := apikeys.NewKey{Name: n.Name, Environment: id.Environment(n.EnvironmentID),
		ExpiresMillis: n.ExpiresAt.MillisPtr(), SourceCIDRs: n.SourceCIDRs, Rate: n.RateLimit.limit()}
	for _, g := range n.Grants {
		in.Grants = append(in.Grants, g.input())
	}
	return in
}

func (g newGrant) input() apikeys.Grant {
	in := apikeys.Grant{Effect: g.Effect, Routes: g.Routes,
		Connections: g.Connections, NotAfterMillis: g.NotAfter.MillisPtr()}
	if g.Effect == "" {
		in.Effect = apikeys.Allow // the default, which is not set where the body is invalid
	}
	if l := (&access.CallLimits{Actions: g.Actions, Methods: g.Methods, MaxRisk: g.MaxRisk}); !l.Empty() {
		in.Calls = l
	}
	if slices.Equal(g.Connections, []string{apikeys.AllConnections}) {
		in.Connections = nil
	}
	return in
}

func viewKey(k apikeys.Key, now time.Time) APIKey {
	out := APIKey{
		ID: k.ID, Name: k.Name, EnvironmentID: string(k.Environment), Prefix: k.Prefix, LastFour: k.LastFour,
		Status: k.Status(now), Grants: viewGrants(k.Grants), GrantCount: k.GrantCount,
		CreatedAt: httpapi.TimeMillis(k.CreatedMillis), UpdatedAt: httpapi.TimeMillis(k.UpdatedMillis),
		ExpiresAt: httpapi.TimeMillis(k.ExpiresMillis), DisabledAt: httpapi.TimePtr(k.DisabledMillis),
		RevokedAt: httpapi.TimePtr(k.RevokedMillis), PreviousUntil: httpapi.TimePtr(k.PreviousUntil(now)),
	}
	for _, p := range k.SourceCIDRs {
		out.SourceCIDRs = append(out.SourceCIDRs, p.String())
	}
	if r := k.Rate; r != nil {
		out.RateLimit.Value = &keyRate{PerSecond: r.PerSecond, Burst: r.Burst}
	}
	if u := k.LastUsed; u != nil {
		out.LastUsed.Value = &keyUse{At: httpapi.TimeMillis(u.AtMillis), IP: u.IP, UserAgent: u.UserAgent, Route: u.Route}
	}
	return out
}

func viewGrants(list []apikeys.Grant) []grant {
	out := make([]grant, 0, len(list))
	for _, g := range list {
		out = append(out, viewGrant(g))
	}
	return out
}

func viewGrant(g apikeys.Grant) grant {
	out := grant{ID: g.ID, Effect: g.Effect, Routes: g.Routes,
		Connections: g.Connections, NotAfter: httpapi.TimePtr(g.NotAfterMillis)}
	if g.Connections == nil {
		out.Connections = []string{apikeys.AllConnections}
	}
	if l := g.Calls; l != nil {
		out.Actions, out.Methods, out.MaxRisk = l.Actions, l.Methods, l.MaxRisk
	}
	return out
}
