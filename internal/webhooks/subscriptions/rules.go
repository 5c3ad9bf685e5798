package subscriptions

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/filters"
)

// Check adds the faults that the change shows by itself, without a look at what is stored or where the URL leads.
// Locations are those of the request's body.
func (ch *Change) Check(f *apperr.Faults) {
	if given(f, "event_types", ch.EventTypes) {
		checkEventTypes(f, "event_types", ch.EventTypes.Value)
	}
	if given(f, "forward_url", ch.ForwardURL) {
		checkURLForm(f, "forward_url", ch.ForwardURL.Value)
	}
	if given(f, "signing_secret", ch.SigningSecret) {
		if _, rule, message := signingKey(ch.SigningSecret.Value); rule != "" {
			f.Add("signing_secret", rule, message)
		}
	}
	if given(f, "secret_grace_seconds", ch.SecretGraceSeconds) {
		checkGrace(f, "secret_grace_seconds", ch)
	}
	given(f, "enabled", ch.Enabled)
	if given(f, "payload_mode", ch.PayloadMode) && !slices.Contains(PayloadModes(), ch.PayloadMode.Value) {
		f.Add("payload_mode", "enum", "must be envelope or raw")
	}
	if given(f, "retry_schedule_seconds", ch.RetrySchedule) {
		checkSchedule(f, "retry_schedule_seconds", ch.RetrySchedule.Value)
	}
	if given(f, "timeout_ms", ch.TimeoutMs) {
		checkTimeout(f, "timeout_ms", ch.TimeoutMs.Value)
	}
	if d := ch.Description; d.Set && !d.Null {
		checkDescription(f, "description", d.Value)
	}
	if filter := ch.Filter; filter.Set && !filter.Null {
		for _, fault := range filters.Check(filter.Value) {
			f.Add("filter", fault.Rule, fault.Message)
		}
	}
	if ch.Headers.Set {
		checkHeaders(f, "headers", ch.Headers.Value)
	}
}

// CheckNew is Check for a subscription that is to be created.
func (ch *Change) CheckNew(f *apperr.Faults) {
	required := func(set bool, location string) {
		if !set {
			f.Add(location, "required", "the field is required")
		}
	}
	required(ch.EventTypes.Set, "event_types")
	required(ch.ForwardURL.Set, "forward_url")
	ch.Check(f)
}

// given reports whether a field that cannot be cleared has a value; null is a fault.
func given[T any](f *apperr.Faults, location string, field Field[T]) bool {
	if field.Set && field.Null {
		f.Add(location, "not_null", "the field cannot be cleared")
	}
	return field.Set && !field.Null
}

func checkEventTypes(f *apperr.Faults, location string, types []string) {
	switch {
	case len(types) == 0:
		f.Add(location, "min_items", "must be at least one pattern")
	case len(types) > MaxPatterns:
		f.Add(location, "max_items", fmt.Sprintf("must be at most %d patterns", MaxPatterns))
		return
	}
	for i, t := range types {
		at := fmt.Sprintf("%s[%d]", location, i)
		if _, fault := parsePattern(t); fault != nil {
			f.Add(at, fault.Rule, fault.Message)
		} else if slices.Contains(types[:i], t) {
			f.Add(at, "unique", "must not be there twice")
		}
	}
}

// checkURLForm refuses what no policy lets through; the policy has the last word, with a look at the address.
func checkURLForm(f *apperr.Faults, location, raw string) bool {
	u, err := url.Parse(raw)
	switch {
	case len(raw) > MaxURLLength:
		f.Add(location, egress.CodeURLInvalid, fmt.Sprintf("must be at most %d characters", MaxURLLength))
	case err != nil || u.Host == "":
		f.Add(location, egress.CodeURLInvalid, "must be an absolute URL such as https://example.com/path")
	case u.Scheme != "https" && u.Scheme != "http":
		f.Add(location, egress.CodeSchemeRefused, "must be an https:// URL")
	case u.User != nil:
		f.Add(location, egress.CodeUserinfoRefused, "must not hold a user name or password: put credentials into headers")
	default:
		return true
	}
	return false
}

func checkSchedule(f *apperr.Faults, location string, schedule []float64) {
	if len(schedule) > MaxRetries {
		f.Add(location, "max_items", fmt.Sprintf("must be at most %d numbers", MaxRetries))
		return
	}
	for i, seconds := range schedule {
		at := fmt.Sprintf("%s[%d]", location, i)
		switch {
		case seconds < MinRetryDelay:
			f.Add(at, "minimum", fmt.Sprintf("must be at least %g", MinRetryDelay))
		case seconds > MaxRetryDelay:
			f.Add(at, "maximum", fmt.Sprintf("must be at most %.0f", MaxRetryDelay))
		}
	}
}

func checkGrace(f *apperr.Faults, location string, ch *Change) {
	most := int64(MaxSecretGrace / time.Second)
	switch seconds := ch.SecretGraceSeconds.Value; {
	case seconds < 0:
		f.Add(location, "minimum", "must be at least 0")
	case seconds > most:
		f.Add(location, "maximum", fmt.Sprintf("must be at most %d", most))
	case seconds > 0 && !ch.SigningSecret.Set:
		f.Add(location, "coherent", "must be 0 without a new signing_secret: that ends the signatures of replaced ones at "+
			"once")
	}
}

func checkTimeout(f *apperr.Faults, location string, ms int64) {
	switch {
	case ms < MinTimeout.Milliseconds():
		f.Add(location, "minimum", fmt.Sprintf("must be at least %d", MinTimeout.Milliseconds()))
	case ms > MaxTimeout.Milliseconds():
		f.Add(location, "maximum", fmt.Sprintf("must be at most %d", MaxTimeout.Milliseconds()))
	}
}

func checkDescription(f *apperr.Faults, location, text string) {
	switch {
	case utf8.RuneCountInString(text) > MaxDescription:
		f.Add(location, "max_length", fmt.Sprintf("must be at most %d characters", MaxDescription))
	case !storable(text):
		f.Add(location, "pattern", "must not hold the character U+0000")
	}
}

// storable reports whether the databases can hold the text: PostgreSQL refuses U+0000 and what is not UTF-8.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// check adds the faults of the change and of what it leads to.
func (s *Service) check(ctx context.Context, f *apperr.Faults, ch *Change, next *Subscription) error {
	if u := ch.ForwardURL; u.Set && !u.Null && checkURLForm(&apperr.Faults{}, "", u.Value) {
		s.checkTarget(ctx, f, "forward_url", u.Value)
	}
	if len(next.Headers) > MaxHeaders {
		f.Add("headers", "max_properties", fmt.Sprintf("must be at most %d headers", MaxHeaders))
	}
	if ch.Metadata.Set {
		metadata, err := encode(next.Metadata)
		if err != nil {
			return fmt.Errorf("encode metadata: %w", err)
		}
		if len(metadata) > MaxMetadata {
			f.Add("metadata", "max_length", fmt.Sprintf("must be at most %d bytes of compact JSON", MaxMetadata))
		}
	}
	return s.checkScope(ctx, f, ch, next.Environment, scope{next.ProviderConfigKey, next.ConnectionID})
}

func (s *Service) checkTarget(ctx context.Context, f *apperr.Faults, location, target string) {
	if to := originOf(target); to != (origin{}) && to == s.own {
		f.Add(location, "forward_loop", "must not lead back to this gateway")
	} else if refused := s.cfg.Targets.CheckTarget(ctx, target); refused != nil {
		f.Add(location, refused.Code, refused.Message)
	}
}

// checkScope asks whether what the subscription is narrowed to exists. What the change does not touch was accepted when
// it was stored and is not held against the caller now.
func (s *Service) checkScope(ctx context.Context, f *apperr.Faults, ch *Change, env id.Environment, to scope) error {
	const keyAt, connectionAt = "provider_config_key", "connection_id"
	empty := func(field Field[string]) bool { return field.Set && !field.Null && field.Value == "" }
	switch {
	case !ch.ProviderConfigKey.Set && !ch.ConnectionID.Set:
		return nil
	case empty(ch.ProviderConfigKey):
		f.Add(keyAt, "min_length", "must not be empty")
		to.connectionID = ""
	case to.providerConfigKey != "" && to.providerConfigKey != OwnProvider &&
		!s.cfg.Connections.ConfigKeyExists(env, to.providerConfigKey):
		f.Add(keyAt, "exists", "there is no such provider configuration")
		to.connectionID = "" // whether it has the connection cannot be told
	}
	if empty(ch.ConnectionID) {
		f.Add(connectionAt, "min_length", "must not be empty")
	}
	if to.connectionID == "" {
		return nil
	}
	exists, err := s.connectionExists(ctx, env, to)
	switch {
	case err != nil:
		return err
	case exists:
	case ch.ConnectionID.Set && to.providerConfigKey == "":
		f.Add(connectionAt, "exists", "there is no such connection")
	case ch.ConnectionID.Set:
		f.Add(connectionAt, "exists", "there is no such connection under this provider configuration")
	case to.providerConfigKey != "":
		f.Add(keyAt, "exists", "the subscription's connection does not exist under this provider configuration")
	}
	return nil
}

func (s *Service) connectionExists(ctx context.Context, env id.Environment, to scope) (bool, error) {
	switch {
	case !storable(to.connectionID):
		return false, nil
	case to.providerConfigKey == "":
		return s.cfg.Connections.ExistsUnderAnyKey(ctx, env, to.connectionID)
	default:
		return s.cfg.Connections.Exists(ctx, env, to.providerConfigKey, to.connectionID)
	}
}
