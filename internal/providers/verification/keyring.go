package verification

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Limits on keys that are fetched.
const (
	// MaxKeyBytes limits a response with keys.
	MaxKeyBytes = 64 << 10
	// KeyTimeout bounds one fetch.
	KeyTimeout    = 5 * time.Second
	maxKeys       = 64   // of one source
	maxKeySources = 1024 // of one Keyring
	// refreshGap is how long keys are not asked for again although a webhook names one that is not known.
	refreshGap = time.Minute
	// retryGap is how long after a failure they are not.
	retryGap = 10 * time.Second
	// maxSingleFetches limits, for each connection and refreshGap, the fetches from a source that returns one key at a
	// time, because the sender of a webhook chooses the names of keys.
	maxSingleFetches = 10
)

// KeyRequest is a request for keys.
type KeyRequest struct {
	// URL is https.
	URL string
	// Body is sent by POST as application/json; without one the method is GET.
	Body []byte
}

// KeyFetcher fetches keys from providers. It returns the body of a response with status 200 and an error for any other,
// follows no redirect, applies the address policy of outgoing requests, and stops after MaxKeyBytes or when the context
// ends.
type KeyFetcher interface {
	FetchKeys(ctx context.Context, r KeyRequest) ([]byte, error)
}

// Keyring caches the keys that providers publish, for all connections together. Keys are fetched when a webhook needs
// them, one fetch at a time for each source, or for each key of a source that returns one at a time. They are fetched
// again when they are older than the declaration allows, or when a webhook names an unknown key. Old keys stay valid
// while the provider cannot be reached. Anyone can name unknown keys to a connection, so the connections and
// environments have shares of the fetches. It is safe for concurrent use.
type Keyring struct {
	fetcher KeyFetcher
	mu      sync.Mutex
	sources map[string]*sourceKeys
	flights keyFlights
}

// NewKeyring returns an empty Keyring.
func NewKeyring(f KeyFetcher) *Keyring {
	return &Keyring{fetcher: f, sources: map[string]*sourceKeys{}, flights: newKeyFlights()}
}

// fetchedKey is a key with what its publisher says of it.
type fetchedKey struct {
	id        string
	algorithm string // of RFC 7518, where the publisher says so
	public    crypto.PublicKey
	// notBefore and notAfter are a certificate's, and notAfter is that of a key that expires; zero for other keys.
	notBefore, notAfter time.Time
	fetched             time.Time
}

// keySource is where keys come from.
type keySource struct {
	// id distinguishes sources.
	id string
	// single is true for a source that returns one key by its name; otherwise it returns all keys.
	single  bool
	ttl     time.Duration
	request func(keyID string) KeyRequest
	parse   func(response []byte, keyID string, now time.Time) ([]fetchedKey, error)
}

// sourceKeys are the keys of one source.
type sourceKeys struct {
	keys []fetchedKey
	// flights holds, for each fetch in progress, a channel that is closed when it has ended: by the id of the key, which
	// is empty for a source of all keys.
	flights   map[string]chan struct{}
	attempted time.Time
	failed    bool
	ok        bool // fetched once at least
	// asked counts the fetches for each connection.
	asked map[KeyOwner]fetches
}

// fetches counts those since a time.
type fetches struct {
	since time.Time
	n     int
}

var (
	// errKeyUnknown: the source does not have the key.
	errKeyUnknown = errors.New("the key is not among those that the provider publishes")
	// errKeysUnavailable: the source could not be asked.
	errKeysUnavailable = errors.New("the provider's keys cannot be fetched")
)

// find returns the keys of a source that have an id, or all of them without one, for a webhook of a connection.
func (k *Keyring) find(ctx context.Context, now time.Time, src *keySource, owner KeyOwner,
	keyID string) ([]fetchedKey, error) {
	if k == nil {
		return nil, errKeysUnavailable
	}
	flightID := ""
	if src.single {
		flightID = keyID
	}
	for fetched := false; ; {
		k.mu.Lock()
		entry := k.entry(src.id)
		found, fresh := entry.lookup(src, keyID, now)
		flight := entry.flights[flightID]
		wait := flight != nil && !fetched
		if flight == nil && !fresh && !fetched && entry.mayFetch(src, owner, now) && k.flights.begin(owner) {
			flight, wait = k.fetch(ctx, now, src, entry, owner, keyID, flightID), true
		}
		fetched = fetched || wait
		// A source of single keys that was not asked for this one says nothing of it, and strangers can see to that by asking
		// for others.
		known := entry.ok && !entry.failed && !src.single
		k.mu.Unlock()
		switch {
		case len(found) > 0: // also while older ones are being replaced: no request waits for that
			return found, nil
		case !wait:
			if known {
				return nil, errKeyUnknown
			}
			return nil, errKeysUnavailable
		}
		select {
		case <-flight:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", errKeysUnavailable, ctx.Err())
		}
	}
}

// entry returns the keys of a source; when there are too many sources the one asked longest ago gives way.
func (k *Keyring) entry(id string) *sourceKeys {
	if e, ok := k.sources[id]; ok {
		return e
	}
	if len(k.sources) >= maxKeySources {
		oldest := ""
		for name, e := range k.sources {
			if len(e.flights) == 0 && (oldest == "" || e.attempted.Before(k.sources[oldest].attempted)) {
				oldest = name
			}
		}
		delete(k.sources, oldest)
	}
	e := &sourceKeys{flights: map[string]chan struct{}{}, asked: map[KeyOwner]fetches{}}
	k.sources[id] = e
	return e
}

// lookup returns the keys with an id, and whether they need no refresh.
func (e *sourceKeys) lookup(src *keySource, keyID string, now time.Time) (found []fetchedKey, fresh bool) {
	fresh = true
	for _, key := range e.keys {
		if keyID == "" || key.id == keyID {
			found = append(found, key)
			fresh = fresh && now.Sub(key.fetched) < src.ttl
		}
	}
	return found, fresh && len(found) > 0
}

// mayFetch reports whether the source may be asked now for a connection. Unknown keys that strangers name to one
// connection keep the others from nothing.
func (e *sourceKeys) mayFetch(src *keySource, owner KeyOwner, now time.Time) bool {
	own := e.asked[owner]
	again := now.Sub(own.since) >= refreshGap
	switch {
	case e.attempted.IsZero():
		return true
	case src.single:
		return again || own.n < maxSingleFetches
	default:
		return now.Sub(e.attempted) >= retryGap && (e.failed || again)
	}
}

// count counts a fetch for a connection.
func (e *sourceKeys) count(owner KeyOwner, now time.Time) {
	e.attempted = now
	own := e.asked[owner]
	if now.Sub(own.since) >= refreshGap {
		for other, f := range e.asked {
			if now.Sub(f.since) >= refreshGap {
				delete(e.asked, other)
			}
		}
		own = fetches{since: now}
	}
	own.n++
	e.asked[owner] = own
}

// fetch starts a fetch, which goes on when the webhook that needs it is gone. The Keyring is locked.
func (k *Keyring) fetch(ctx context.Context, now time.Time, src *keySource, e *sourceKeys, owner KeyOwner, keyID,
	flightID string) chan struct{} {
	done := make(chan struct{})
	e.flights[flightID] = done
	e.count(owner, now)
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), KeyTimeout)
		defer cancel()
		keys, err := k.ask(ctx, now, src, keyID)
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(e.flights, flightID)
		k.flights.end(owner)
		if e.failed = err != nil; err == nil {
			e.ok = true
			e.keep(src, keyID, keys)
		}
	}()
	return done
}

func (k *Keyring) ask(ctx context.Context, now time.Time, src *keySource, keyID string) ([]fetchedKey, error) {
	response, err := k.fetcher.FetchKeys(ctx, src.request(keyID))
	if err != nil {
		return nil, fmt.Errorf("fetch keys: %w", err)
	}
	if len(response) > MaxKeyBytes {
		return nil, fmt.Errorf("fetch keys: the response is larger than %d bytes", MaxKeyBytes)
	}
	keys, err := src.parse(response, keyID, now)
	if err != nil {
		return nil, err
	}
	for i := range keys {
		keys[i].fetched = now
	}
	return keys, nil
}

// keep replaces all keys, or one of them.
func (e *sourceKeys) keep(src *keySource, keyID string, keys []fetchedKey) {
	if !src.single {
		e.keys = keys
		return
	}
	e.keys = slices.DeleteFunc(e.keys, func(key fetchedKey) bool { return key.id == keyID })
	if room := maxKeys - len(keys); len(e.keys) > room {
		e.keys = e.keys[len(e.keys)-room:]
	}
	e.keys = append(e.keys, keys...)
}
