package identity

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"sallyport/internal/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/secretbox"
)

const (
	// DefaultKeyLifetime is the life of a key for which no expiry is given.
	DefaultKeyLifetime = 90 * 24 * time.Hour
	// MaxGrants is how many grants a key has at most.
	MaxGrants = 50
)

// KeyStatus is the state of an API key.
type KeyStatus string

// The states. Revoked stays revoked, whether or not the key would have expired since.
const (
	KeyActive  KeyStatus = "active"
	KeyRevoked KeyStatus = "revoked"
	KeyExpired KeyStatus = "expired"
)

// KeyStatuses returns every state.
func KeyStatuses() []KeyStatus { return []KeyStatus{KeyActive, KeyRevoked, KeyExpired} }

// Key is an API key without its secret. It belongs to one environment.
type Key struct {
	ID          string
	Environment id.Environment
	Name        string
	// Prefix is the key up to its secret, e.g. spk_test_4fZk01Qw8x; LastFour the last characters of the secret.
	Prefix   string
	LastFour string
	Grants   []Grant
	// Times are in Unix milliseconds; RevokedMillis is nil for a key that was not revoked.
	CreatedMillis int64
	ExpiresMillis int64
	RevokedMillis *int64
}

// Status is the state of the key at a time.
func (k Key) Status(now time.Time) KeyStatus {
	switch {
	case k.RevokedMillis != nil:
		return KeyRevoked
	case k.ExpiresMillis <= clock.Millis(now):
		return KeyExpired
	default:
		return KeyActive
	}
}

// NewKey is what a key is made from.
type NewKey struct {
	Name        string
	Environment id.Environment
	// Grants may be empty: such a key opens nothing.
	Grants []Grant
	// ExpiresMillis is in Unix milliseconds; nil means DefaultKeyLifetime from now.
	ExpiresMillis *int64
}

// Faults returns every rule that the input breaks, by the names of its fields.
func (n NewKey) Faults(now time.Time) []apperr.Detail {
	var f apperr.Faults
	checkName(&f, "name", n.Name)
	if n.ExpiresMillis != nil && *n.ExpiresMillis <= clock.Millis(now) {
		f.Add("expires_at", "future", "must lie in the future")
	}
	if len(n.Grants) > MaxGrants {
		f.Add("grants", "max_items", fmt.Sprintf("must have at most %d grants", MaxGrants))
	}
	for i, g := range n.Grants {
		if !slices.Contains(Effects(), g.Effect) {
			f.Add(fmt.Sprintf("grants[%d].effect", i), "enum", "must be allow or deny")
		}
		if len(g.Routes) == 0 {
			f.Add(fmt.Sprintf("grants[%d].routes", i), "min_items", "must name at least one route")
		}
		for j, r := range g.Routes {
			if !slices.Contains(access.Routes(), r) {
				f.Add(fmt.Sprintf("grants[%d].routes[%d]", i, j), "enum", "must be a route that exists")
			}
		}
	}
	return details(&f)
}

// CreateKey makes a key for an environment of the actor's team and returns it with its text, which is not stored and
// cannot be had again. It returns validation_error, and not_found for an environment of another team.
func (s *Service) CreateKey(ctx context.Context, actor access.Principal, n NewKey) (Key, secretbox.Secret, error) {
	m, err := s.material()
	if err != nil {
		return Key{}, "", err
	}
	team, err := s.teamOf(ctx, actor)
	if err != nil {
		return Key{}, "", err
	}
	if faults := n.Faults(s.clock.Now()); faults != nil {
		return Key{}, "", apperr.Invalid(faults...)
	}
	if !id.Is(id.PrefixEnvironment, string(n.Environment)) {
		return Key{}, "", errNoEnvironment()
	}
	var k Key
	var text keyText
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		env, err := requireEnvironment(ctx, tx, team, n.Environment)
		if err != nil {
			return err
		}
		text = newKeyText(env.Type)
		k = s.newKey(n, text)
		if err := insertKey(ctx, tx, team, k, text, text.mac(m.pepper), actor.ID); err != nil {
			return err
		}
		// On PostgreSQL the insert waits for a deletion of the environment under way, which may have succeeded.
		if _, err := requireEnvironment(ctx, tx, team, n.Environment); err != nil {
			return err
		}
		return audit.Record(ctx, tx, clock.FromMillis(k.CreatedMillis), audit.Event{
			Team: team, Environment: k.Environment, Actor: actor, Action: "api_key.create", TargetType: "api_key", TargetID: k.ID,
			After: keyState(&k),
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
		ID: id.New(id.PrefixAPIKey), Environment: n.Environment, Name: n.Name, Prefix: text.prefix(), LastFour: text.lastFour(),
		CreatedMillis: clock.Millis(now), ExpiresMillis: clock.Millis(now.Add(DefaultKeyLifetime)),
	}
	if n.ExpiresMillis != nil {
		k.ExpiresMillis = *n.ExpiresMillis
	}
	for _, g := range n.Grants {
		k.Grants = append(k.Grants, Grant{ID: id.New(id.PrefixGrant), Effect: g.Effect, Routes: g.Routes})
	}
	return k
}

// ListKeys returns a page of the keys of the actor's team, in the given environments or, without any, in all. It reads
// page.Request.Fetch rows, so that page.Cut can tell whether more follow. An environment of another team is not_found.
func (s *Service) ListKeys(ctx context.Context, actor access.Principal, environments []id.Environment, r page.Request) ([]Key, error) {
	team, err := s.teamOf(ctx, actor)
	if err != nil {
		return nil, err
	}
	for _, want := range environments {
		if !id.Is(id.PrefixEnvironment, string(want)) {
			return nil, errNoEnvironment()
		}
		if _, err := requireEnvironment(ctx, s.db.Read(), team, want); err != nil {
			return nil, err
		}
	}
	return listKeys(ctx, s.db.Read(), team, environments, r)
}

// GetKey returns a key of the actor's team, or not_found.
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
	return k, nil
}

// RevokeKey ends a key of the actor's team at once and for good, and returns it. Revoking it again changes nothing.
func (s *Service) RevokeKey(ctx context.Context, actor access.Principal, keyID string) (Key, error) {
	team, err := s.teamOfKey(ctx, actor, keyID)
	if err != nil {
		return Key{}, err
	}
	var k Key
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		now := s.clock.Now()
		changed, err := revokeKey(ctx, tx, team, keyID, clock.Millis(now))
		if err != nil {
			return err
		}
		var ok bool
		if k, ok, err = readKey(ctx, tx, team, keyID); err != nil {
			return err
		}
		if !ok {
			return apperr.NotFound("API key")
		}
		if !changed {
			return nil
		}
		before := k
		before.RevokedMillis = nil
		return audit.Record(ctx, tx, now, audit.Event{
			Team: team, Environment: k.Environment, Actor: actor, Action: "api_key.revoke", TargetType: "api_key", TargetID: k.ID,
			Before: keyState(&before), After: keyState(&k),
		})
	})
	return k, err
}

// DeleteKey removes a key of the actor's team with its grants, or returns not_found. Its trail stays.
func (s *Service) DeleteKey(ctx context.Context, actor access.Principal, keyID string) error {
	team, err := s.teamOfKey(ctx, actor, keyID)
	if err != nil {
		return err
	}
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		k, ok, err := readKey(ctx, tx, team, keyID)
		if err != nil {
			return err
		}
		if ok {
			ok, err = deleteKey(ctx, tx, team, keyID)
		}
		if err != nil {
			return err
		}
		if !ok {
			return apperr.NotFound("API key")
		}
		return audit.Record(ctx, tx, s.clock.Now(), audit.Event{
			Team: team, Environment: k.Environment, Actor: actor, Action: "api_key.delete", TargetType: "api_key", TargetID: k.ID,
			Before: keyState(&k),
		})
	})
}

// teamOfKey is teamOf for a key's id, which it checks first: an id that cannot exist costs no query.
func (s *Service) teamOfKey(ctx context.Context, actor access.Principal, keyID string) (id.Team, error) {
	if !id.Is(id.PrefixAPIKey, keyID) {
		return "", apperr.NotFound("API key")
	}
	return s.teamOf(ctx, actor)
}

// keyState is the key as the audit trail shows it.
func keyState(k *Key) audit.State {
	s := audit.State{"name": k.Name, "prefix": k.Prefix, "grants": auditGrants(k.Grants), "expires_at": clock.FromMillis(k.ExpiresMillis), "revoked_at": nil}
	if k.RevokedMillis != nil {
		s["revoked_at"] = clock.FromMillis(*k.RevokedMillis)
	}
	return s
}

func auditGrants(grants []Grant) []map[string]any {
	out := make([]map[string]any, 0, len(grants))
	for _, g := range grants {
		out = append(out, map[string]any{"id": g.ID, "effect": g.Effect, "routes": g.Routes})
	}
	return out
}
