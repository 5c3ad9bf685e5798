package apikeys

import (
	"context"
	"database/sql"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/platform/secretbox"
)

// DefaultKeyLifetime is the life of a key for which no expiry is given.
const DefaultKeyLifetime = 90 * 24 * time.Hour

const (
	// MaxNewGrants is the maximum number of grants that a key can be created with. More are added one by one.
	MaxNewGrants = 500
	// MaxSourceCIDRs is the maximum number of networks that a key can be restricted to.
	MaxSourceCIDRs = 50
	// ShownGrants is how many of its grants a Key carries.
	ShownGrants = 50
)

// KeyStatus is the state of an API key.
type KeyStatus string

// The states, strongest first: revoked stays revoked, whether or not the key would have expired since.
const (
	KeyActive   KeyStatus = "active"
	KeyDisabled KeyStatus = "disabled"
	KeyRevoked  KeyStatus = "revoked"
	KeyExpired  KeyStatus = "expired"
)

// keyStatuses returns every state.
func keyStatuses() []KeyStatus { return []KeyStatus{KeyActive, KeyDisabled, KeyRevoked, KeyExpired} }

// Schema returns the schema with the states, for the API.
func (KeyStatus) Schema(oas.Registry) *oas.Schema { return oas.Enum(keyStatuses()) }

// Key is an API key without its secret. It belongs to one environment.
type Key struct {
	ID          string
	Environment id.Environment
	Name        string
	// Prefix is the key up to its secret, e.g. spk_test_4fZk01Qw8x; LastFour the last characters of the secret.
	Prefix   string
	LastFour string
	// Grants are the first of the key's grants, up to ShownGrants and oldest first; GrantCount counts all.
	Grants     []Grant
	GrantCount int
	// SourceCIDRs are the networks that requests may come from, sorted; nil for all.
	SourceCIDRs []netip.Prefix
	// Rate is the limit of the key's requests; nil for that of the service.
	Rate *ratelimit.Limit
	// Times are in Unix milliseconds. DisabledMillis and RevokedMillis are nil for a key that is not. UpdatedMillis is
	// when the key or its grants were last changed.
	CreatedMillis  int64
	UpdatedMillis  int64
	ExpiresMillis  int64
	DisabledMillis *int64
	RevokedMillis  *int64
	// PreviousEndsMillis is when the secret before the last rotation ends, or ended; nil where there was none.
	PreviousEndsMillis *int64
	// LastUsed is the last use that was written down; nil for none.
	LastUsed *KeyUse
	// grantsVersion increases with every change of the key or its grants.
	grantsVersion int64
}

// Version identifies what the key's changes have left, with its grants. Using the key does not change it.
func (k Key) Version() etag.Tag { return etag.Of(k.ID, k.grantsVersion) }

// KeyUse is one use of a key.
type KeyUse struct {
	AtMillis  int64
	IP        string
	UserAgent string
	// Route is the method and the path of the operation, with {name} for its parameters.
	Route string
}

// Status is the state of the key at a time.
func (k Key) Status(now time.Time) KeyStatus {
	switch {
	case k.RevokedMillis != nil:
		return KeyRevoked
	case k.ExpiresMillis <= clock.Millis(now):
		return KeyExpired
	case k.DisabledMillis != nil:
		return KeyDisabled
	default:
		return KeyActive
	}
}

// PreviousUntil returns until when the secret before the last rotation works, or nil where it does not any more.
func (k Key) PreviousUntil(now time.Time) *int64 {
	if k.PreviousEndsMillis == nil || *k.PreviousEndsMillis <= clock.Millis(now) {
		return nil
	}
	return k.PreviousEndsMillis
}

// NewKey describes a key to create.
type NewKey struct {
	Name        string
	Environment id.Environment
	// Grants may be empty: such a key opens nothing.
	Grants []Grant
	// ExpiresMillis is in Unix milliseconds; nil means DefaultKeyLifetime from now.
	ExpiresMillis *int64
	// SourceCIDRs are networks in CIDR notation; nil for all.
	SourceCIDRs []string
	// Rate is the limit of the key's requests; nil for that of the service.
	Rate *ratelimit.Limit
}

// Violations returns every rule that the input breaks, by the names of its fields.
func (n NewKey) Violations(now time.Time) []apperr.Detail {
	var v apperr.Violations
	team.CheckName(&v, "name", n.Name)
	expiryViolation(&v, n.ExpiresMillis, now)
	if len(n.Grants) > MaxNewGrants {
		v.Add("grants", "max_items", fmt.Sprintf("must have at most %d grants; add the others one by one", MaxNewGrants))
	}
	grantViolations(&v, func(i int) string { return fmt.Sprintf("grants[%d].", i) }, n.Grants, clock.Millis(now))
	checkGrantCount(&v, "grants", n.Grants)
	_ = parseSources(&v, n.SourceCIDRs)
	rateViolations(&v, n.Rate)
	return v.Details()
}

func expiryViolation(v *apperr.Violations, expires *int64, now time.Time) {
	if expires != nil && *expires <= clock.Millis(now) {
		v.Add("expires_at", "future", "must be in the future")
	}
}

// CreateKey creates a key for an environment of the actor's team and returns it with its text. The text is not stored
// and cannot be read again. CreateKey returns validation_error, and not_found for an environment of another team.
func (s *Service) CreateKey(ctx context.Context, actor access.Principal, n NewKey) (Key, secretbox.Secret, error) {
	teamID, err := s.team.TeamOf(ctx, actor)
	if err != nil {
		return Key{}, "", err
	}
	if violations := n.Violations(s.clock.Now()); violations != nil {
		return Key{}, "", apperr.Invalid(violations...)
	}
	if !id.Is(id.PrefixEnvironment, string(n.Environment)) {
		return Key{}, "", team.ErrNoEnvironment()
	}
	var k Key
	var text keyText
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		env, err := team.RequireEnvironment(ctx, tx, teamID, n.Environment)
		if err != nil {
			return err
		}
		actor, err := members.ActorNow(ctx, tx, actor, teamID, s.clock.Now())
		if err != nil {
			return err
		}
		if !actor.HasIn(env.ID, access.APIKeysWrite) {
			if !actor.Enters(env.ID) {
				return team.ErrNoEnvironment()
			}
			return apperr.New(apperr.CodeForbidden, "The user does not have the permission "+string(access.APIKeysWrite)+
				" in the environment")
		}
		if err := checkGrantable(actor, env.ID, n.Grants); err != nil {
			return err
		}
		text = newKeyText(env.Type)
		k = s.newKey(n, text)
		if err := insertKey(ctx, tx, teamID, k, text, text.mac(s.pepper), actor.ID); err != nil {
			return err
		}
		grants := slices.Clone(n.Grants)
		for i := range grants {
			grants[i].ID = id.New(id.PrefixGrant)
		}
		if err := insertGrants(ctx, s.db, tx, k.ID, grants, k.CreatedMillis); err != nil {
			return err
		}
		k.Grants, k.GrantCount = grants[:min(len(grants), ShownGrants)], len(grants)
		// On PostgreSQL the insert waits for a deletion of the environment in progress, which may have succeeded.
		if _, err := team.RequireEnvironment(ctx, tx, teamID, n.Environment); err != nil {
			return err
		}
		return audit.Record(ctx, tx, clock.FromMillis(k.CreatedMillis), audit.Event{
			Team: teamID, Environment: k.Environment, Actor: actor, Action: "api_key.create", TargetType: "api_key",
			TargetID: k.ID, After: keyState(&k),
		})
	})
	if err != nil {
		return Key{}, "", err
	}
	return k, secretbox.Secret(text.String()), nil
}

func (s *Service) newKey(n NewKey, text keyText) Key {
	now := s.clock.Now()
	k := Key{
		ID: id.New(id.PrefixAPIKey), Environment: n.Environment, Name: n.Name, Prefix: text.prefix(),
		LastFour: text.lastFour(), CreatedMillis: clock.Millis(now), ExpiresMillis: clock.Millis(now.Add(DefaultKeyLifetime)),
	}
	if n.ExpiresMillis != nil {
		k.ExpiresMillis = *n.ExpiresMillis
	}
	k.UpdatedMillis = k.CreatedMillis
	var v apperr.Violations // there are none: they were asked for before
	k.SourceCIDRs, k.Rate = parseSources(&v, n.SourceCIDRs), n.Rate
	return k
}

// ListKeys returns a page of the keys of the actor's team, in the given environments or, without any, in all. It reads
// page.Request.Fetch rows, which shows page.Cut whether more follow. It returns not_found for an environment of another
// team, and for one in which the actor has no permission.
func (s *Service) ListKeys(ctx context.Context, actor access.Principal, environments []id.Environment,
	r page.Request) ([]Key, error) {
	teamID, err := s.team.TeamOf(ctx, actor)
	if err != nil {
		return nil, err
	}
	for _, want := range environments {
		if !id.Is(id.PrefixEnvironment, string(want)) || !actor.Enters(want) {
			return nil, team.ErrNoEnvironment()
		}
		if _, err := team.RequireEnvironment(ctx, s.db.Read(), teamID, want); err != nil {
			return nil, err
		}
	}
	if !actor.HasIn("", access.APIKeysRead) {
		if environments, err = s.readable(ctx, actor, environments); err != nil || len(environments) == 0 {
			return nil, err
		}
	}
	return listKeys(ctx, s.db.Read(), teamID, environments, r)
}

// readable returns those of the environments, or of all where none is named, whose keys the actor may read.
func (s *Service) readable(ctx context.Context, actor access.Principal,
	environments []id.Environment) ([]id.Environment, error) {
	if len(environments) == 0 {
		all, err := s.team.Environments(ctx, actor)
		if err != nil {
			return nil, err
		}
		for _, e := range all {
			environments = append(environments, e.ID)
		}
	}
	return slices.DeleteFunc(slices.Clone(environments), func(e id.Environment) bool {
		return !actor.HasIn(e, access.APIKeysRead)
	}), nil
}

// GetKey returns a key of the actor's team, or not_found, which is also a key of an environment whose keys the actor
// may not see.
func (s *Service) GetKey(ctx context.Context, actor access.Principal, keyID string) (Key, error) {
	team, err := s.teamOfKey(ctx, actor, keyID)
	if err != nil {
		return Key{}, err
	}
	k, ok, err := readKey(ctx, s.db.Read(), team, keyID)
	if err != nil {
		return Key{}, err
	}
	if !ok {
		return Key{}, apperr.NotFound("API key")
	}
	return k, requireKeyAccess(actor, k.Environment, access.APIKeysRead)
}

// teamOfKey is teamOf for a key's id, which it checks first: an id that cannot exist costs no query.
func (s *Service) teamOfKey(ctx context.Context, actor access.Principal, keyID string) (id.Team, error) {
	if !id.Is(id.PrefixAPIKey, keyID) {
		return "", apperr.NotFound("API key")
	}
	return s.team.TeamOf(ctx, actor)
}

// keyState is the key as the audit trail shows it.
func keyState(k *Key) audit.State {
	return audit.State{"name": k.Name, "prefix": k.Prefix, "last_four": k.LastFour, "grants": auditGrants(k.Grants),
		"grant_count": k.GrantCount, "source_cidrs": sourceTexts(k.SourceCIDRs), "rate_limit": auditRate(k.Rate),
		"expires_at": clock.FromMillis(k.ExpiresMillis), "disabled_at": auditTime(k.DisabledMillis),
		"revoked_at": auditTime(k.RevokedMillis), "previous_secret_until": auditTime(k.PreviousEndsMillis)}
}

// auditTime is a time that can be absent, as the trail shows it.
func auditTime(ms *int64) any {
	if ms == nil {
		return nil
	}
	return clock.FromMillis(*ms)
}

// auditedConnections is how many connections of a grant an audit event lists.
const auditedConnections = 20

func auditGrants(grants []Grant) []map[string]any {
	out := make([]map[string]any, 0, len(grants))
	for _, g := range grants {
		out = append(out, auditGrant(g))
	}
	return out
}

func auditGrant(g Grant) map[string]any {
	out := map[string]any{"id": g.ID, "effect": g.Effect, "routes": g.Routes, "connections": g.Connections}
	switch {
	case g.Connections == nil:
		out["connections"] = []string{AllConnections}
	case len(g.Connections) > auditedConnections:
		out["connections"], out["more_connections"] = g.Connections[:auditedConnections],
			len(g.Connections)-auditedConnections
	}
	if !g.Calls.Empty() {
		out["calls"] = g.Calls
	}
	if g.NotAfterMillis != nil {
		out["not_after"] = clock.Wire(clock.FromMillis(*g.NotAfterMillis))
	}
	return out
}
