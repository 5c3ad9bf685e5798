package secretbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/internal/platform/clock"
)

// checkInterval is the longest time for which a Box seals with a primary key that another process has replaced.
const checkInterval = 5 * time.Second

const (
	tinkStartByte  = 0x01
	tinkPrefixSize = 5
)

// retiredLife is for how long a Box opens values with a key that was removed from the file. Caches of sealed values
// follow Changes, which takes some seconds.
const retiredLife = time.Minute

type retired struct {
	keys  *keys
	until time.Time
}

// Source is the location of a keyset: a file, or the JSON text of an environment variable. Exactly one is set.
type Source struct {
	// Path is a file that only its owner can read, in Tink's JSON form.
	Path string
	// Inline is the JSON text. An inline keyset does not change while the process runs.
	Inline Secret
}

// Option configures a Box.
type Option func(*Box)

// WithClock sets the clock for the checks of the keyset file. The default is the system clock.
func WithClock(c clock.Clock) Option { return func(b *Box) { b.clock = c } }

// WithLogger sets the logger for a keyset file that can no longer be read. The default discards the message.
func WithLogger(l *slog.Logger) Option { return func(b *Box) { b.log = l } }

// WithColumns makes Seal refuse values of other columns, so that no column is forgotten where values are sealed again.
// The default allows all.
func WithColumns(columns []Column) Option {
	return func(b *Box) {
		b.columns = map[[2]string]bool{}
		for _, c := range columns {
			b.columns[[2]string{c.Table, c.Column}] = true
		}
	}
}

// Box seals and opens values with one keyset. It follows rotations by other processes: it checks the file before it
// seals, at most every five seconds, and reads it again to open a value of an unknown key. It is safe for concurrent
// use.
type Box struct {
	path  string
	clock clock.Clock
	log   *slog.Logger
	// columns are the tables and columns that Seal takes values of; nil means all.
	columns map[[2]string]bool

	keys      atomic.Pointer[keys]
	checkedAt atomic.Int64 // time of the last check of the file, in Unix milliseconds

	// retired are the keys before the last change of the file that removed one, and until when they open values: some are
	// still in memory.
	retired atomic.Pointer[retired]
	// changes counts how often the file was read with other keys.
	changes atomic.Int64

	mu   sync.Mutex  // guards info and serialises reads of the file
	info fs.FileInfo // the file as last read; nil for an inline keyset
}

// Open returns the Box of the keyset at src. It returns ErrPermissions for a file that group or others can read, and
// ErrKeyset for a keyset that is empty or has other keys than AES-256-GCM.
func Open(src Source, opts ...Option) (*Box, error) {
	b := &Box{path: src.Path, clock: clock.System(), log: slog.New(slog.DiscardHandler)}
	for _, o := range opts {
		o(b)
	}
	switch {
	case src.Path != "" && src.Inline != "":
		return nil, fmt.Errorf("secretbox: %w: give a file or an inline keyset, not both", ErrKeyset)
	case src.Path == "" && src.Inline == "":
		return nil, fmt.Errorf("secretbox: %w: no file and no inline keyset given", ErrKeyset)
	case src.Path != "":
		b.mu.Lock()
		defer b.mu.Unlock()
		if err := b.read(); err != nil {
			return nil, err
		}
	default:
		h, err := decodeHandle([]byte(src.Inline.Reveal()))
		if err != nil {
			return nil, fmt.Errorf("secretbox: inline keyset: %w", err)
		}
		k, err := newKeys(h)
		if err != nil {
			return nil, fmt.Errorf("secretbox: inline keyset: %w", err)
		}
		b.keys.Store(k)
	}
	b.checkedAt.Store(clock.Millis(b.clock.Now()))
	return b, nil
}

// Seal encrypts plaintext with the primary key and binds it to ad. The result is 33 bytes longer than plaintext.
func (b *Box) Seal(plaintext []byte, ad AD) ([]byte, error) {
	associated, err := ad.encode()
	if err != nil {
		return nil, err
	}
	if b.columns != nil && !b.columns[[2]string{ad.Table, ad.Column}] {
		return nil, fmt.Errorf("secretbox: seal %s: %w", ad.place(), errUndeclared)
	}
	b.follow()
	out, err := b.keys.Load().aead.Encrypt(plaintext, associated)
	if err != nil {
		return nil, fmt.Errorf("secretbox: seal %s: %w", ad.place(), err)
	}
	return out, nil
}

// Open decrypts a result of Seal with the same ad. It returns ErrUnknownKey for a ciphertext whose key is not in the
// keyset, and ErrDecrypt for one that was changed or moved.
func (b *Box) Open(ciphertext []byte, ad AD) ([]byte, error) {
	associated, err := ad.encode()
	if err != nil {
		return nil, err
	}
	id, ok := KeyID(ciphertext)
	if !ok {
		return nil, fmt.Errorf("secretbox: open %s: %w", ad.place(), ErrDecrypt)
	}
	k := b.keys.Load()
	if !hasKey(k, id) {
		if k, err = b.readFor(id); err != nil {
			return nil, fmt.Errorf("secretbox: open %s: %w", ad.place(), err)
		}
	}
	out, err := k.aead.Decrypt(ciphertext, associated)
	if err != nil {
		return nil, fmt.Errorf("secretbox: open %s: %w", ad.place(), ErrDecrypt)
	}
	return out, nil
}

// PrimaryKeyID returns the id of the key that the next Seal uses.
func (b *Box) PrimaryKeyID() uint32 {
	b.follow()
	return b.keys.Load().primary
}

// KeyID returns the id of the key of a ciphertext, from Tink's prefix: one byte 0x01, then the id, big-endian (Tink
// wire format, "TINK" output prefix). It reports false if the bytes cannot be a result of Seal.
func KeyID(ciphertext []byte) (uint32, bool) {
	if len(ciphertext) < tinkPrefixSize || ciphertext[0] != tinkStartByte {
		return 0, false
	}
	return binary.BigEndian.Uint32(ciphertext[1:tinkPrefixSize]), true
}

// follow reads the keyset file again if it has changed, at most once per checkInterval. It logs a file that cannot be
// read and keeps the present keys: sealing must not stop because of work on the disk.
func (b *Box) follow() {
	if b.path == "" {
		return
	}
	now, last := clock.Millis(b.clock.Now()), b.checkedAt.Load()
	if now-last < checkInterval.Milliseconds() || !b.checkedAt.CompareAndSwap(last, now) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	info, err := os.Stat(b.path)
	if err == nil && sameFile(info, b.info) {
		return
	}
	if err == nil {
		err = b.read()
	}
	if err != nil {
		b.log.Error("cannot read the keyset file; the present keys stay in use", slog.String("error", err.Error()))
	}
}

// readFor reads the keyset file once for a key that is not known yet.
func (b *Box) readFor(id uint32) (*keys, error) {
	if b.path == "" {
		return nil, ErrUnknownKey
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// Another caller may have read it in the meantime.
	if k := b.known(id); k != nil {
		return k, nil
	}
	if err := b.read(); err != nil {
		return nil, errors.Join(ErrUnknownKey, err)
	}
	if k := b.known(id); k != nil {
		return k, nil
	}
	return nil, ErrUnknownKey
}

// known returns the keys that have the key, those that were retired lately included, or nil.
func (b *Box) known(id uint32) *keys {
	if k := b.keys.Load(); hasKey(k, id) {
		return k
	}
	if r := b.retired.Load(); r != nil && hasKey(r.keys, id) && b.clock.Now().Before(r.until) {
		return r.keys
	}
	return nil
}

// Changes returns a number that grows when the keyset file has other keys. Sealed values that were kept in memory
// before are to be read from the database again, within a minute: their key may have been removed.
func (b *Box) Changes() int64 {
	b.follow()
	return b.changes.Load()
}

func hasKey(k *keys, id uint32) bool {
	_, ok := k.enabled[id]
	return ok
}

// read loads the keys from the file. The caller holds mu.
func (b *Box) read() error {
	h, info, err := readFile(b.path)
	if err != nil {
		return err
	}
	k, err := newKeys(h)
	if err != nil {
		return fmt.Errorf("secretbox: open %s: %w", b.path, err)
	}
	b.info = info
	if before := b.keys.Load(); before != nil && !maps.Equal(before.enabled, k.enabled) {
		b.retired.Store(&retired{before, b.clock.Now().Add(retiredLife)})
		b.changes.Add(1)
	}
	b.keys.Store(k)
	return nil
}

// sameFile reports whether two checks found the same content, as far as the file system shows.
func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
