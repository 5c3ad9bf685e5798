package configs

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/plaintext"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/suggest"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/requestsigning"
)

const maxKeyBytes = 63

// ValidKey reports whether s has the form of a provider configuration's key.
func ValidKey(s string) bool {
	return s != "" && len(s) <= maxKeyBytes && s[0] != '-' && hasKeyCharacters(s)
}

func hasKeyCharacters(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
}

// checkIdentity returns the key of a new configuration and its provider; the provider is nil if one of them is invalid.
func (s *Service) checkIdentity(v *apperr.Violations, env id.Environment, in *NewConfig) (key string,
	p *registry.Provider) {
	p, known := s.providers.Find(env, in.Provider)
	if !known {
		v.Add("provider", "exists", "there is no such provider"+s.suggest(env, in.Provider, nil))
	}
	if key = in.Provider; in.Key == nil {
		return key, p
	}
	key = *in.Key
	other, isSlug := s.providers.Find(env, key)
	switch {
	case !ValidKey(key):
		v.Add("provider_config_key", "pattern",
			"must be a lower-case letter or digit followed by at most 62 lower-case letters, digits and hyphens")
	case registry.Reserved(key):
		v.Add("provider_config_key", "reserved", "the name is reserved")
	case isSlug && other != p:
		v.Add("provider_config_key", "slug", "must not be the slug of another provider")
	default:
		return key, p
	}
	return key, nil
}

// suggest asks for the provider that a name probably means, or for one of the keys.
func (s *Service) suggest(env id.Environment, name string, keys []string) string {
	aliases := map[string]string{}
	for _, p := range s.providers.All(env) {
		keys = append(keys, p.Definition.Slug)
		for _, alias := range p.Definition.Aliases {
			aliases[alias] = p.Definition.Slug
		}
	}
	return suggest.Question(name, keys, aliases)
}

// proposal is a change and the configuration that it leads to.
type proposal struct {
	change *Change
	next   *Config
	// secret and key report whether next has a client secret and a private key.
	secret, key bool
}

// check adds every validation error of the proposal that shows without a look at the provider.
func (p *proposal) check(v *apperr.Violations) {
	ch := p.change
	if f := ch.DisplayName; f.Given() {
		checkText(v, "display_name", f.Value, MaxDisplayName)
	}
	if f := ch.ClientID; f.Given() && (f.Value == "" || len(f.Value) > MaxClientID || !printable(f.Value)) {
		v.Add("oauth.client_id", "pattern", fmt.Sprintf("must be 1 to %d ASCII characters without control characters",
			MaxClientID))
	}
	if f := ch.ClientSecret; f.Given() {
		checkSecret(v, f.Value.Reveal())
	}
	if f := ch.PrivateKey; f.Given() {
		checkPrivateKey(v, f.Value.Reveal())
	}
	if f := ch.KeyID; f.Given() && (f.Value == "" || len(f.Value) > MaxKeyID || !printable(f.Value)) {
		v.Add("oauth.private_key_id", "pattern", fmt.Sprintf("must be 1 to %d ASCII characters without control characters",
			MaxKeyID))
	}
	p.checkClient(v)
	if f := ch.Scopes; f.Given() {
		checkScopes(v, f.Value)
	}
	if f := ch.RateLimit; f.Given() {
		checkRateLimit(v, p.next.RateLimit)
	}
	checkPatterns(v, "actions.include", ch.Include)
	checkPatterns(v, "actions.exclude", ch.Exclude)
	if f := ch.Risk; f.Given() {
		checkOverrides(v, f.Value)
	}
}

// checkClient checks that no part of an OAuth client is without its id.
func (p *proposal) checkClient(v *apperr.Violations) {
	ch := p.change
	if p.next.KeyID != "" && !p.key {
		v.Add("oauth.private_key_id", "coherent", "must be given with a private_key only")
	}
	switch {
	case p.next.ClientID != "" || ch.ClientID.Given():
	case ch.clears() && (ch.ClientSecret.Given() || ch.PrivateKey.Given() || ch.ClientHosts.Given()):
		v.Add("oauth.client_id", "coherent", "must not be cleared together with a new client_secret, private_key or hosts")
	case p.secret || p.key || len(p.next.ClientHosts) > 0:
		v.Add("oauth.client_id", "required", "the field is required with a client_secret, private_key or hosts")
	}
}

// checkMove checks that stored secrets get no further hosts unless they are given again: the right to change a
// configuration is not the right to read its secrets.
func (p *proposal) checkMove(v *apperr.Violations, before *Config) {
	if !slices.ContainsFunc(p.next.ClientHosts, func(host string) bool {
		return !slices.Contains(before.ClientHosts, host)
	}) {
		return
	}
	const message = "must be given again together with further hosts"
	if before.HasSecret() && !p.change.ClientSecret.Set {
		v.Add("oauth.client_secret", "coherent", message)
	}
	if before.HasPrivateKey() && !p.change.PrivateKey.Set {
		v.Add("oauth.private_key", "coherent", message)
	}
}

func checkText(v *apperr.Violations, location, text string, most int) {
	switch {
	case strings.TrimSpace(text) == "":
		v.Add(location, "min_length", "must not be blank")
	case utf8.RuneCountInString(text) > most:
		v.Add(location, "max_length", fmt.Sprintf("must be at most %d characters", most))
	case !utf8.ValidString(text) || strings.ContainsFunc(text, plaintext.IsControl):
		v.Add(location, "pattern", "must not hold control characters")
	}
}

// checkSecret checks a client secret by RFC 6749, appendix A.2.
func checkSecret(v *apperr.Violations, secret string) {
	const at = "oauth.client_secret"
	switch {
	case secret == "" || len(secret) > MaxClientSecret || !printable(secret):
		v.Add(at, "pattern", fmt.Sprintf("must be 1 to %d ASCII characters without control characters", MaxClientSecret))
	case strings.TrimSpace(secret) != secret:
		v.Add(at, "pattern", "must not begin or end with blanks, which are easily copied along with a secret")
	}
}

func checkPrivateKey(v *apperr.Violations, text string) {
	const at = "oauth.private_key"
	switch {
	case len(text) > MaxPrivateKey:
		v.Add(at, "max_length", fmt.Sprintf("must be at most %d bytes", MaxPrivateKey))
	default:
		if _, err := requestsigning.AlgorithmOf(secretbox.Secret(text)); err != nil {
			v.Add(at, "pem", "must be one private key in PEM, without a passphrase: PKCS #8, PKCS #1 or SEC 1; of RSA with "+
				"2048 to 4096 bits, of P-256 or of Ed25519")
		}
	}
}

func checkScopes(v *apperr.Violations, scopes []string) {
	if len(scopes) > MaxScopes {
		v.Add("scopes", "max_items", fmt.Sprintf("must be at most %d scopes", MaxScopes))
		return
	}
	for i, scope := range scopes {
		at := fmt.Sprintf("scopes[%d]", i)
		switch {
		case scope == "" || len(scope) > MaxScope || !isScope(scope):
			v.Add(at, "pattern", "must be a scope of OAuth 2.0: visible ASCII characters other than quotation mark and "+
				"backslash")
		case slices.Contains(scopes[:i], scope):
			v.Add(at, "unique", "must occur only once")
		}
	}
}

// isScope reports whether s has only characters of a scope-token (RFC 6749, section 3.3).
func isScope(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}

func checkRateLimit(v *apperr.Violations, r *RateLimit) {
	for _, f := range []struct {
		name    string
		n, most int64
	}{{"requests", r.Requests, MaxRequests}, {"per_seconds", r.PerSeconds, MaxPerSeconds}} {
		if f.n < 1 || f.n > f.most {
			v.Add("rate_limit."+f.name, "range", fmt.Sprintf("must be 1 to %d", f.most))
		}
	}
}

// printable reports whether s has only characters of RFC 6749's VSCHAR.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// checkProvider adds the errors of settings that the provider's definition has no use for, and of a base URL that leads
// elsewhere. It resolves the name of the URL.
func (s *Service) checkProvider(ctx context.Context, v *apperr.Violations, env id.Environment, slug string,
	ch *Change) {
	if !s.UsesClient(env, slug) {
		const message = "no connection of the provider uses an OAuth client"
		if ch.touchesClient() {
			v.Add("oauth", "mode", message)
		}
		if ch.Scopes.Given() {
			v.Add("scopes", "mode", message)
		}
	}
	if ch.ClientHosts.Given() {
		s.checkClientHosts(v, ch.ClientHosts.Value)
	}
	known, allowed := s.hostsOf(env, slug)
	const message = "the provider has no API here yet"
	if ch.RateLimit.Given() && (!known || !s.rateLimits) {
		v.Add("rate_limit", "api", "no request to the provider obeys a rate limit")
	}
	if !known {
		if ch.BaseURL.Given() {
			v.Add("base_url", "api", message)
		}
		return
	}
	if ch.BaseURL.Given() {
		s.checkBaseURL(ctx, v, ch.BaseURL.Value, allowed)
	}
}

func (s *Service) checkBaseURL(ctx context.Context, v *apperr.Violations, raw string, allowed func(*url.URL) bool) {
	const at = "base_url"
	if len(raw) > MaxBaseURL {
		v.Add(at, "max_length", fmt.Sprintf("must be at most %d bytes", MaxBaseURL))
		return
	}
	u, refused := s.targets.ParseTarget(raw)
	if refused == nil {
		refused = s.targets.CheckTarget(ctx, raw)
	}
	switch {
	case refused != nil:
		v.Add(at, refused.Code, refused.Message)
	case u.RawQuery != "" || u.ForceQuery:
		v.Add(at, "url", "must have no query")
	case strings.HasSuffix(u.EscapedPath(), "/"):
		v.Add(at, "url", "must not end with a slash")
	case !allowed(u):
		v.Add(at, "allowed_hosts", "must lead to a host that the provider's definition allows")
	}
}

// checkClientHosts checks hosts to which the OAuth client may be sent. Their names are not resolved.
func (s *Service) checkClientHosts(v *apperr.Violations, hosts []string) {
	const form = "must be the name of a host in lower case, with its port unless that is 443, and nothing else"
	if len(hosts) > MaxClientHosts {
		v.Add("oauth.hosts", "max_items", fmt.Sprintf("must be at most %d hosts", MaxClientHosts))
		return
	}
	for i, host := range hosts {
		at, raw := fmt.Sprintf("oauth.hosts[%d]", i), host
		if !strings.HasPrefix(host, "http://") {
			raw = "https://" + host
		}
		u, refused := s.targets.ParseTarget(raw)
		switch {
		case refused != nil && refused.Code == egress.CodeURLInvalid:
			v.Add(at, "pattern", form)
		case refused != nil:
			v.Add(at, refused.Code, refused.Message)
		case u.Scheme+"://"+egress.HostKey(u) != raw:
			v.Add(at, "pattern", form)
		case slices.Contains(hosts[:i], host):
			v.Add(at, "unique", "must occur only once")
		}
	}
}

// UsesClient reports whether the definition of the provider has a mode that needs an OAuth client.
func (s *Service) UsesClient(env id.Environment, slug string) bool {
	return s.clients != nil && s.clients.UsesClient(env, slug)
}

// hostsOf returns whether the provider has an API here, and which URLs of it its definition allows.
func (s *Service) hostsOf(env id.Environment, slug string) (known bool, allowed func(*url.URL) bool) {
	if s.hosts == nil {
		return false, nil
	}
	return s.hosts.HostsOf(env, slug)
}

// errGone is the error of a provider that was removed while the request was checked.
func errGone() error {
	return apperr.Invalid(apperr.Detail{Location: "provider", Rule: "exists", Message: "there is no such provider"})
}
