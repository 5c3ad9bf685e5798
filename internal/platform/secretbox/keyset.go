package secretbox

import (
	"bytes"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/aead/aesgcm"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/insecuresecretdataaccess"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// KeyInfo describes one key of a keyset, without its material.
type KeyInfo struct {
	// ID is Tink's key id, with which every ciphertext of the key begins.
	ID uint32 `json:"id"`
	// Primary reports whether the key seals; one key does.
	Primary bool `json:"primary"`
	// Status is "enabled" or "disabled"; a disabled key opens nothing.
	Status string `json:"status"`
}

// keys is the immutable content of a keyset.
type keys struct {
	aead    tink.AEAD
	primary uint32
	enabled map[uint32]struct{}
}

// newHandle returns a keyset with one new AES-256-GCM key.
func newHandle() (*keyset.Handle, error) {
	h, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("secretbox: make key: %w", err)
	}
	return h, nil
}

// withNewKey returns the keyset with a new key, which becomes the primary one if primary is set.
func withNewKey(h *keyset.Handle, primary bool) (*keyset.Handle, uint32, error) {
	m := keyset.NewManagerFromHandle(h)
	id, err := m.Add(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, 0, fmt.Errorf("secretbox: make key: %w", err)
	}
	if primary {
		if err := m.SetPrimary(id); err != nil {
			return nil, 0, fmt.Errorf("secretbox: set primary key: %w", err)
		}
	}
	next, err := m.Handle()
	if err != nil {
		return nil, 0, fmt.Errorf("secretbox: assemble keyset: %w", err)
	}
	return next, id, nil
}

// withPrimary returns the keyset with another primary key.
func withPrimary(h *keyset.Handle, key uint32) (*keyset.Handle, uint32, error) {
	m := keyset.NewManagerFromHandle(h)
	if !contains(h, key) {
		return nil, 0, fmt.Errorf("secretbox: key %d: %w", key, ErrNoKey)
	}
	if err := m.SetPrimary(key); err != nil {
		return nil, 0, fmt.Errorf("secretbox: set primary key: %w", err)
	}
	next, err := m.Handle()
	if err != nil {
		return nil, 0, fmt.Errorf("secretbox: assemble keyset: %w", err)
	}
	return next, key, nil
}

// withoutKey returns the keyset without a key that is not the primary one.
func withoutKey(h *keyset.Handle, key uint32) (*keyset.Handle, error) {
	if !contains(h, key) {
		return nil, fmt.Errorf("secretbox: key %d: %w", key, ErrNoKey)
	}
	for _, k := range keyInfos(h) {
		if k.ID == key && k.Primary {
			return nil, fmt.Errorf("secretbox: key %d: %w", key, ErrPrimary)
		}
	}
	m := keyset.NewManagerFromHandle(h)
	if err := m.Delete(key); err != nil {
		return nil, fmt.Errorf("secretbox: delete key: %w", err)
	}
	next, err := m.Handle()
	if err != nil {
		return nil, fmt.Errorf("secretbox: assemble keyset: %w", err)
	}
	return next, nil
}

func contains(h *keyset.Handle, key uint32) bool {
	for _, k := range keyInfos(h) {
		if k.ID == key {
			return true
		}
	}
	return false
}

// encodeHandle returns Tink's JSON form of the keyset, which contains the keys in clear.
func encodeHandle(h *keyset.Handle) ([]byte, error) {
	var b bytes.Buffer
	if err := insecurecleartextkeyset.Write(h, keyset.NewJSONWriter(&b)); err != nil {
		return nil, fmt.Errorf("secretbox: encode keyset: %w", err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// decodeHandle parses and checks a keyset. It hides Tink's own errors, because some quote the input, which is a
// secret.
func decodeHandle(b []byte) (*keyset.Handle, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrKeyset)
	}
	h, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(b)))
	if err != nil {
		return nil, fmt.Errorf("%w: it is not a Tink keyset in JSON with at least one enabled primary key", ErrKeyset)
	}
	for i := range h.Len() {
		e, err := h.Entry(i)
		if err != nil {
			return nil, fmt.Errorf("%w: key %d cannot be read", ErrKeyset, i)
		}
		if err := checkEntry(e); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// checkEntry refuses keys that are not random AES-256-GCM keys with Tink's prefix. Without the prefix a ciphertext
// would not name its key, and a rotation could not find the values to seal again.
func checkEntry(e *keyset.Entry) error {
	k, ok := e.Key().(*aesgcm.Key)
	if !ok {
		return fmt.Errorf("%w: key %d is not of type AES-GCM", ErrKeyset, e.KeyID())
	}
	p, ok := k.Parameters().(*aesgcm.Parameters)
	if !ok || p.KeySizeInBytes() != 32 || p.Variant() != aesgcm.VariantTink {
		return fmt.Errorf("%w: key %d is not AES-256-GCM with the TINK output prefix", ErrKeyset, e.KeyID())
	}
	material := k.KeyBytes()
	raw := material.Data(insecuresecretdataaccess.Token{})
	if bytes.Count(raw, raw[:1]) == len(raw) {
		return fmt.Errorf("%w: key %d is a placeholder, not a random key", ErrKeyset, e.KeyID())
	}
	return nil
}

// newKeys returns the keys of a checked keyset.
func newKeys(h *keyset.Handle) (*keys, error) {
	a, err := aead.New(h)
	if err != nil {
		return nil, fmt.Errorf("%w: it gives no AEAD", ErrKeyset)
	}
	k := &keys{aead: a, enabled: map[uint32]struct{}{}}
	for _, info := range keyInfos(h) {
		if info.Primary {
			k.primary = info.ID
		}
		if info.Status == statusEnabled {
			k.enabled[info.ID] = struct{}{}
		}
	}
	return k, nil
}

const (
	statusEnabled  = "enabled"
	statusDisabled = "disabled"
)

// keyInfos lists the keys in the order of the file.
func keyInfos(h *keyset.Handle) []KeyInfo {
	out := make([]KeyInfo, 0, h.Len())
	for i := range h.Len() {
		e, err := h.Entry(i)
		if err != nil {
			continue // decodeHandle read every entry
		}
		status := statusDisabled
		if e.KeyStatus() == keyset.Enabled {
			status = statusEnabled
		}
		out = append(out, KeyInfo{ID: e.KeyID(), Primary: e.IsPrimary(), Status: status})
	}
	return out
}
