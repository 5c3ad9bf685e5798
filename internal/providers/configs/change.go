package configs

import (
	"slices"

	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
)

// Change holds the fields of a provider configuration that a caller may write.
type Change struct {
	DisplayName patch.Field[string]
	// ClientID, ClientSecret, PrivateKey, KeyID and ClientHosts are the OAuth client. Clearing ClientID clears the others,
	// and clearing PrivateKey clears KeyID.
	ClientID     patch.Field[string]
	ClientSecret patch.Field[secretbox.Secret]
	PrivateKey   patch.Field[secretbox.Secret]
	KeyID        patch.Field[string]
	ClientHosts  patch.Field[[]string]
	Scopes       patch.Field[[]string]
	BaseURL      patch.Field[string]
	RateLimit    patch.Field[RateLimitChange]
	Include      patch.Field[[]string]
	Exclude      patch.Field[[]string]
	Risk         patch.Field[[]RiskOverride]
}

// RateLimitChange is a change of a rate limit, member by member.
type RateLimitChange struct {
	Requests   patch.Optional[int64]
	PerSeconds patch.Optional[int64]
}

// NewConfig describes a provider configuration to create.
type NewConfig struct {
	// Key is nil for the provider's slug.
	Key      *string
	Provider string
	Change
}

// apply returns c as the change leaves it, apart from the secrets, which seal stores.
func (ch *Change) apply(c Config) Config {
	c.DisplayName = ch.DisplayName.Or(c.DisplayName, "")
	c.ClientID = ch.ClientID.Or(c.ClientID, "")
	if c.KeyID = ch.KeyID.Or(c.KeyID, ""); !ch.KeyID.Given() && (ch.clears() || ch.PrivateKey.Set && ch.PrivateKey.Null) {
		c.KeyID = ""
	}
	if hosts := ch.ClientHosts.Or(c.ClientHosts, nil); ch.clears() || len(hosts) == 0 {
		c.ClientHosts = nil
	} else {
		c.ClientHosts = slices.Sorted(slices.Values(hosts))
	}
	c.Scopes = ch.Scopes.Or(c.Scopes, nil)
	c.BaseURL = ch.BaseURL.Or(c.BaseURL, "")
	c.Include, c.Exclude = listOr(ch.Include, c.Include), listOr(ch.Exclude, c.Exclude)
	c.Risk = listOr(ch.Risk, c.Risk)
	switch r := ch.RateLimit; {
	case r.Null:
		c.RateLimit = nil
	case r.Set:
		var next RateLimit
		if c.RateLimit != nil {
			next = *c.RateLimit
		}
		next.Requests = r.Value.Requests.Or(next.Requests)
		next.PerSeconds = r.Value.PerSeconds.Or(next.PerSeconds)
		c.RateLimit = &next
	}
	return c
}

// listOr returns the list that a change leaves; nil for an empty one.
func listOr[T any](change patch.Field[[]T], list []T) []T {
	if list = change.Or(list, nil); len(list) == 0 {
		return nil
	}
	return list
}

// clears reports whether the change leaves no OAuth client.
func (ch *Change) clears() bool { return ch.ClientID.Set && ch.ClientID.Null }

// touchesClient reports whether the change sets a part of the OAuth client.
func (ch *Change) touchesClient() bool {
	return ch.ClientID.Given() || ch.ClientSecret.Given() || ch.PrivateKey.Given() || ch.KeyID.Given() ||
		ch.ClientHosts.Given()
}
