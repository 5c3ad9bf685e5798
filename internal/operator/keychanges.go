package operator

import (
	"context"
	"time"

	"sallyport/internal/identity/apikeys"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/platform/secretbox"
)

// MaxKeyOverlap is how long the old secret of a rotated API key works at most.
const MaxKeyOverlap = apikeys.MaxOverlap

// KeyUpdate is a change of an API key from the command line; nil keeps a field.
type KeyUpdate struct {
	Name *string
	// Lifetime is how long the key works from now on.
	Lifetime *time.Duration
	// SourceCIDRs are networks in CIDR notation; a pointer to nil stands for all.
	SourceCIDRs *[]string
	// Rate is the limit of the key's requests; a pointer to nil stands for that of the service.
	Rate **ratelimit.Limit
}

// Key returns an API key, with its state at the time given.
func (s *Store) Key(ctx context.Context, now time.Time, keyID string) (Key, error) {
	k, err := s.Identity.Keys.GetKey(ctx, commandLine(), keyID)
	return s.named(ctx, now, k, err)
}

// UpdateKey changes an API key and returns it.
func (s *Store) UpdateKey(ctx context.Context, now time.Time, keyID string, u KeyUpdate) (Key, error) {
	change := apikeys.KeyChange{Name: u.Name, SourceCIDRs: u.SourceCIDRs, Rate: u.Rate}
	if u.Lifetime != nil {
		change.ExpiresMillis = new(clock.Millis(now.Add(*u.Lifetime)))
	}
	k, err := s.Identity.Keys.UpdateKey(ctx, commandLine(), keyID, change)
	return s.named(ctx, now, k, err)
}

// RotateKey gives an API key another secret and returns it with its new text, which cannot be had again. The old text
// works for the overlap.
func (s *Store) RotateKey(ctx context.Context, now time.Time, keyID string,
	overlap time.Duration) (Key, secretbox.Secret, error) {
	k, text, err := s.Identity.Keys.RotateKey(ctx, commandLine(), keyID, overlap)
	out, err := s.named(ctx, now, k, err)
	return out, text, err
}

// DisableKey has an API key refused until EnableKey.
func (s *Store) DisableKey(ctx context.Context, now time.Time, keyID string) (Key, error) {
	k, err := s.Identity.Keys.DisableKey(ctx, commandLine(), keyID)
	return s.named(ctx, now, k, err)
}

// EnableKey lets a disabled API key work again.
func (s *Store) EnableKey(ctx context.Context, now time.Time, keyID string) (Key, error) {
	k, err := s.Identity.Keys.EnableKey(ctx, commandLine(), keyID)
	return s.named(ctx, now, k, err)
}

// RevokeKey ends an API key permanently. A server that is running refuses it within seconds.
func (s *Store) RevokeKey(ctx context.Context, now time.Time, keyID string) (Key, error) {
	k, err := s.Identity.Keys.RevokeKey(ctx, commandLine(), keyID)
	return s.named(ctx, now, k, err)
}

// named adds the name of the key's environment.
func (s *Store) named(ctx context.Context, now time.Time, k apikeys.Key, err error) (Key, error) {
	if err != nil {
		return Key{}, err
	}
	names, err := s.environmentNames(ctx)
	return keyOf(k, names[k.Environment], now), err
}

// Verification describes a text, in the form of the API.
type Verification struct {
	Valid bool `json:"valid"`
	// Generation is current or previous; nil where the text is no key.
	Generation *string `json:"generation"`
	Match      *Key    `json:"match"`
}

// VerifyKey says whether a text is an API key that works, and which.
func (s *Store) VerifyKey(ctx context.Context, now time.Time, text secretbox.Secret) (Verification, error) {
	v, err := s.Identity.Keys.VerifyKey(ctx, commandLine(), text)
	if err != nil || v.Key == nil {
		return Verification{}, err
	}
	k, err := s.named(ctx, now, *v.Key, nil)
	out := Verification{Valid: v.Works, Generation: new("current"), Match: &k}
	if v.Previous {
		*out.Generation = "previous"
	}
	return out, err
}

// UsageRow is how many requests with a key that needed a route ended how, in one length of time.
type UsageRow struct {
	Start    httpapi.Time       `json:"start"`
	Route    access.Route       `json:"route"`
	Outcome  apikeys.UseOutcome `json:"outcome"`
	Requests int64              `json:"requests"`
}

// UsageRange selects the usage to show.
type UsageRange struct {
	// Without To it ends now, without From it begins a day or thirty days before its end, by the bucket.
	From, To *time.Time
	// Bucket is hour or day.
	Bucket string
}

// KeyUsage returns how an API key was used, oldest first.
func (s *Store) KeyUsage(ctx context.Context, keyID string, r UsageRange) ([]UsageRow, error) {
	u, err := s.Identity.Keys.KeyUsage(ctx, commandLine(), keyID, apikeys.UsageRequest{From: r.From, To: r.To,
		Bucket: apikeys.UsageBucket(r.Bucket)})
	if err != nil {
		return nil, err
	}
	out := []UsageRow{}
	for _, p := range u.Parts {
		for _, c := range p.Counts {
			out = append(out, UsageRow{httpapi.TimeMillis(p.StartMillis), c.Route, c.Outcome, c.Requests})
		}
	}
	return out, nil
}
