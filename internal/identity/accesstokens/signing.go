package accesstokens

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/installation"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

const (
	// JWKSMaxAge is how long others may cache the published keys.
	JWKSMaxAge = 5 * time.Minute
	// signingKeyLead is how long a key is published before it signs, so that verifiers know it by then: twice the time for
	// which the published keys may be kept.
	signingKeyLead = 2 * JWKSMaxAge
	// signingKeyTail is how long a key verifies after it has signed for the last time: its tokens live no longer, and the
	// rest is for clocks that differ.
	signingKeyTail = Lifetime + time.Minute
	// signingKeyCache is how long a node uses the keys that it has read.
	signingKeyCache = 5 * time.Second
	// signingKeyRead bounds a reading of the keys, which others wait for.
	signingKeyRead = 2 * time.Second
)

// signingKey is a row of signing_keys, opened.
type signingKey struct {
	id      string
	private *ecdsa.PrivateKey
	// from is when the key begins to sign.
	from time.Time
}

func newSigningKey(from time.Time) (signingKey, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return signingKey{}, fmt.Errorf("make a signing key: %w", err)
	}
	return signingKey{id: id.New(id.PrefixSigningKey), private: k, from: from}, nil
}

// encode returns the key in PKCS #8.
func (k signingKey) encode() ([]byte, error) {
	b, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, fmt.Errorf("encode a signing key: %w", err)
	}
	return b, nil
}

var errSigningKey = errors.New("the signing key is no P-256 key")

func decodeSigningKey(stored storedSigningKey, der []byte) (signingKey, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return signingKey{}, fmt.Errorf("decode signing key %s: %w", stored.id, err)
	}
	k, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || k.Curve != elliptic.P256() {
		return signingKey{}, fmt.Errorf("decode signing key %s: %w", stored.id, errSigningKey)
	}
	return signingKey{id: stored.id, private: k, from: clock.FromMillis(stored.fromMillis)}, nil
}

// keyring holds signing keys in the order in which they sign; there is at least one.
type keyring []signingKey

func newKeyring(keys []signingKey) keyring {
	return slices.SortedFunc(slices.Values(keys), func(a, b signingKey) int {
		return cmp.Or(a.from.Compare(b.from), cmp.Compare(a.id, b.id))
	})
}

// signer returns the key whose turn it is.
func (r keyring) signer(now time.Time) signingKey {
	for i := len(r) - 1; i > 0; i-- {
		if !now.Before(r[i].from) {
			return r[i]
		}
	}
	return r[0]
}

// live reports whether tokens of the key may still be about, or are to come.
func (r keyring) live(now time.Time, i int) bool {
	return i == len(r)-1 || now.Before(r[i+1].from.Add(signingKeyTail))
}

// verifier returns the public key of that id, or nil.
func (r keyring) verifier(now time.Time, keyID string) *ecdsa.PublicKey {
	for i, k := range r {
		if k.id == keyID && r.live(now, i) {
			return &k.private.PublicKey
		}
	}
	return nil
}

// expired returns the keys that are no longer needed.
func (r keyring) expired(now time.Time) []string {
	var ids []string
	for i, k := range r {
		if !r.live(now, i) {
			ids = append(ids, k.id)
		}
	}
	return ids
}

// Keys returns the signer and verifier of access tokens, with keys that were read within signingKeyCache.
func (s *Service) Keys(ctx context.Context) (*Keys, error) {
	return s.keys.Get(ctx, "", signingKeyCache)
}

// readKeys loads the one value of the cache.
func (s *Service) readKeys(ctx context.Context, _ string) (*Keys, error) {
	stored, err := readSigningKeys(ctx, s.db.Read())
	if err != nil {
		return nil, err
	}
	ring, err := s.openSigningKeys(stored)
	if err != nil {
		return nil, err
	}
	return newKeys(s.issuer, ring), nil
}

var errNoSigningKey = errors.New("there is no signing key")

func (s *Service) openSigningKeys(stored []storedSigningKey) (keyring, error) {
	if len(stored) == 0 {
		return nil, errNoSigningKey
	}
	keys := make([]signingKey, 0, len(stored))
	for _, k := range stored {
		der, err := s.box.Open(k.sealed, signingKeyAD(k.id))
		if err != nil {
			return nil, fmt.Errorf("open signing key %s: %w", k.id, err)
		}
		opened, err := decodeSigningKey(k, der)
		if err != nil {
			return nil, err
		}
		keys = append(keys, opened)
	}
	return newKeyring(keys), nil
}

func (s *Service) sealedSigningKey(from time.Time) (storedSigningKey, error) {
	k, err := newSigningKey(from)
	if err != nil {
		return storedSigningKey{}, err
	}
	der, err := k.encode()
	if err != nil {
		return storedSigningKey{}, err
	}
	sealed, err := s.box.Seal(der, signingKeyAD(k.id))
	if err != nil {
		return storedSigningKey{}, fmt.Errorf("seal a signing key: %w", err)
	}
	return storedSigningKey{id: k.id, sealed: sealed, fromMillis: clock.Millis(from)}, nil
}

func signingKeyAD(keyID string) secretbox.AD {
	return secretbox.AD{Table: "signing_keys", Column: "private_key", RowID: keyID}
}

// JWKS returns the public keys of access tokens (RFC 7517), including those that do not sign yet. While the keys cannot
// be read, it returns those that were read last.
func (s *Service) JWKS(ctx context.Context) (jose.JSONWebKeySet, error) {
	t, err := s.Keys(ctx)
	if err != nil {
		var ok bool
		if t, ok = s.keys.Last(""); !ok {
			return jose.JSONWebKeySet{}, err
		}
	}
	now := s.clock.Now()
	var set jose.JSONWebKeySet
	for i, k := range t.ring {
		if t.ring.live(now, i) {
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: &k.private.PublicKey, KeyID: k.id, Algorithm: string(jose.ES256),
				Use: "sig"})
		}
	}
	return set, nil
}

// NewKey is a key that a rotation added.
type NewKey struct {
	// ID is the key's kid.
	ID string
	// From is when the key begins to sign.
	From time.Time
}

// ErrRotating means that the key of the last rotation does not sign yet.
var ErrRotating = errors.New("a rotation is in progress: its key does not sign yet")

// Rotate adds a key that signs access tokens once it has been published for long enough. The key before it verifies
// until its tokens have expired, and a later rotation removes it. Rotate returns ErrRotating while the last key does
// not sign yet.
//
// With compromised set, Rotate removes all other keys, and the new one signs immediately. Every existing access token
// becomes invalid within signingKeyCache, and clients refresh theirs. During that time a node may reject the first
// tokens of another.
func (s *Service) Rotate(ctx context.Context, actor access.Principal,
	compromised bool) (NewKey, error) {
	team, err := s.team.TeamOf(ctx, actor)
	if err != nil {
		return NewKey{}, err
	}
	now := s.clock.Now()
	from := now
	if !compromised {
		from = now.Add(signingKeyLead)
	}
	fresh, err := s.sealedSigningKey(from)
	if err != nil {
		return NewKey{}, err
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := installation.Lock(ctx, tx, s.db); err != nil {
			return err
		}
		stored, err := readSigningKeys(ctx, tx)
		if err != nil {
			return err
		}
		gone := make([]string, 0, len(stored))
		if compromised {
			for _, k := range stored {
				gone = append(gone, k.id)
			}
		} else {
			ring, err := s.openSigningKeys(stored)
			if err != nil {
				return err
			}
			if now.Before(ring[len(ring)-1].from) {
				return ErrRotating
			}
			gone = ring.expired(now)
		}
		if err := deleteSigningKeys(ctx, tx, gone); err != nil {
			return err
		}
		if err := insertSigningKey(ctx, tx, fresh, now); err != nil {
			return err
		}
		return audit.Record(ctx, tx, now, audit.Event{
			Team: team, Actor: actor, Action: "signing_key.rotate", TargetType: "signing_key", TargetID: fresh.id,
			Details: audit.State{"signs_from_ms": fresh.fromMillis, "compromised": compromised, "removed": gone},
		})
	})
	return NewKey{ID: fresh.id, From: from}, err
}
