package apikeys

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"sallyport/internal/identity/installation"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/ratelimit"
)

// credential holds the parts of a key that a request with it needs. It is never changed.
type credential struct {
	id             string
	name           string
	team           id.Team
	environment    id.Environment
	mac            []byte
	previousMAC    []byte
	previousEnds   *int64
	expiresMillis  int64
	disabledMillis *int64
	revokedMillis  *int64
	sources        []netip.Prefix
	rate           *ratelimit.Limit // nil for that of the service
	// version is that of the grants, from which opened was made; it holds until openedUntil, in Unix milliseconds.
	version     int64
	opened      *access.Grants
	openedUntil int64
	// grants is how many there are, and connections how many they name.
	grants, connections int
}

func (c *credential) principal() access.Principal {
	return access.Principal{Kind: access.KindAPIKey, ID: c.id, Name: c.name, Team: c.team, Environment: c.environment,
		Grants: c.opened, Rate: c.rate}
}

// matchesMAC reports whether the code of a text is that of a secret that works at a time. Both are compared, so that
// the time taken does not show which one matched.
func (c *credential) matchesMAC(mac []byte, nowMillis int64) bool {
	present := hmac.Equal(mac, c.mac)
	previous := hmac.Equal(mac, c.previousMAC) && c.previousEnds != nil && *c.previousEnds > nowMillis
	return present || previous
}

// check returns why the key must be refused to a caller who has its secret and comes from an address, or nil.
func (c *credential) check(ip string, nowMillis int64) error {
	switch {
	case c.revokedMillis != nil:
		return apperr.Unauthorized(errKeyRevoked)
	case c.disabledMillis != nil:
		return apperr.Unauthorized(errKeyDisabled)
	case !mayComeFrom(c.sources, ip):
		return apperr.Unauthorized(errKeySource)
	case c.expiresMillis <= nowMillis:
		return apperr.New(apperr.CodeAPIKeyExpired, "The API key has expired")
	}
	return nil
}

// The queries of a credential run for every request with a key that is not cached, and join a key with up to MaxGrants
// grants. They scan by hand, with one set of destinations for all rows.
//
//nolint:gosec // names of columns, no credentials
const credentialColumns = `k.id, k.name, k.team_id, k.environment_id, k.secret_mac, k.previous_mac, k.previous_ends_ms,
	k.expires_ms, k.disabled_ms, k.revoked_ms, k.source_cidrs, k.grants_version, k.rate_per_second, k.rate_burst`

func (c *credential) targets(sources *sql.NullString, rate *storedRate) []any {
	return []any{&c.id, &c.name, &c.team, &c.environment, &c.mac, &c.previousMAC, &c.previousEnds, &c.expiresMillis,
		&c.disabledMillis, &c.revokedMillis, sources, &c.version, &rate.perSecond, &rate.burst}
}

func (c *credential) setSources(text sql.NullString) (err error) {
	if text.Valid {
		c.sources, err = decodeSources(text.String)
	}
	return err
}

//nolint:gosec // names of columns, no credentials
const credentialGrantColumns = "g.id, g.effect, g.routes, g.connections, g.call_limits, g.not_after_ms"

// storedGrant is a row of credentialGrantColumns, which is null where the join found none.
type storedGrant struct {
	id, effect, routes, connections, calls sql.NullString
	notAfter                               *int64
}

func (s *storedGrant) targets() []any {
	return []any{&s.id, &s.effect, &s.routes, &s.connections, &s.calls, &s.notAfter}
}

func (s *storedGrant) grant() (Grant, error) {
	g := Grant{ID: s.id.String, Effect: Effect(s.effect.String), NotAfterMillis: s.notAfter}
	err := json.Unmarshal([]byte(s.routes.String), &g.Routes)
	if err == nil && s.connections.Valid {
		g.Connections, err = decodeConnections(s.connections.String)
	}
	if err == nil {
		err = g.decodeCalls(s.calls.String)
	}
	if err != nil {
		return Grant{}, fmt.Errorf("decode grant %s: %w", g.ID, err)
	}
	return g, nil
}

const selectKey = `SELECT ` + credentialColumns + `, ` + credentialGrantColumns + ` FROM api_keys k `

const keyByLookup = "LEFT JOIN api_key_grants g ON g.api_key_id = k.id AND (k.secret_mac = $2 OR k.previous_mac = " +
	"$2) WHERE k.lookup_id = $1"

// readCredential finds a key by the part that is not secret, and nil where there is none. Its grants come with it only
// where mac is the HMAC of one of its secrets: a guess reads one row, however many grants there are.
func readCredential(ctx context.Context, q db.Querier, lookup string, mac []byte,
	nowMillis int64) (*credential, error) {
	return queryCredential(ctx, q, keyByLookup, nowMillis, lookup, mac)
}

// readCredentialByID finds a key with its grants by its id, and nil where there is none.
func readCredentialByID(ctx context.Context, q db.Querier, keyID string, nowMillis int64) (*credential, error) {
	return queryCredential(ctx, q, "LEFT JOIN api_key_grants g ON g.api_key_id = k.id WHERE k.id = $1", nowMillis, keyID)
}

func queryCredential(ctx context.Context, q db.Querier, joined string, nowMillis int64,
	args ...any) (*credential, error) {
	rows, err := q.QueryContext(ctx, selectKey+joined, args...)
	if err != nil {
		return nil, fmt.Errorf("read the API key: %w", err)
	}
	var c *credential
	var sources sql.NullString
	var rate storedRate
	var grants []Grant
	var s storedGrant
	var targets []any
	err = db.Each(rows, func(r *sql.Rows) error {
		if c == nil {
			c = &credential{}
			targets = append(c.targets(&sources, &rate), s.targets()...)
		}
		if err := r.Scan(targets...); err != nil || !s.id.Valid {
			return err
		}
		g, err := s.grant()
		grants = append(grants, g)
		c.connections += len(g.Connections)
		return err
	})
	if err == nil && c != nil {
		err = c.setSources(sources)
		c.rate = rate.limit()
		c.opened, c.openedUntil = openGrants(grants, nowMillis)
		c.grants = len(grants)
	}
	if err != nil {
		return nil, fmt.Errorf("read the API key: %w", err)
	}
	return c, nil
}

// readAgain reads a key without its grants, and takes what these open from a credential that was read before. It
// returns nil where the key is gone, or its grants have changed.
func readAgain(ctx context.Context, q db.Querier, before *credential) (*credential, error) {
	c, sources, rate := &credential{}, sql.NullString{}, storedRate{}
	rows, err := q.QueryContext(ctx, "SELECT "+credentialColumns+" FROM api_keys k WHERE k.id = $1", before.id)
	if err != nil {
		return nil, fmt.Errorf("read the API key again: %w", err)
	}
	if err := db.Each(rows, func(r *sql.Rows) error { return r.Scan(c.targets(&sources, &rate)...) }); err != nil {
		return nil, fmt.Errorf("read the API key again: %w", err)
	}
	if c.id == "" || c.version != before.version {
		return nil, nil //nolint:nilnil // the caller reads all of it
	}
	if err := c.setSources(sources); err != nil {
		return nil, err
	}
	c.rate = rate.limit()
	c.opened, c.openedUntil, c.grants, c.connections = before.opened, before.openedUntil, before.grants, before.connections
	return c, nil
}

const (
	// keyFresh is for how long a key that was read is taken as it was. A stream's credential is asked for every three
	// seconds, and what another process changed has to end it within five.
	keyFresh = 1500 * time.Millisecond
	// keyKept is for how long its grants are kept, so that only the key's own row is read again.
	keyKept = 10 * time.Minute
	// maxCachedWeight bounds what the cache holds: keys, with the connections that their grants name.
	maxCachedWeight = 2_000_000
)

// keyDigest is the HMAC of a text under the pepper. The digest does not reveal the text.
type keyDigest [sha256.Size]byte

// keyCache holds the keys that were used lately, by the digest of their text: only texts that held are in it. ADR 32
// says why it is not a cache of package cache.
type keyCache struct {
	mu     sync.RWMutex
	byText map[keyDigest]cachedKey
	weight int
	// epoch counts the changes made by this process. A value read before a change is not kept after it.
	epoch uint64
}

type cachedKey struct {
	*credential
	// read is when the key was read, loaded when its grants were.
	read, loaded time.Time
}

func (c *cachedKey) weight() int { return 1 + c.connections }

func (k *keyCache) get(d keyDigest) (c cachedKey, ok bool, epoch uint64) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	c, ok = k.byText[d]
	return c, ok, k.epoch
}

// put keeps what was read in an epoch, unless something has changed since.
func (k *keyCache) put(d keyDigest, c cachedKey, epoch uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if epoch != k.epoch {
		return
	}
	if k.byText == nil {
		k.byText = map[keyDigest]cachedKey{}
	}
	k.removeLocked(d)
	for other := range k.byText {
		if k.weight+c.weight() <= maxCachedWeight {
			break
		}
		k.removeLocked(other)
	}
	k.byText[d] = c
	k.weight += c.weight()
}

func (k *keyCache) remove(d keyDigest) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.removeLocked(d)
}

func (k *keyCache) removeLocked(d keyDigest) {
	if c, ok := k.byText[d]; ok {
		k.weight -= c.weight()
		delete(k.byText, d)
	}
}

// drop has every key read again: this process has changed one.
func (k *keyCache) drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.epoch++
	clear(k.byText)
	k.weight = 0
}

// credentialOf returns the key whose text this is, or nil. A reading younger than keyFresh is used as it is.
func (s *Service) credentialOf(ctx context.Context, text keyText, pepper installation.Pepper) (*credential, error) {
	// The code is computed before the row is looked for, so that the time taken does not show whether there is one.
	var digest keyDigest
	copy(digest[:], text.mac(pepper))
	now := s.clock.Now()
	nowMillis := clock.Millis(now)
	cached, ok, epoch := s.keys.get(digest)
	if ok && now.Sub(cached.read) < keyFresh && nowMillis < cached.openedUntil {
		if !cached.matchesMAC(digest[:], nowMillis) {
			return nil, nil //nolint:nilnil // it was the secret before a rotation
		}
		return cached.credential, nil
	}
	var c *credential
	var err error
	loaded := now
	if ok && nowMillis < cached.openedUntil && now.Sub(cached.loaded) < keyKept {
		loaded = cached.loaded
		c, err = readAgain(ctx, s.db.Read(), cached.credential)
	}
	if c == nil && err == nil {
		loaded = now
		c, err = readCredential(ctx, s.db.Read(), text.lookup(), digest[:], nowMillis)
	}
	if err != nil {
		return nil, err
	}
	if c == nil || !c.matchesMAC(digest[:], nowMillis) {
		if ok {
			s.keys.remove(digest)
		}
		return nil, nil //nolint:nilnil // there is no such key
	}
	s.keys.put(digest, cachedKey{credential: c, read: now, loaded: loaded}, epoch)
	return c, nil
}
