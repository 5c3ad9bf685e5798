package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/secretbox"
)

// State is a resource before or after a change, by the names of its fields in the API. Its values can be encoded as
// JSON. Times are shown in the form of clock.WireLayout. Nil means that there was no resource. A secret may occur only
// as a secretbox.Secret or a Hidden. Bytes are an error, because they may be a secret.
type State map[string]any

// Hidden is a field that is compared by its Value and shown as Shown, for what must not be kept in the trail.
type Hidden struct {
	Value, Shown any
}

// MarshalJSON writes what may be shown.
func (h Hidden) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(h.Shown)
	if err != nil {
		return nil, fmt.Errorf("encode what is shown of a hidden field: %w", err)
	}
	return b, nil
}

// Changes is what a change made different: digests of what the resource was and became, and the fields that differ.
type Changes struct {
	// BeforeDigest and AfterDigest are "sha256:" and the hexadecimal SHA-256 of the state as JSON without spaces, with the
	// members of every object sorted and secrets redacted; nil where there was no resource.
	BeforeDigest *string `json:"before_digest"`
	AfterDigest  *string `json:"after_digest"`
	// Diff has the fields that differ, by name.
	Diff map[string]Difference `json:"diff"`
}

// Difference is a field before and after a change, as JSON; nil where the resource did not exist or had no such field.
type Difference struct {
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// Compare returns what is different between two states.
func Compare(before, after State) (Changes, error) {
	was, err := before.encode()
	if err != nil {
		return Changes{}, err
	}
	is, err := after.encode()
	if err != nil {
		return Changes{}, err
	}
	c := Changes{Diff: map[string]Difference{}}
	if c.BeforeDigest, err = digest(was); err != nil {
		return Changes{}, err
	}
	if c.AfterDigest, err = digest(is); err != nil {
		return Changes{}, err
	}
	for field, text := range is {
		if old, ok := was[field]; !ok || !bytes.Equal(old, text) || !sameSecret(before[field], after[field]) {
			c.Diff[field] = Difference{Before: old, After: text}
		}
	}
	for field, text := range was {
		if _, ok := is[field]; !ok {
			c.Diff[field] = Difference{Before: text}
		}
	}
	return c, nil
}

var errBytes = errors.New("an audit event cannot hold bytes")

// encode returns every field in the form that is stored.
func (s State) encode() (map[string]json.RawMessage, error) {
	if s == nil {
		return nil, nil //nolint:nilnil // no resource has no fields, which is not the same as a resource without any
	}
	out := make(map[string]json.RawMessage, len(s))
	for field, v := range s {
		switch is := v.(type) {
		case []byte, json.RawMessage:
			return nil, fmt.Errorf("field %s: %w", field, errBytes)
		case time.Time:
			v = clock.Wire(is)
		}
		text, err := canonical(v)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", field, err)
		}
		out[field] = text
	}
	return out, nil
}

// canonical writes the value without spaces and with the members of every object sorted, regardless of the order in a
// Go struct.
func canonical(v any) (json.RawMessage, error) {
	text, err := marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var plain any
	if err := d.Decode(&plain); err != nil {
		return nil, fmt.Errorf("read back: %w", err)
	}
	return marshal(plain)
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func digest(fields map[string]json.RawMessage) (*string, error) {
	if fields == nil {
		return nil, nil //nolint:nilnil // of no resource there is no digest
	}
	text, err := marshal(fields)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	s := "sha256:" + hex.EncodeToString(sum[:])
	return &s, nil
}

// sameSecret compares what the JSON of two fields does not show.
func sameSecret(before, after any) bool {
	switch b := before.(type) {
	case Hidden:
		a, ok := after.(Hidden)
		return ok && reflect.DeepEqual(b.Value, a.Value)
	case secretbox.Secret:
		a, ok := after.(secretbox.Secret)
		return ok && b == a
	default:
		return true
	}
}
