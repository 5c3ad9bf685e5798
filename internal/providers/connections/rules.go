package connections

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clientaddr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/verification"
)

const maxNameBytes = 255

// validName reports whether s can be a connection's id or alias. A text that looks like a UUID or a path token cannot:
// it could be taken for the other names of a connection.
func validName(s string) bool { return hasNameForm(s) && !isReservedName(s) }

func hasNameForm(s string) bool {
	return len(s) <= maxNameBytes && s != "" && isAlphanumeric(s[0]) && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._:@-", r)
	})
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func isReservedName(s string) bool {
	return id.LooksLikeUUID(s) || strings.HasPrefix(s, id.PrefixPathToken)
}

// checkIdentity returns the provider configuration's key and its provider; the provider is nil when one of them is
// invalid.
func (s *Service) checkIdentity(ctx context.Context, v *apperr.Violations, env id.Environment,
	in *NewConnection) (key string, p *registry.Provider, err error) {
	switch given, same := in.Provider, in.ProviderConfigKey; {
	case given == nil && same == nil:
		v.Add("provider", "required", "the field is required")
	case given != nil && same != nil && *given != *same:
		v.Add("provider_config_key", "equal", "give provider or provider_config_key, or both with the same value")
	case given != nil:
		key = *given
		p, err = s.checkProvider(ctx, v, "provider", env, key)
	default:
		key = *same
		p, err = s.checkProvider(ctx, v, "provider_config_key", env, key)
	}
	if err != nil {
		return "", nil, err
	}
	if in.ConnectionID != nil {
		checkName(v, "connection_id", *in.ConnectionID)
	}
	switch in.OnConflict {
	case "", ConflictError, ConflictUpdate:
	default:
		v.Add("on_conflict", "enum", "must be error or update")
	}
	return key, p, nil
}

// checkProvider returns the provider of a provider configuration; nil if the key is none that a connection can have.
func (s *Service) checkProvider(ctx context.Context, v *apperr.Violations, location string, env id.Environment,
	key string) (*registry.Provider, error) {
	config, ok, err := s.configs.Resolve(ctx, env, key)
	if err != nil {
		return nil, err
	}
	var p *registry.Provider
	if ok {
		p, ok = s.providers.Find(env, config.Provider)
	}
	switch {
	case registry.Reserved(key):
		v.Add(location, "reserved", "the name is reserved")
	case config != nil && !ok:
		v.Add(location, "definition", "the definition of the configuration's provider has been removed")
	case !ok:
		v.Add(location, "exists", noSuchConfig+s.configs.Suggest(ctx, env, key))
	default:
		return p, nil
	}
	return nil, nil //nolint:nilnil // the violation says what is wrong
}

// Explain returns the error of a connection that does not exist, with a suggestion where its provider configuration
// does not exist either and the name is near that of another. Other errors stay what they are.
func Explain(ctx context.Context, s *Service, env id.Environment, key string, err error) error {
	if !apperr.Is(err, apperr.CodeNotFound) || !configs.ValidKey(key) {
		return err
	}
	if _, known, failure := s.configs.Resolve(ctx, env, key); failure != nil || known {
		return err // a suggestion is not worth another error
	}
	question := s.configs.Suggest(ctx, env, key)
	if question == "" {
		return err
	}
	missing := apperr.NotFound("connection")
	missing.Message += ": " + noSuchConfig + question
	return missing
}

const noSuchConfig = "there is no such provider or provider configuration"

func checkName(v *apperr.Violations, location, name string) {
	switch {
	case !hasNameForm(name):
		v.Add(location, "pattern", "must be a letter or digit followed by at most 254 letters, digits and . _ : @ -")
	case isReservedName(name):
		v.Add(location, "reserved", "must not look like a UUID or begin with whk_")
	}
}

// Receives reports whether the provider of a connection sends webhooks that can be verified.
func (s *Service) Receives(c *Connection) bool {
	p, ok := s.providers.Find(c.Environment, c.Provider)
	return ok && p.Webhooks != nil
}

// checkPurpose checks that a new connection is of some use: that it receives webhooks, or that its API can be called.
func checkPurpose(v *apperr.Violations, p *registry.Provider, auth *authChange, ch *Change) {
	if p == nil || p.Webhooks != nil {
		return
	}
	if ch.Secret.Given() {
		v.Add("webhook_secret", "webhooks", "the provider sends no webhooks that this service can verify")
	}
	if ch.Alias.Given() {
		v.Add("webhook.alias", "webhooks", "the provider sends no webhooks that this service can verify")
	}
	if v.Err() == nil && (auth == nil || auth.store == nil) {
		v.Add("credentials", "required", "the provider sends no webhooks, so the connection needs credentials")
	}
}

// proposal is a change and what it leads to.
type proposal struct {
	change *Change
	next   *Connection
	// creating reports that no part of next was accepted before.
	creating bool
	// provider is nil if there is none.
	provider *registry.Provider
	// stored are the secrets that verify webhooks unless the change brings another.
	stored []verification.Secret
}

// check adds every validation error of the proposal.
func (p *proposal) check(v *apperr.Violations) error {
	if alias := p.change.Alias; alias.Set && !alias.Null {
		checkName(v, "webhook.alias", alias.Value)
	}
	checkLimits(v, p.change)
	checkTags(v, p.next.Tags)
	metadata, err := db.EncodeJSON(p.next.Metadata)
	if err != nil {
		return fmt.Errorf("encode metadata: %w", err)
	}
	if len(metadata) > MaxMetadataBytes {
		v.Add("metadata", "max_length", fmt.Sprintf("must be at most %d bytes of compact JSON", MaxMetadataBytes))
	}
	return p.checkVerification(v)
}

func checkLimits(violations *apperr.Violations, ch *Change) {
	between := func(location string, v, low, high int64) {
		switch {
		case v < low:
			violations.Add(location, "minimum", fmt.Sprintf("must be at least %d", low))
		case v > high:
			violations.Add(location, "maximum", fmt.Sprintf("must be at most %d", high))
		}
	}
	if w := ch.DedupeWindowSeconds; w.Set && !w.Null {
		between("webhook.dedupe_window_seconds", w.Value, 0, int64(MaxDedupeWindow.Seconds()))
	}
	if v := ch.MaxBodyBytes; v != nil {
		between("webhook.max_body_bytes", *v, 1, MaxBodyBytes)
	}
	if v := ch.RatePerSecond; v.Set && !v.Null {
		between("webhook.rate_limit_per_second", v.Value, 1, MaxRate)
	}
	if v := ch.Scheme; v.Set && !v.Null && v.Value != SchemeNone {
		violations.Add("webhook.scheme", "enum", "must be none or null")
	}
	if v := ch.URLBase; v.Set && !v.Null && v.Value == "" {
		violations.Add("webhook.url_base", "min_length", "must not be empty; null stands for the service's public URL")
	}
	checkSourceCIDRs(violations, ch.SourceCIDRs.Value)
	if v := ch.SameBodyNewID; v != nil && *v != SameBodyAccept && *v != SameBodyRefuse {
		violations.Add("webhook.same_body_new_id", "enum", "must be accept or refuse")
	}
}

func checkSourceCIDRs(v *apperr.Violations, networks []string) {
	const at = "webhook.source_cidrs"
	if len(networks) > MaxSourceCIDRs {
		v.Add(at, "max_items", fmt.Sprintf("must be at most %d networks", MaxSourceCIDRs))
		return
	}
	for i, text := range networks {
		if _, err := clientaddr.ParseNetwork(text); err != nil {
			v.Add(fmt.Sprintf("%s[%d]", at, i), "format", err.Error())
		}
	}
}

func checkTags(v *apperr.Violations, tags map[string]string) {
	if len(tags) > MaxTags {
		v.Add("tags", "max_properties", fmt.Sprintf("must be at most %d tags", MaxTags))
	}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		switch {
		case !validTagKey(key):
			v.Add("tags", "pattern", "a key must be 1 to 63 of a-z, 0-9 and _ . -")
		case utf8.RuneCountInString(tags[key]) > MaxTagValue:
			v.Add("tags."+key, "max_length", fmt.Sprintf("must be at most %d characters", MaxTagValue))
		}
	}
}

func validTagKey(key string) bool {
	return key != "" && len(key) <= 63 && !strings.ContainsFunc(key, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("_.-", r)
	})
}

// checkVerification checks parameters and secrets against the provider's definition. Settings of earlier changes were
// accepted then and are not checked again.
func (p *proposal) checkVerification(violations *apperr.Violations) error {
	at := "webhook.params"
	secrets := p.stored
	if v := p.change.Secret; v.Set {
		at = "webhook_secret"
		secrets = nil
		if !v.Null && checkSecret(violations, "webhook_secret", v.Value) {
			secrets = []verification.Secret{{ID: "the secret", Value: v.Value}}
		}
	}
	unproved := p.provider != nil && p.provider.Webhooks != nil && p.provider.Webhooks.Unproved()
	if v := p.change.Alias; v.Set && !v.Null && unproved {
		violations.Add("webhook.alias", "coherent", "must not be set: where nothing is proved the path must not be guessed")
	}
	touched := p.creating || p.change.Secret.Set || p.change.Params.Set || p.change.URLBase.Set || p.change.Scheme.Set
	if !touched || p.provider == nil {
		return nil
	}
	if p.provider.Webhooks == nil {
		if wrong := verification.CheckURLBase(p.next.Webhook.URLBase); p.change.URLBase.Set && wrong != "" {
			violations.Add("webhook.url_base", "format", wrong)
		}
		return nil
	}
	engine := p.provider.Webhooks
	if v := p.change.Scheme; v.Set && v.Value == SchemeNone && !unproved {
		violations.Add("webhook.scheme", "coherent", "must not be none: the provider proves its webhooks")
	}
	found, err := bindProblems(engine, p.next.Webhook.settings(secrets))
	for _, problem := range found {
		location := "webhook." + problem.Field
		switch problem.Field {
		case "secret":
			location = at
		case "accept_unverified":
			location, problem.Message = "webhook.scheme",
				`must be "none": nothing proves who sends this provider's webhooks, and a connection that takes them has to `+
					`say so`
		}
		violations.Add(location, problem.Rule, problem.Message)
	}
	return err
}

// settings are the connection's values for its provider's definition.
func (w *WebhookConfig) settings(secrets []verification.Secret) verification.Settings {
	return verification.Settings{Params: w.Params, Secrets: secrets, URLBase: w.URLBase,
		AcceptUnverified: w.Scheme == SchemeNone}
}

// bindProblems returns every problem that the engine finds. It looks at the secret only once all parameters are good,
// so parameters that it does not know are left out for a second look.
func bindProblems(e *verification.Engine, s verification.Settings) ([]verification.Problem, error) {
	known := map[string]string{}
	for _, p := range e.Params() {
		if v, ok := s.Params[p.Name]; ok {
			known[p.Name] = v
		}
	}
	var found []verification.Problem
	for _, params := range []map[string]string{s.Params, known} {
		var config *verification.ConfigError
		s.Params = params
		_, err := e.Bind(s)
		switch {
		case err == nil:
			return found, nil
		case !errors.As(err, &config):
			return nil, fmt.Errorf("check webhook settings: %w", err)
		}
		for _, problem := range config.Problems {
			if !slices.Contains(found, problem) {
				found = append(found, problem)
			}
		}
	}
	return found, nil
}

func checkSecret(violations *apperr.Violations, location string, v secretbox.Secret) bool {
	switch n := len(v.Reveal()); {
	case n == 0:
		violations.Add(location, "min_length", "must not be empty")
	case n > MaxSecretBytes:
		violations.Add(location, "max_length", fmt.Sprintf("must be at most %d bytes", MaxSecretBytes))
	case strings.TrimSpace(v.Reveal()) != v.Reveal():
		violations.Add(location, "pattern",
			"must not begin or end with blanks or line breaks, which are easily copied along with a secret")
	default:
		return true
	}
	return false
}
