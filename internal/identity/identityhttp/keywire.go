package identityhttp

import (
	"slices"
	"time"

	"sallyport/internal/identity"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/ratelimit"
)

// newAPIKey is the body that creates a key.
type newAPIKey struct {
	Name          string        `json:"name" minLength:"1" maxLength:"100" doc:"What the key is for, in words for people; no control characters." example:"billing service"`
	EnvironmentID string        `json:"environment_id" doc:"The environment whose data the key works on." example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Grants        []newGrant    `json:"grants,omitempty" maxItems:"500" doc:"What the key may do. Default none: the key may do nothing. A key has up to 1000 grants; those beyond 500 are added one by one."`
	ExpiresAt     *httpapi.Time `json:"expires_at,omitempty" doc:"When the key stops working; in the future. Default 90 days from now." example:"2027-01-31T00:00:00.000Z"`
	SourceCIDRs   []string      `json:"source_cidrs,omitempty" minItems:"1" maxItems:"50" doc:"The networks that requests with the key may come from, in CIDR notation, without bits beyond the prefix. From elsewhere the key is unauthorized. Default: all." example:"[\"192.0.2.0/24\"]"`
	RateLimit     *keyRate      `json:"rate_limit,omitempty" doc:"How many requests may be made with the key, in place of the limit that the service sets for each key. Default: that of the service."`
}

// keyRate is the limit of a key's requests.
type keyRate struct {
	PerSecond int64 `json:"per_second" minimum:"1" maximum:"100000" doc:"Requests a second in the long run, for all nodes together." example:"100"`
	Burst     int64 `json:"burst" minimum:"1" maximum:"1000000" doc:"Requests at once after a pause." example:"500"`
}

func (r *keyRate) limit() *ratelimit.Limit {
	if r == nil {
		return nil
	}
	return &ratelimit.Limit{PerSecond: r.PerSecond, Burst: r.Burst}
}

// newGrant is the body that adds a grant.
type newGrant struct {
	Effect      effect        `json:"effect,omitempty" default:"allow" doc:"Whether the grant opens its routes or closes them. Closing wins. Default allow." example:"allow"`
	Routes      []route       `json:"routes" minItems:"1" uniqueItems:"true" doc:"The groups of operations: webhooks (subscriptions and replays, and reading events), events (reading events), events:write (publishing events), connections. What is closed of events is closed of webhooks, too." example:"[\"webhooks\"]"`
	Connections []string      `json:"connections,omitempty" minItems:"1" maxItems:"1000" default:"*" doc:"The connections that the grant is about, by their connection_id, whether or not they exist yet; or \"*\" alone for all of the environment, and for what is about no connection. The grants of a key name up to 1000 together. Default [\"*\"]." example:"[\"acme-production\"]"`
	NotAfter    *httpapi.Time `json:"not_after,omitempty" doc:"When the grant ends; in the future. An ended grant neither opens nor closes. Default never." example:"2027-01-31T00:00:00.000Z"`
}

// APIKey is a key without its secret.
type APIKey struct {
	ID            string    `json:"id" doc:"The key's id." example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Name          string    `json:"name" doc:"What the key is for." example:"billing service"`
	EnvironmentID string    `json:"environment_id" doc:"The environment whose data the key works on." example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Prefix        string    `json:"prefix" doc:"The key up to its secret part, to recognise it by." example:"spk_test_4fZk01Qw8x"`
	LastFour      string    `json:"last_four" doc:"The last four characters of the secret part, of the newest secret." example:"k3Vd"`
	Status        keyStatus `json:"status" doc:"active: the key works. disabled: it is refused until it is enabled. revoked: it was ended. expired: its time is over." example:"active"`
	Grants        []grant   `json:"grants" doc:"What the key may do, oldest first: the first 50 grants. Empty: nothing."`
	GrantCount    int       `json:"grant_count" doc:"How many grants the key has. /grants lists them all." example:"1"`
	SourceCIDRs   []string  `json:"source_cidrs" nullable:"true" doc:"The networks that requests with the key may come from; null for all." example:"[\"192.0.2.0/24\"]"`

	RateLimit httpapi.OrNull[keyRate] `json:"rate_limit" doc:"How many requests may be made with the key; null for the limit that the service sets for each key."`

	CreatedAt     httpapi.Time  `json:"created_at" doc:"When the key was created." example:"2026-11-02T09:30:00.000Z"`
	UpdatedAt     httpapi.Time  `json:"updated_at" doc:"When the key or its grants were last changed." example:"2026-11-02T09:30:00.000Z"`
	ExpiresAt     httpapi.Time  `json:"expires_at" doc:"When the key stops working." example:"2027-01-31T09:30:00.000Z"`
	DisabledAt    *httpapi.Time `json:"disabled_at" nullable:"true" doc:"When the key was disabled; null if it is not." example:"2026-12-24T18:00:00.000Z"`
	RevokedAt     *httpapi.Time `json:"revoked_at" nullable:"true" doc:"When the key was revoked; null if it was not." example:"2026-12-24T18:00:00.000Z"`
	PreviousUntil *httpapi.Time `json:"previous_secret_until" nullable:"true" doc:"Until when the secret before the last rotation works, too; null where only one secret works." example:"2026-12-24T18:00:00.000Z"`

	LastUsed httpapi.OrNull[keyUse] `json:"last_used" doc:"The last use of the key that was noted, at most one a minute; null where there is none."`
}

type keyUse struct {
	At        httpapi.Time `json:"at" doc:"When the key was used." example:"2026-11-02T09:30:00.000Z"`
	IP        string       `json:"ip" doc:"The client's address." example:"192.0.2.17"`
	UserAgent string       `json:"user_agent" doc:"The client's User-Agent, up to 256 bytes." example:"billing/1.4"`
	Route     string       `json:"route" doc:"The method and the path of the operation." example:"GET /webhook-events/{event_uuid}"`
}

type grant struct {
	ID          string        `json:"id" doc:"The grant's id." example:"grt_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Effect      effect        `json:"effect" doc:"Whether the grant opens its routes or closes them." example:"allow"`
	Routes      []route       `json:"routes" doc:"The groups of operations." example:"[\"webhooks\"]"`
	Connections []string      `json:"connections" doc:"The connections that the grant is about, by their connection_id; \"*\" alone: all of the environment, and what is about none." example:"[\"*\"]"`
	NotAfter    *httpapi.Time `json:"not_after" nullable:"true" doc:"When the grant ends; null for never." example:"2027-01-31T00:00:00.000Z"`
}

// APIKeyCreated is a new key with the text that is shown this once.
type APIKeyCreated struct {
	APIKey
	Key string `json:"key" readOnly:"true" doc:"Generated: the key itself, to send as API-Key. It is not stored and cannot be shown again." example:"spk_test_4fZk01Qw8x_EXAMPLE0EXAMPLE0EXAMPLE0EXAMPLE0EXAMPLEk3Vd_CHECKSUM"`
}

func (n newAPIKey) input() identity.NewKey {
	in := identity.NewKey{Name: n.Name, Environment: id.Environment(n.EnvironmentID),
		ExpiresMillis: n.ExpiresAt.MillisPtr(), SourceCIDRs: n.SourceCIDRs, Rate: n.RateLimit.limit()}
	for _, g := range n.Grants {
		in.Grants = append(in.Grants, g.input())
	}
	return in
}

func (g newGrant) input() identity.Grant {
	in := identity.Grant{Effect: identity.Effect(g.Effect), Routes: convert[access.Route](g.Routes),
		Connections: g.Connections, NotAfterMillis: g.NotAfter.MillisPtr()}
	if g.Effect == "" {
		in.Effect = identity.Allow // the default, which is not set where the body has a fault
	}
	if slices.Equal(g.Connections, []string{identity.AllConnections}) {
		in.Connections = nil
	}
	return in
}

func keyOf(k identity.Key, now time.Time) APIKey {
	out := APIKey{
		ID: k.ID, Name: k.Name, EnvironmentID: string(k.Environment), Prefix: k.Prefix, LastFour: k.LastFour,
		Status: keyStatus(k.Status(now)), Grants: grantsOf(k.Grants), GrantCount: k.GrantCount,
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

func grantsOf(list []identity.Grant) []grant {
	out := make([]grant, 0, len(list))
	for _, g := range list {
		out = append(out, grantOf(g))
	}
	return out
}

func grantOf(g identity.Grant) grant {
	out := grant{ID: g.ID, Effect: effect(g.Effect), Routes: convert[route](g.Routes), Connections: g.Connections,
		NotAfter: httpapi.TimePtr(g.NotAfterMillis)}
	if g.Connections == nil {
		out.Connections = []string{identity.AllConnections}
	}
	return out
}
