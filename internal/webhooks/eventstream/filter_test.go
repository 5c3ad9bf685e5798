package eventstream

import (
	"context"
	"database/sql"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

func drawTypes() []string {
	return []string{"a", "a.b", "a.b.c", "a.", "ab.c", "A.b", "a_b", "a/b", "ä.b", "unknown"}
}

// writers are providers that write their types in ways of their own.
type writers struct{}

func (writers) EventTypes() []*eventtypes.Provider {
	return []*eventtypes.Provider{{Slug: "GitHub", Rules: eventtypes.NewRules("_", map[string]string{"a/b": "ab.c"})},
		{Slug: "github", Rules: eventtypes.NewRules("/", nil)}}
}

// drawSubscriptions returns the subscriptions of an environment; the last has no deliveries.
func drawSubscriptions(env id.Environment) []string {
	return []string{"sub_1" + string(env), "sub_2" + string(env), "sub_3" + string(env)}
}

func drawNames() []string { return []string{"github", "GitHub", "stripe", "a,b", events.OwnProvider} }

// KeysOf implements events.Configs: github has two configurations.
func (writers) KeysOf(_ context.Context, _ id.Environment, slug string) ([]string, error) {
	if slug == "github" {
		return []string{slug, "a,b"}, nil
	}
	return []string{slug}, nil
}

// storeDrawn stores a random event of the environment, with random deliveries. firsts are the events that have claimed
// a key.
func (w *world) storeDrawn(rt *rapid.T, env id.Environment, firsts map[string]string) {
	name := rapid.SampledFrom(drawNames())
	e := w.event(env)
	e.Provider, e.ProviderConfigKey, e.ConnectionID, e.IdempotencyKey = name.Draw(rt, "provider"), name.Draw(rt, "key"),
		name.Draw(rt, "connection"), name.Draw(rt, "idempotency")
	e.Type, e.Control = rapid.SampledFrom(drawTypes()).Draw(rt, "type"), rapid.Bool().Draw(rt, "control")
	if rapid.Bool().Draw(rt, "batch") {
		e.Types = append([]string{e.Type}, rapid.SampledFrom(drawTypes()).Draw(rt, "second type"))
	}
	e.ReceivedAt = clock.FromMillis(rapid.Int64Range(1000, 1004).Draw(rt, "received"))
	e.UUID = testkit.UUIDs(e.ReceivedAt)()
	if first, ok := firsts[e.IdempotencyKey]; ok && rapid.Bool().Draw(rt, "duplicate") {
		e.DuplicateOf, e.Payload = &first, nil
	} else {
		firsts[e.IdempotencyKey] = e.UUID
		require.NoError(rt, w.db.Tx(context.Background(), func(tx *sql.Tx) error { // it outlives what rapid calls a test
			_, err := events.NewKeys(w.db).Claim(context.Background(), tx, []*events.Key{{ConnectionUUID: e.ConnectionUUID,
				Hash: events.HashID(e.IdempotencyKey), EventUUID: e.UUID, ExpiresMillis: events.KeyForever}}, 0)
			return err
		}))
	}
	e.Counters = rapid.SampledFrom([]events.Counters{{}, {Sending: 1}, {RetryWait: 1, Attempted: 1},
		{Dead: 1, Attempted: 1}, {Succeeded: 1, Attempted: 1}}).Draw(rt, "counters")
	list := events.Insert([]events.NewEvent{e})
	_, change := events.Apply([]events.Change{{Environment: env, EventUUID: e.UUID, At: e.ReceivedAt,
		Counters: e.Counters}}, &events.Log{})
	list = append(list, change)
	insert := &db.MultiRow{Before: `INSERT INTO deliveries (event_uuid, subscription_id, id, environment_id, status,
		generation, claim_id, due_ms, generation_attempts, attempt_count, leases_lost, last_http_status, last_error,
		created_ms, updated_ms)`,
		Types: []string{"text", "text", "text", "text", "bigint", "text"},
		Row:   "(?, ?, ?, ?, 'pending', 1, '', 0, 0, 0, 0, ?, ?, 0, 0)"}
	failed := false
	subs := drawSubscriptions(env)
	for _, sub := range subs[:2] {
		if !rapid.Bool().Draw(rt, "delivery to "+sub) {
			continue
		}
		status := rapid.SampledFrom([]*int{nil, new(200), new(503)}).Draw(rt, "status")
		failure := rapid.SampledFrom([]*string{nil, new(`{"code":"timeout","message":"m","http_status":null,"at":1}`),
			new(`{"code":"gone","message":"m","http_status":null,"at":1}`)}).
			Draw(rt, "failure")
		failed = failed || failure != nil || status != nil && *status >= 300
		list = append(list, db.Statement{Rows: insert, Args: []any{e.UUID, sub, id.NewUUID(), string(env), status, failure}})
	}
	require.NoError(rt, w.run(list...))
	if failed { // an attempt that fails is recorded in the event, too, and stays there
		_, err := w.db.Write().ExecContext(context.Background(),
			"UPDATE webhook_events SET last_error = $1 WHERE event_uuid = $2", `{"code":"timeout","message":"m","at":1}`, e.UUID)
		require.NoError(rt, err)
	}
}

func drawFilter(rt *rapid.T, env id.Environment) events.Filter {
	var f events.Filter
	some := func(label string) []string {
		return rapid.SliceOfN(rapid.SampledFrom(drawNames()), 0, 3).Draw(rt, label)
	}
	for _, field := range rapid.SliceOfN(rapid.IntRange(0, 13), 0, 3).Draw(rt, "fields") {
		switch field {
		case 0:
			f.Statuses = rapid.SliceOfN(rapid.SampledFrom(events.Statuses()), 1, 3).Draw(rt, "statuses")
		case 1:
			f.Providers = some("providers")
		case 2:
			f.ProviderConfigKeys = some("keys")
		case 3:
			f.ConnectionIDs = some("connections")
		case 4:
			f.IdempotencyKeys = some("idempotency keys")
		case 5:
			patterns := append(drawTypes(), "*", "a.*", "a.b.*", "A.*", "ä.*", "*.b", "*.*", "a.*.c", "a/b/*", "a/*", "a_*")
			f.Types = rapid.SliceOfN(rapid.SampledFrom(patterns), 0, 3).Draw(rt, "types")
		case 6:
			f.Duplicate = new(rapid.Bool().Draw(rt, "duplicates"))
		case 7:
			f.Control = new(rapid.Bool().Draw(rt, "controls"))
		case 8:
			f.ReceivedAfter = new(clock.FromMillis(rapid.Int64Range(999, 1005).Draw(rt, "after")))
		case 9:
			f.ReceivedBefore = new(clock.FromMillis(rapid.Int64Range(999, 1005).Draw(rt, "before")))
		case 10:
			f.SubscriptionIDs = rapid.SliceOfN(rapid.SampledFrom(drawSubscriptions(env)), 1, 2).Draw(rt,
				"subscriptions")
		case 11:
			f.HTTPStatuses = rapid.SliceOfN(rapid.SampledFrom([]int{200, 503}), 1, 2).Draw(rt, "http statuses")
		case 12:
			f.Search = rapid.SampledFrom(append(drawNames(), "a", "a.", "A", "a_", "a%", "ä", "z")).Draw(rt, "search")
		default:
			f.ErrorCodes = rapid.SliceOfN(rapid.SampledFrom([]string{"timeout", "gone", "time"}), 1, 2).Draw(rt, "error codes")
		}
	}
	return f
}

func drawBound(rt *rapid.T) access.Bound {
	b := access.All()
	if rapid.Bool().Draw(rt, "bounded") {
		b = access.Only(rapid.SliceOfN(rapid.SampledFrom(drawNames()), 0, 3).Draw(rt, "bound")...)
	}
	return b.Minus(access.Only(rapid.SliceOfN(rapid.SampledFrom(drawNames()), 0, 2).Draw(rt, "exceptions")...))
}

// A stream's filter takes the events that a list with the same filter shows in the same view, neither more nor fewer.
func TestFilterIsTheLists(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store, clock.NewManual(began()))
		attempts := deliveries.NewStore(deliveries.StoreConfig{DB: store.DB, Events: w.events})
		rapid.Check(t, func(rt *rapid.T) {
			env := id.Environment(id.New(id.PrefixEnvironment))
			firsts := map[string]string{}
			for range rapid.IntRange(1, 6).Draw(rt, "events") {
				w.storeDrawn(rt, env, firsts)
			}
			ctx := t.Context()
			all, _, err := w.events.List(ctx, access.Whole(env), events.Filter{}, page.Request{Limit: page.MaxLimit})
			require.NoError(rt, err)
			filter := drawFilter(rt, env)
			view := access.View{Environment: env, Connections: drawBound(rt)}
			shown, _, err := w.events.List(ctx, view, filter, page.Request{Limit: page.MaxLimit})
			require.NoError(rt, err)
			forms, err := w.events.Forms(ctx, env, filter.Types)
			require.NoError(rt, err)
			compiled := compile(forms, view, filter)
			var taken []events.Event
			for i := range all {
				byEvent, err := attempts.ByEvents(ctx, access.Whole(env), []string{all[i].UUID})
				require.NoError(rt, err)
				if compiled.matches(&message{Message: Message{Kind: EventReceived, Event: &all[i]},
					deliveries: byEvent[all[i].UUID]}) {
					taken = append(taken, all[i])
				}
			}
			require.Len(rt, taken, len(shown))
			for i := range shown {
				require.Equal(rt, shown[i].UUID, taken[i].UUID)
			}
		})
	})
}

// A field that is added to the list's filter must be added to the stream's, which would otherwise take it and ignore
// it.
func TestFilterKnowsEveryField(t *testing.T) {
	t.Parallel()
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[events.Filter]()) {
		if !f.Anonymous {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	require.Equal(t, []string{"ConnectionIDs", "Control", "Duplicate", "ErrorCodes", "HTTPStatuses", "IdempotencyKeys",
		"ProviderConfigKeys", "Providers", "ReceivedAfter", "ReceivedBefore", "Search", "Statuses", "SubscriptionIDs",
		"Types"}, names)
}

// The filter applies to attempts themselves: a reader of one subscription does not see the attempts of another.
func TestFilterOfAttempts(t *testing.T) {
	t.Parallel()
	failed := &deliveries.Attempt{SubscriptionID: "sub_1", HTTPStatus: new(503), ErrorCode: new("unexpected_status")}
	silent := &deliveries.Attempt{SubscriptionID: "sub_1", ErrorCode: new("timeout")}
	for _, c := range []struct {
		criteria events.DeliveryCriteria
		try      *deliveries.Attempt
		want     bool
	}{
		{events.DeliveryCriteria{SubscriptionIDs: []string{"sub_1", "sub_2"}}, failed, true},
		{events.DeliveryCriteria{SubscriptionIDs: []string{"sub_2"}}, failed, false},
		{events.DeliveryCriteria{HTTPStatuses: []int{503}}, failed, true},
		{events.DeliveryCriteria{HTTPStatuses: []int{200}}, failed, false},
		{events.DeliveryCriteria{HTTPStatuses: []int{503}}, silent, false},
		{events.DeliveryCriteria{ErrorCodes: []string{"timeout"}}, silent, true},
		{events.DeliveryCriteria{ErrorCodes: []string{"timeout"}}, failed, false},
		{events.DeliveryCriteria{SubscriptionIDs: []string{"sub_1"}, ErrorCodes: []string{"gone"}}, failed, false},
	} {
		f := compile(nil, access.Whole(""), events.Filter{DeliveryCriteria: c.criteria})
		// The event has a delivery that would fit; it does not count.
		other := []deliveries.Delivery{{Key: deliveries.Key{SubscriptionID: "sub_2"}, LastHTTPStatus: new(200),
			LastFailure: &deliveries.Failure{Code: "gone"}}}
		require.Equal(t, c.want, f.matches(&message{Message: Message{Kind: AttemptCompleted, Event: &events.Event{},
			Attempt: c.try}, deliveries: other}))
	}
}
