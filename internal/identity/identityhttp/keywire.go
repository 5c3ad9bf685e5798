package identityhttp

import (
	"time"

	"sallyport/internal/identity"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
)

// newAPIKey is the body that creates a key.
type newAPIKey struct {
	Name          string        `json:"name" minLength:"1" maxLength:"100" doc:"What the key is for, in words for people; no control characters." example:"billing service"`
	EnvironmentID string        `json:"environment_id" doc:"The environment whose data the key works on." example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Grants        []newGrant    `json:"grants,omitempty" maxItems:"50" doc:"What the key may do. Default none: the key may do nothing."`
	ExpiresAt     *httpapi.Time `json:"expires_at,omitempty" doc:"When the key stops working; in the future. Default 90 days from now." example:"2027-01-31T00:00:00.000Z"`
}

type newGrant struct {
	Effect      effect   `json:"effect,omitempty" default:"allow" doc:"Whether the grant opens its routes or closes them. Closing wins. Default allow." example:"allow"`
	Routes      []route  `json:"routes" minItems:"1" uniqueItems:"true" doc:"The groups of operations: webhooks (subscriptions and replays, and reading events), events (reading events), events:write (publishing events), connections." example:"[\"webhooks\"]"`
	Connections []string `json:"connections,omitempty" enum:"*" minItems:"1" maxItems:"1" default:"*" doc:"The connections that the grant covers. Only \"*\", all of the environment, exists. Default [\"*\"]." example:"[\"*\"]"`
}

// APIKey is a key without its secret.
type APIKey struct {
	ID            string        `json:"id" doc:"The key's id." example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Name          string        `json:"name" doc:"What the key is for." example:"billing service"`
	EnvironmentID string        `json:"environment_id" doc:"The environment whose data the key works on." example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Prefix        string        `json:"prefix" doc:"The key up to its secret part, to recognise it by." example:"spk_test_4fZk01Qw8x"`
	LastFour      string        `json:"last_four" doc:"The last four characters of the secret part." example:"k3Vd"`
	Status        keyStatus     `json:"status" doc:"active: the key works. revoked: it was ended. expired: its time is over." example:"active"`
	Grants        []grant       `json:"grants" doc:"What the key may do, in the order given. Empty: nothing."`
	CreatedAt     httpapi.Time  `json:"created_at" doc:"When the key was created." example:"2026-11-02T09:30:00.000Z"`
	ExpiresAt     httpapi.Time  `json:"expires_at" doc:"When the key stops working." example:"2027-01-31T09:30:00.000Z"`
	RevokedAt     *httpapi.Time `json:"revoked_at" nullable:"true" doc:"When the key was revoked; null if it was not." example:"2026-12-24T18:00:00.000Z"`
}

type grant struct {
	ID          string   `json:"id" doc:"The grant's id." example:"grt_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Effect      effect   `json:"effect" doc:"Whether the grant opens its routes or closes them." example:"allow"`
	Routes      []route  `json:"routes" doc:"The groups of operations." example:"[\"webhooks\"]"`
	Connections []string `json:"connections" enum:"*" doc:"The connections that the grant covers: all of the environment." example:"[\"*\"]"`
}

// APIKeyCreated is a new key with the text that is shown this once.
type APIKeyCreated struct {
	APIKey
	Key string `json:"key" readOnly:"true" doc:"Generated: the key itself, to send as API-Key. It is not stored and cannot be shown again." example:"spk_test_4fZk01Qw8x_EXAMPLE0EXAMPLE0EXAMPLE0EXAMPLE0EXAMPLEk3Vd_CHECKSUM"`
}

func (n newAPIKey) input() identity.NewKey {
	in := identity.NewKey{Name: n.Name, Environment: id.Environment(n.EnvironmentID), ExpiresMillis: n.ExpiresAt.MillisPtr()}
	for _, g := range n.Grants {
		in.Grants = append(in.Grants, identity.Grant{Effect: identity.Effect(g.Effect), Routes: convert[access.Route](g.Routes)})
	}
	return in
}

func keyOf(k identity.Key, now time.Time) APIKey {
	out := APIKey{
		ID: k.ID, Name: k.Name, EnvironmentID: string(k.Environment), Prefix: k.Prefix, LastFour: k.LastFour,
		Status: keyStatus(k.Status(now)), Grants: make([]grant, 0, len(k.Grants)),
		CreatedAt: httpapi.TimeMillis(k.CreatedMillis), ExpiresAt: httpapi.TimeMillis(k.ExpiresMillis), RevokedAt: httpapi.TimePtr(k.RevokedMillis),
	}
	for _, g := range k.Grants {
		out.Grants = append(out.Grants, grant{ID: g.ID, Effect: effect(g.Effect), Routes: convert[route](g.Routes), Connections: []string{"*"}})
	}
	return out
}
