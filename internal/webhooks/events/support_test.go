package events_test

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// started is when every test begins, in Unix milliseconds: 2025-06-15T15:06:40.123Z.
const started = 1_750_000_000_123

// newEnvironment keeps what a test stores apart from everything else.
func newEnvironment() id.Environment { return id.Environment(id.New(id.PrefixEnvironment)) }

// newEvent returns an event with a payload.
func newEvent(env id.Environment) events.NewEvent {
	return events.NewEvent{Event: events.Event{
		UUID: id.NewUUID(), Environment: env, ConnectionUUID: id.NewUUID(), ConnectionID: "acme", Provider: "github",
		ProviderConfigKey: "github", Type: "issues.opened", IdempotencyKey: "key",
		IdempotencySource: "header:x-github-delivery", Verification: `{"result":"verified","scheme":"hmac","key_id":""}`,
		ContentType: "application/json", BodySize: 2, ReceivedAt: clock.FromMillis(started),
	}, Payload: &events.Payload{Headers: `{}`, Body: []byte(`{}`), Encoding: events.JSON}}
}

// run executes statements in one transaction.
func run(ctx context.Context, t require.TestingT, d *db.DB, list ...db.Statement) {
	require.NoError(t, d.Tx(ctx, func(tx *sql.Tx) error {
		_, err := d.ExecAll(ctx, tx, list...)
		return err
	}))
}

// ofUUID stands in for deliveries: it takes the one subscription id of a filter for the uuid of the event to find.
type ofUUID struct{}

func (ofUUID) Where(_ access.View, column string, c events.DeliveryCriteria, next int) (string, []any) {
	if len(c.SubscriptionIDs) == 0 {
		return "", nil
	}
	return column + " = $" + strconv.Itoa(next), []any{c.SubscriptionIDs[0]}
}

func (ofUUID) Of(env id.Environment, uuid string) (from, column, condition string, args []any) {
	return "webhook_events f", "f.event_uuid", "f.environment_id = ? AND f.event_uuid = ?", []any{string(env), uuid}
}

// lifetimes are those of every environment in these tests.
type lifetimes events.Lifetimes

func (l lifetimes) Lifetimes(context.Context, id.Environment) (events.Lifetimes, error) {
	return events.Lifetimes(l), nil
}

const (
	payloadLife = 30 * 24 * time.Hour
	eventLife   = 90 * 24 * time.Hour
)

// newStore returns a store at a time when nothing has expired.
func newStore(d *db.DB) *events.Store {
	s := events.New(events.Config{DB: d, Deliveries: ofUUID{},
		Retention: lifetimes{Payload: payloadLife, Event: eventLife}, Clock: clock.NewManual(at(10)), Types: writers{},
		Configs: writers{}})
	return s
}

// fresh returns the event as it is read when it was just stored.
func fresh(e events.Event) events.Event {
	e.Status, e.UpdatedAt, e.ExpiresAt = events.Received, e.ReceivedAt, e.ReceivedAt.Add(eventLife)
	if e.DuplicateOf == nil {
		e.PayloadExpiresAt = new(e.ReceivedAt.Add(payloadLife))
	}
	return e
}

// matchesType defines a list's filter by type: an event matches as it does for a subscription's pattern, which is
// compared as it is, and by the rules of the event's provider.
func matchesType(pattern string, e *events.Event) bool {
	for _, form := range []string{pattern, eventtypes.RulesOf(writers{}, writer(e)).Pattern(pattern)} {
		if form == "" { // the provider's rules make no pattern of it; an event may have this for a type
			continue
		}
		if !strings.Contains(form, "*") && e.Type == form {
			return true
		}
		p, err := subscriptions.ParsePattern(form)
		if err == nil && strings.Contains(form, "*") && p.Matches(e.Type) {
			return true
		}
	}
	return false
}

// writer is the provider by whose rules the types of an event are written: its own, or that of the configuration for a
// published event.
func writer(e *events.Event) string {
	switch {
	case e.Provider != events.OwnProvider:
		return e.Provider
	case e.ProviderConfigKey == secondConfig:
		return "shopify"
	default:
		return e.ProviderConfigKey
	}
}

// secondConfig is the key of another configuration of shopify.
const secondConfig = "shopify-eu"

// KeysOf implements events.Configs.
func (writers) KeysOf(_ context.Context, _ id.Environment, slug string) ([]string, error) {
	if slug == "shopify" {
		return []string{slug, secondConfig}, nil
	}
	return []string{slug}, nil
}

// writers are providers that write their types in ways of their own.
type writers struct{}

func (writers) EventTypes() []*eventtypes.Provider {
	return []*eventtypes.Provider{{Slug: "github", Rules: eventtypes.NewRules("_|", map[string]string{"a b": "b.a"})},
		{Slug: "shopify", Rules: eventtypes.NewRules("/", nil)}}
}

func at(ms int64) time.Time { return clock.FromMillis(started + ms) }
