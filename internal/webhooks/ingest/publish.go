package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/providers/connections"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// Limits of events that are published.
const (
	// MaxPublishedBytes is the maximum size of the request that publishes an event.
	MaxPublishedBytes = 1 << 20
	// MaxPublishedType is the maximum length of the type, in characters.
	MaxPublishedType = 255
	// MaxPublishedKey is the maximum length of the idempotency key, in characters.
	MaxPublishedKey = 255
)

var (
	// publishedType is the form of the types of published events, and writtenType that before the rules of the
	// connection's provider are applied.
	publishedType = regexp.MustCompile(`^[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+)*$`)
	writtenType   = regexp.MustCompile(`^[!-~]+$`)
)

const (
	messageType = "must be letters, digits, hyphens and underscores, in segments separated by dots, or by what the " +
		"provider of the connection puts between them"
	messageReserved = "must not begin with " + events.OwnProvider + ", which is for the gateway's own events"
)

// ownType reports whether a type is reserved for the gateway's own events.
func ownType(t string) bool { return t == events.OwnProvider || strings.HasPrefix(t, events.OwnPrefix) }

// Publication is an event that a caller publishes.
type Publication struct {
	// EventType is also accepted as the provider of the connection writes it.
	EventType string
	// Data is the event's body: any JSON value.
	Data json.RawMessage
	// IdempotencyKey makes every later event with the same key a duplicate, within the connection, or within the
	// environment if there is none. Nil makes an event of its own.
	IdempotencyKey *string
	// ConnectionID and ProviderConfigKey name the connection that the event is about; nil if it is about none.
	// ProviderConfigKey is needed only if several connections have the id.
	ConnectionID, ProviderConfigKey *string
}

// Check adds the validation errors that need no other data.
func (in *Publication) Check(v *apperr.Violations) {
	switch t := in.EventType; {
	case t == "":
		v.Add("event_type", "min_length", "must not be empty")
	case len(t) > MaxPublishedType:
		v.Add("event_type", "max_length", fmt.Sprintf("must be at most %d characters", MaxPublishedType))
	case !writtenType.MatchString(t) || in.ConnectionID == nil && !publishedType.MatchString(t):
		v.Add("event_type", "pattern", messageType)
	case ownType(t):
		v.Add("event_type", "reserved", messageReserved)
	}
	if isNestedDeeper(in.Data, maxJSONDepth) {
		v.Add("data", "depth", fmt.Sprintf("must not be nested more than %d deep", maxJSONDepth))
	}
	if key := in.IdempotencyKey; key != nil {
		switch {
		case *key == "":
			v.Add("idempotency_key", "min_length", "must not be empty")
		case utf8.RuneCountInString(*key) > MaxPublishedKey:
			v.Add("idempotency_key", "max_length", fmt.Sprintf("must be at most %d characters", MaxPublishedKey))
		case strings.ContainsFunc(*key, unicode.IsControl):
			v.Add("idempotency_key", "pattern", "must not hold control characters")
		}
	}
	if in.ProviderConfigKey != nil && in.ConnectionID == nil {
		v.Add("provider_config_key", "coherent", "belongs to connection_id, which is missing")
	}
}

// Publish stores a caller's event in the principal's environment and returns when it is durable. Forwarding continues
// by itself. A duplicate is stored as such, and the receipt names the first event.
//
// Errors: validation errors with locations relative to the body of the request; grant_denied for anything that an API
// key is not granted, which for a bounded key includes connections that do not exist; unavailable if the database
// cannot commit, or if the filters of too many events of the environment wait.
func (s *Service) Publish(ctx context.Context, p access.Principal, in Publication) (Receipt, error) {
	receipt, err := s.publish(ctx, p, in)
	switch {
	case err == nil && !receipt.Duplicate:
		s.requests.WithLabelValues(outcomePublished).Inc()
	case err == nil:
		s.requests.WithLabelValues(outcomeDuplicate).Inc()
	case errors.Is(err, errFiltersBusy):
		s.requests.WithLabelValues(outcomeOverloaded).Inc()
	case apperr.Is(err, apperr.CodeUnavailable):
		s.requests.WithLabelValues(outcomeUnavailable).Inc()
	}
	return receipt, err
}

func (s *Service) publish(ctx context.Context, p access.Principal, in Publication) (Receipt, error) {
	var v apperr.Violations
	in.Check(&v)
	about, err := s.findConnection(ctx, &v, p, &in)
	if err != nil {
		return Receipt{}, err
	}
	kind := in.EventType
	if about != nil {
		rules, err := s.subs.TypeRules(ctx, p.Environment, subscriptions.Origin{Provider: about.Provider,
			ProviderConfigKey: about.ProviderConfigKey, ConnectionID: about.ConnectionID})
		if err != nil {
			return Receipt{}, err
		}
		kind = rules.Normal(kind)
	}
	if in.ConnectionID != nil && writtenType.MatchString(in.EventType) { // otherwise Check has looked at it
		switch {
		case !publishedType.MatchString(kind):
			v.Add("event_type", "pattern", messageType)
		case ownType(kind) && !ownType(in.EventType):
			v.Add("event_type", "reserved", messageReserved)
		}
	}
	if err := v.Err(); err != nil {
		return Receipt{}, err
	}
	var body bytes.Buffer
	if err := json.Compact(&body, in.Data); err != nil {
		return Receipt{}, apperr.Invalid(apperr.Detail{Location: "data", Rule: "json", Message: "must be JSON"})
	}
	verification, err := json.Marshal(map[string]string{"result": "verified", "scheme": string(p.Kind), "key_id": p.ID})
	if err != nil {
		return Receipt{}, fmt.Errorf("describe the publisher: %w", err)
	}
	it := &item{check: db.CheckOf(ctx), payload: events.Payload{Headers: "{}", Body: body.Bytes(), Encoding: events.JSON}}
	it.event = events.NewEvent{Event: events.Event{
		Environment: p.Environment, Provider: events.OwnProvider, ProviderConfigKey: events.OwnProvider,
		Type: kind, Verification: string(verification), ContentType: "application/json", BodySize: int64(body.Len()),
		IdempotencySource: events.SourceEvent, ReceivedAt: s.clock.Now(),
	}}
	if about != nil {
		it.event.ConnectionUUID, it.event.ConnectionID, it.event.ProviderConfigKey = about.UUID, about.ConnectionID,
			about.ProviderConfigKey
	}
	if key := in.IdempotencyKey; key != nil {
		it.event.IdempotencyKey, it.event.IdempotencySource = *key, events.SourcePublisher
		it.keys = []claimedKey{{hash: string(events.HashPublished(*key)), decides: true, expires: events.KeyForever}}
	}
	return s.store(ctx, it)
}

// findConnection returns the connection that the publication names, or nil.
func (s *Service) findConnection(ctx context.Context, v *apperr.Violations, p access.Principal,
	in *Publication) (*connections.Connection, error) {
	if in.ConnectionID == nil {
		if !p.View().Connections.Contains("") {
			return nil, p.Require(access.RouteEventsWrite, "")
		}
		return nil, nil //nolint:nilnil // an event need not be about a connection
	}
	if err := p.Require(access.RouteEventsWrite, *in.ConnectionID); err != nil && *in.ConnectionID != "" {
		return nil, err
	}
	list, err := s.conns.OfID(ctx, p.Environment, *in.ConnectionID)
	if err != nil {
		return nil, unavailable(err)
	}
	var found []*connections.Connection
	for i := range list {
		if key := in.ProviderConfigKey; key == nil || *key == list[i].ProviderConfigKey {
			found = append(found, &list[i])
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		v.Add("connection_id", "ambiguous",
			"several connections have this id; name the provider_config_key of the one that is meant")
	case len(list) > 0:
		v.Add("provider_config_key", "exists", "there is no such connection under this provider configuration")
	default:
		v.Add("connection_id", "exists", "there is no such connection")
	}
	return nil, nil //nolint:nilnil // the violation says so
}
