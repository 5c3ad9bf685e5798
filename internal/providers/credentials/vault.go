package credentials

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"

	"sallyport/internal/identity/installation"
	"sallyport/internal/platform/cache"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

// maxCached bounds the cache of sealed credentials.
const maxCached = 50_000

// Config holds the dependencies of a Vault. All are needed.
type Config struct {
	DB     *db.DB
	Clock  clock.Clock
	Box    *secretbox.Box
	Pepper installation.Pepper
}

// Vault stores credentials and opens them. It is safe for concurrent use.
type Vault struct {
	db     *db.DB
	clock  clock.Clock
	box    *secretbox.Box
	pepper installation.Pepper

	// cache holds sealed values by the UUID of the connection; no plaintext.
	cache      cache.Cache[string, *Sealed]
	refreshing sync.Mutex
	// seen is the version of the collection at the last Refresh that succeeded; negative before the first.
	seen int64
}

// NewVault returns a Vault with an empty cache.
func NewVault(cfg Config) *Vault {
	return &Vault{db: cfg.DB, clock: cfg.Clock, box: cfg.Box, pepper: cfg.Pepper,
		cache: cache.Cache[string, *Sealed]{Max: maxCached}, seen: -1}
}

// Store stores credentials in place of all that the connection has. The caller has locked the connection, whose
// environment it gives, in the same transaction, and calls Forget when that has ended.
func (v *Vault) Store(ctx context.Context, tx *sql.Tx, in *New) (Set, error) {
	if err := in.Values.check(); err != nil {
		return Set{}, err
	}
	s := Set{ConnectionUUID: in.ConnectionUUID, Environment: in.Environment, Mode: in.Mode, Fields: in.Values.names(),
		Hosts: sorted(in.Hosts), BaseURL: &in.BaseURL, ClientID: in.ClientID,
		ScopesRequested: orEmpty(in.ScopesRequested), ScopesGranted: orEmpty(in.ScopesGranted),
		Fingerprint: v.fingerprint(in.Environment, in.Values), Revision: 1, StoredAt: roundMillis(v.clock.Now()),
		ExpiresAt: in.ExpiresAt}
	revision, err := replace(ctx, tx, &s)
	if err != nil {
		return Set{}, err
	}
	s.Revision = revision
	if err := v.put(ctx, tx, in.ConnectionUUID, in.Values); err != nil {
		return Set{}, err
	}
	return s, db.Bump(ctx, tx, collection, in.ConnectionUUID)
}

// Renew stores what a refresh has brought, and reports false if the stored credentials are others by now. The caller
// has locked the connection in the same transaction, and calls Forget when that has ended.
func (v *Vault) Renew(ctx context.Context, tx *sql.Tx, in *Renewal) (renewed bool, err error) {
	s := in.Of
	if err := in.Values.check(); err != nil {
		return false, err
	}
	all, err := v.Open(s, s.Fields...)
	if err != nil {
		return false, err
	}
	maps.Copy(all, in.Values)
	if err := all.check(); err != nil {
		return false, err
	}
	next, now := s.Set, roundMillis(v.clock.Now())
	next.Fields, next.Fingerprint, next.Revision = all.names(), v.fingerprint(s.Environment, all), s.Revision+1
	next.ExpiresAt, next.RefreshedAt, next.RefreshFailures, next.RefreshError = in.ExpiresAt, &now, 0, ""
	if in.ScopesGranted != nil {
		next.ScopesGranted = in.ScopesGranted
	}
	if in.Hosts != nil {
		next.Hosts = sorted(in.Hosts)
	}
	if renewed, err = update(ctx, db.Prepared(v.db, tx), &next, s.Revision); err != nil || !renewed {
		return false, err
	}
	if err := v.put(ctx, tx, s.ConnectionUUID, in.Values); err != nil || in.Announced {
		return true, err
	}
	return true, v.Announce(ctx, tx, s.ConnectionUUID)
}

// Announce makes other processes read the credentials of connections again, which the transaction may renew and has
// locked. Changes of credentials wait for each other from here on until it has ended.
func (*Vault) Announce(ctx context.Context, tx *sql.Tx, connectionUUIDs ...string) error {
	return db.BumpAll(ctx, tx, collection, connectionUUIDs...)
}

// RecordFailure counts a refresh that failed, of the set of that revision. The message has no secret; it is cut to 500
// bytes.
func (*Vault) RecordFailure(ctx context.Context, tx *sql.Tx, env id.Environment, connectionUUID string, revision int64,
	message string) error {
	return addFailure(ctx, tx, env, connectionUUID, revision, message)
}

// put seals values and stores them.
func (v *Vault) put(ctx context.Context, tx *sql.Tx, connectionUUID string, values Values) error {
	rows := make([]sealedValue, 0, len(values))
	for _, name := range values.names() {
		sealed, err := v.box.Seal([]byte(values[name].Reveal()), place(connectionUUID, name))
		if err != nil {
			return fmt.Errorf("seal the credential %s: %w", name, err)
		}
		rows = append(rows, sealedValue{id: valueID(connectionUUID, name), connectionUUID: connectionUUID, name: name,
			value: sealed})
	}
	return putValues(ctx, db.Prepared(v.db, tx), rows)
}

// Delete deletes the credentials of a connection, if it has any. The caller calls Forget when the transaction has
// ended.
func (*Vault) Delete(ctx context.Context, tx *sql.Tx, env id.Environment, connectionUUID string) error {
	w := owned(env, connectionUUID)
	deleted, err := db.Changed(tx.ExecContext(ctx, "DELETE FROM connection_credentials"+w.Text(), w.Args()...))
	if err != nil {
		return fmt.Errorf("delete credentials: %w", err)
	}
	if !deleted {
		return nil
	}
	return db.Bump(ctx, tx, collection, connectionUUID)
}

// Sets describes the credentials of several connections of an environment, by UUID. Those without any are not in the
// result.
func (*Vault) Sets(ctx context.Context, q db.Querier, env id.Environment, connectionUUIDs []string) (map[string]Set,
	error) {
	return sets(ctx, q, env, connectionUUIDs)
}

// Describe is the method Sets of a Vault, for callers without one.
func Describe(ctx context.Context, q db.Querier, env id.Environment, connectionUUIDs []string) (map[string]Set, error) {
	return sets(ctx, q, env, connectionUUIDs)
}

// Assign notes to which OAuth client credentials belong of which that is not known. The caller calls Forget when the
// transaction has ended.
func (*Vault) Assign(ctx context.Context, tx *sql.Tx, env id.Environment, connectionUUID, clientID string) error {
	assigned, err := assign(ctx, tx, env, connectionUUID, clientID)
	if err != nil || !assigned {
		return err
	}
	return db.Bump(ctx, tx, collection, connectionUUID)
}

// Sealed are the credentials of a connection as they are stored. They are shared and read-only.
type Sealed struct {
	Set
	values map[string][]byte
}

// Sealed returns the credentials of a connection from memory, or not_found. They are at most a second older than the
// last change of another process.
func (v *Vault) Sealed(ctx context.Context, env id.Environment, connectionUUID string) (*Sealed, error) {
	s, err := v.cache.Get(ctx, connectionUUID, func(ctx context.Context) (*Sealed, int64, error) {
		return readSealed(ctx, v.db.Reserved(), connectionUUID)
	})
	if err != nil {
		return nil, err
	}
	if s.Environment != env {
		return nil, notFound()
	}
	return s, nil
}

// Reload reads the credentials of connections into memory, all in one statement, in place of what is there.
func (v *Vault) Reload(ctx context.Context, connectionUUIDs ...string) error {
	return v.cache.Reload(ctx, connectionUUIDs, notFound(), func(ctx context.Context) (map[string]*Sealed, int64, error) {
		return readEach(ctx, v.db.Reserved(), connectionUUIDs...)
	})
}

// Open returns the values of those names; a name that is not stored is absent. Nothing keeps them: callers drop what
// they get as soon as a request is made with it.
func (v *Vault) Open(s *Sealed, names ...string) (Values, error) {
	out := make(Values, len(names))
	for _, name := range names {
		sealed, stored := s.values[name]
		if !stored {
			continue
		}
		plain, err := v.box.Open(sealed, place(s.ConnectionUUID, name))
		if err != nil {
			return nil, fmt.Errorf("open the credential %s of connection %s: %w", name, s.ConnectionUUID, err)
		}
		out[name] = secretbox.Secret(plain)
	}
	return out, nil
}

// OpenAll returns every value.
func (v *Vault) OpenAll(s *Sealed) (Values, error) { return v.Open(s, s.Fields...) }

// Forget drops what is in memory of a connection's credentials.
func (v *Vault) Forget(connectionUUID string) { v.cache.Drop(connectionUUID) }

// Refresh drops the credentials in memory that another process has changed; see db.Changes.
func (v *Vault) Refresh(ctx context.Context) error {
	v.refreshing.Lock()
	defer v.refreshing.Unlock()
	changes, err := v.db.Changes(ctx, collection, v.seen)
	if err != nil {
		return fmt.Errorf("refresh credentials: %w", err)
	}
	if !changes.Known {
		v.cache.DropOthers(changes.Version)
	}
	for _, uuid := range changes.Keys {
		v.cache.Drop(uuid)
	}
	v.seen = changes.Version
	return nil
}

// fingerprint hashes values under the installation's pepper. The environment is part of it, so that no tenant can see
// that another one has the same credentials.
func (v *Vault) fingerprint(env id.Environment, values Values) string {
	text := appendPart(nil, string(env))
	for _, name := range values.names() {
		text = appendPart(appendPart(text, name), values[name].Reveal())
	}
	sum := v.pepper.MAC("credential-fingerprint", text)
	clear(text)
	return hex.EncodeToString(sum[:8])
}

// appendPart appends a text after its length, so that different parts never give the same bytes.
func appendPart(b []byte, part string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(part))) //nolint:gosec // bounded by MaxValueBytes
	return append(b, part...)
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return slices.Clone(list)
}
