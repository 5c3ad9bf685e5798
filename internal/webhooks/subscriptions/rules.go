package subscriptions

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"
	"unicode/utf8"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/patch"
	"sallyport/internal/webhooks/filters"
)

// Check adds the violations that follow from the change alone, without the stored subscription and the address of the
// URL.
func (ch *Change) Check(v *apperr.Violations) {
	for _, field := range fields(ch, &Subscription{}) {
		if field.check != nil {
			field.check(v)
		}
	}
}

// CheckNew is Check for the creation of a subscription.
func (ch *Change) CheckNew(v *apperr.Violations) {
	if !ch.EventTypes.Set {
		v.Add("event_types", "required", "the field is required")
	}
	if !ch.ForwardURL.Set {
		v.Add("forward_url", "required", "the field is required")
	}
	ch.Check(v)
}

func checkEventTypes(v *apperr.Violations, types []string) {
	switch {
	case len(types) == 0:
		v.Add("", "min_items", "must be at least one pattern")
	case len(types) > MaxPatterns:
		v.Add("", "max_items", fmt.Sprintf("must be at most %d patterns", MaxPatterns))
		return
	}
	for i, t := range types {
		at := fmt.Sprintf("[%d]", i)
		if violation := PatternViolation(t); violation != nil {
			v.Add(at, violation.Rule, violation.Message)
		} else if slices.Contains(types[:i], t) {
			v.Add(at, "unique", "must occur only once")
		}
	}
}

// checkURLForm refuses a URL that no policy permits. The policy then checks its address.
func checkURLForm(v *apperr.Violations, raw string) {
	u, err := url.Parse(raw)
	switch {
	case len(raw) > MaxURLLength:
		v.Add("", egress.CodeURLInvalid, fmt.Sprintf("must be at most %d characters", MaxURLLength))
	case err != nil || u.Host == "":
		v.Add("", egress.CodeURLInvalid, "must be an absolute URL that begins with its scheme, such as "+
			"https://example.com/path")
	case u.Scheme != "https" && u.Scheme != "http":
		v.Add("", egress.CodeSchemeRefused, "must be an https:// URL, or an http:// URL where the server allows that")
	case u.User != nil:
		v.Add("", egress.CodeUserinfoRefused, "must not contain a user name or password; use headers for credentials")
	}
}

func checkSchedule(v *apperr.Violations, schedule []float64) {
	if len(schedule) > MaxRetries {
		v.Add("", "max_items", fmt.Sprintf("must be at most %d numbers", MaxRetries))
		return
	}
	for i, seconds := range schedule {
		at := fmt.Sprintf("[%d]", i)
		switch {
		case seconds < MinRetryDelay:
			v.Add(at, "minimum", fmt.Sprintf("must be at least %g", MinRetryDelay))
		case seconds > MaxRetryDelay:
			v.Add(at, "maximum", fmt.Sprintf("must be at most %.0f", MaxRetryDelay))
		}
	}
}

// checkSecret checks the fields about the signing secret.
func checkSecret(v *apperr.Violations, ch *Change) {
	if ch.SigningSecret.Given() {
		if _, rule, message := signingKey(ch.SigningSecret.Value); rule != "" {
			v.Add("signing_secret", rule, message)
		}
	}
	if !ch.SecretGraceSeconds.Set {
		return
	}
	const at = "secret_grace_seconds"
	seconds := ch.SecretGraceSeconds.Value
	checkRange(v.At(at), seconds, 0, int64(MaxSecretGrace/time.Second))
	if seconds > 0 && seconds <= int64(MaxSecretGrace/time.Second) && !ch.SigningSecret.Set {
		v.Add(at, "coherent", "must be 0 without a new signing_secret; 0 ends the signatures of replaced secrets immediately")
	}
}

func checkRange(violations *apperr.Violations, v, least, most int64) {
	switch {
	case v < least:
		violations.Add("", "minimum", fmt.Sprintf("must be at least %d", least))
	case v > most:
		violations.Add("", "maximum", fmt.Sprintf("must be at most %d", most))
	}
}

func checkPayloadMode(v *apperr.Violations, m PayloadMode) {
	if !slices.Contains(payloadModes(), m) {
		v.Add("", "enum", "must be envelope or raw")
	}
}

func checkFilter(v *apperr.Violations, text string) {
	for _, violation := range filters.Check(text) {
		v.Add("", violation.Rule, violation.Message)
	}
}

func checkDescription(v *apperr.Violations, text string) {
	switch {
	case utf8.RuneCountInString(text) > MaxDescription:
		v.Add("", "max_length", fmt.Sprintf("must be at most %d characters", MaxDescription))
	case !db.Storable(text):
		v.Add("", "pattern", "must not contain the character U+0000")
	}
}

// checkURL adds the violations of the address of the change's URL. It resolves its name.
func (s *Service) checkURL(ctx context.Context, v *apperr.Violations, ch *Change) {
	if !ch.ForwardURL.Set {
		return
	}
	var form apperr.Violations
	if checkURLForm(&form, ch.ForwardURL.Value); form.Err() == nil {
		s.checkTarget(ctx, v, "forward_url", ch.ForwardURL.Value)
	}
}

// checkResult adds the violations of the subscription that the change results in. It reads from q.
func (s *Service) checkResult(ctx context.Context, q db.Querier, v *apperr.Violations, ch *Change,
	next *Subscription) error {
	if len(next.Headers) > MaxHeaders {
		v.Add("headers", "max_properties", fmt.Sprintf("must be at most %d headers", MaxHeaders))
	}
	if ch.Metadata.Set {
		metadata, err := db.EncodeJSON(next.Metadata)
		if err != nil {
			return fmt.Errorf("encode metadata: %w", err)
		}
		if len(metadata) > MaxMetadata {
			v.Add("metadata", "max_length", fmt.Sprintf("must be at most %d bytes of compact JSON", MaxMetadata))
		}
	}
	if ch.EventTypes.Set || ch.ProviderConfigKey.Set {
		if err := s.checkPatterns(ctx, v, next); err != nil {
			return err
		}
	}
	return s.checkScope(ctx, q, v, ch, next.Environment, scope{providerConfigKey: next.ProviderConfigKey,
		connectionID: next.ConnectionID})
}

// checkPatterns checks that each pattern is one in the way of a provider whose events the subscription can get. Those
// that can be none in any way are reported by checkEventTypes.
func (s *Service) checkPatterns(ctx context.Context, v *apperr.Violations, next *Subscription) error {
	provider, err := s.providerOf(ctx, next.Environment, next.ProviderConfigKey)
	if err != nil {
		return err
	}
	for i, text := range next.EventTypes {
		if PatternViolation(text) != nil ||
			len(slotsOf(s.types, []string{text}, scope{provider: provider})) > 0 {
			continue
		}
		if _, violation := parsePattern(text); violation != nil {
			v.Add(fmt.Sprintf("event_types[%d]", i), violation.Rule, violation.Message)
		}
	}
	return nil
}

func (s *Service) checkTarget(ctx context.Context, v *apperr.Violations, location, target string) {
	if to := originOf(target); to != (origin{}) && to == s.own {
		v.Add(location, "forward_loop", "must not lead back to this gateway")
	} else if refused := s.cfg.Targets.CheckTarget(ctx, target); refused != nil {
		v.Add(location, refused.Code, refused.Message)
	}
}

// checkScope checks that the provider configuration and the connection of the subscription exist. Values that the
// change does not touch were accepted when they were stored, and are not checked again.
func (s *Service) checkScope(ctx context.Context, q db.Querier, v *apperr.Violations, ch *Change, env id.Environment,
	to scope) error {
	const keyAt, connectionAt = "provider_config_key", "connection_id"
	empty := func(field patch.Field[string]) bool { return field.Given() && field.Value == "" }
	switch {
	case !ch.ProviderConfigKey.Set && !ch.ConnectionID.Set:
		return nil
	case empty(ch.ProviderConfigKey):
		v.Add(keyAt, "min_length", "must not be empty")
		to.connectionID = ""
	case to.providerConfigKey != "" && to.providerConfigKey != OwnProvider:
		_, exists, err := s.cfg.Configs.ProviderOf(ctx, env, to.providerConfigKey)
		if err != nil {
			return err
		}
		if !exists {
			v.Add(keyAt, "exists", "there is no such provider configuration"+
				s.cfg.Configs.Suggest(ctx, env, to.providerConfigKey))
			to.connectionID = "" // whether it has the connection is unknown
		}
	}
	if empty(ch.ConnectionID) {
		v.Add(connectionAt, "min_length", "must not be empty")
	}
	if to.connectionID == "" {
		return nil
	}
	exists, err := s.connectionExists(ctx, q, env, to)
	switch {
	case err != nil:
		return err
	case exists:
	case ch.ConnectionID.Set && to.providerConfigKey == "":
		v.Add(connectionAt, "exists", "there is no such connection")
	case ch.ConnectionID.Set:
		v.Add(connectionAt, "exists", "there is no such connection under this provider configuration")
	case to.providerConfigKey != "":
		v.Add(keyAt, "exists", "the subscription's connection does not exist under this provider configuration")
	}
	return nil
}

func (s *Service) connectionExists(ctx context.Context, q db.Querier, env id.Environment, to scope) (bool, error) {
	switch {
	case !db.Storable(to.connectionID):
		return false, nil
	case to.providerConfigKey == "":
		return s.cfg.Connections.ExistsUnderAnyKey(ctx, q, env, to.connectionID)
	default:
		return s.cfg.Connections.Exists(ctx, q, env, to.providerConfigKey, to.connectionID)
	}
}
