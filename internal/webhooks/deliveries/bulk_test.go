package deliveries

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// start carries a bulk replay through in parts, as a job does, and returns what all of them did.
func (w *world) startBulk(t require.TestingT, b Bulk) (all BulkResult, parts int) {
	ctx := context.WithoutCancel(w.hard)
	all.Skipped = map[SkipReason]int64{}
	for len(b.Events) > 0 {
		parts++
		r, err := w.PrepareBulk(ctx, b)
		require.NoError(t, err)
		preview, err := r.Preview(ctx, w.clock.Now())
		require.NoError(t, err)
		var result BulkResult
		require.NoError(t, w.db.Tx(ctx, func(tx *sql.Tx) error {
			result, err = r.Start(ctx, tx, w.clock.Now())
			return err
		}))
		require.Equal(t, preview, result, "what a preview tells is what is done")
		require.LessOrEqual(t, len(result.Started), b.Limit)
		require.True(t, result.Events > 0 || result.After != b.After, "a part gets on")
		all.Started = append(all.Started, result.Started...)
		for why, n := range result.Skipped {
			all.Skipped[why] += n
		}
		b.Events, b.After = b.Events[result.Events:], result.After
	}
	return all, parts
}

// bulk replays every event of the machine in parts, and holds what happens to the model.
func (m *machine) bulk(force bool, to string, limit int) {
	list, _, err := m.s.events.List(m.t.Context(), access.Whole(machineEnvironment), events.Filter{},
		page.Request{Limit: page.MaxLimit, Ascending: true})
	require.NoError(m.rt, err)
	w := &world{Service: m.s, clock: m.clock}
	all, _ := w.startBulk(m.rt, Bulk{View: access.Whole(machineEnvironment), Events: list, Force: force, To: to,
		Limit: limit})
	now := m.clock.Now()
	want, skipped := []Started{}, map[SkipReason]int64{}
	restart := func(d Delivery) {
		next := d.replayed(now, m.subs.byID[d.SubscriptionID].Enabled)
		want = append(want, Started{next.Key, next.Generation})
		m.becomes(next.Key, next)
	}
	for _, e := range list {
		if m.expunged[e.UUID] {
			skipped[SkipPayloadExpired]++
			continue
		}
		counted := false
		for _, sub := range m.targetsOf(e.UUID, to) {
			d, there := m.model[Key{e.UUID, sub}]
			failed := d.Status == Dead || d.Status == RetryWait || d.Status == Sending && m.last[d.Key] == wentWrong
			if to == "" && !force && !failed {
				continue
			}
			counted = true
			switch {
			case m.subs.byID[sub].Deleted:
				skipped[SkipSubscriptionDeleted]++
			case !there:
				d = Delivery{Key: Key{e.UUID, sub}, ID: id.NewUUID(), Environment: machineEnvironment, Generation: 1,
					CreatedAt: now, UpdatedAt: now}
				m.sent[d.Key] = map[int64]int{}
				restart(d)
			case d.Status == Sending:
				skipped[SkipInFlight]++
			case !force && !failed:
				skipped[SkipNotFailed]++
			default:
				restart(d)
			}
		}
		if !counted && force {
			skipped[SkipNoDelivery]++
		} else if !counted {
			skipped[SkipNotFailed]++
		}
	}
	require.Equal(m.rt, skipped, all.Skipped)
	require.ElementsMatch(m.rt, want, all.Started)
}

// targetsOf returns the subscriptions that a replay of the event is about, in order.
func (m *machine) targetsOf(event, to string) []string {
	if to != "" {
		return []string{to}
	}
	var subs []string
	for k := range m.model {
		if k.EventUUID == event {
			subs = append(subs, k.SubscriptionID)
		}
	}
	slices.Sort(subs)
	return subs
}

// An event with more deliveries than one transaction takes is replayed in parts, each delivery once and in order, and
// what its criteria leave out stays as it is.
func TestBulkOverManyDeliveries(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		const many = 2*bulkRows + 20
		event, first := w.event(Delivery{Status: Dead}, w.subscription())
		event.Payload = &events.Payload{Headers: "{}", Encoding: events.Text}
		list := []Delivery{first}
		for range many - 1 {
			d := first
			d.ID, d.SubscriptionID = id.NewUUID(), w.subscription()
			list = append(list, d)
		}
		other := first
		other.ID, other.SubscriptionID = id.NewUUID(), w.subscription()
		w.insertAs(t, event, append(slices.Clone(list), other))
		_, err := store.DB.Write().ExecContext(t.Context(),
			`UPDATE deliveries SET last_error = '{"code":"gone","message":"m"}' WHERE subscription_id <> $1`,
			other.SubscriptionID)
		require.NoError(t, err)
		e, err := w.events.Get(t.Context(), access.Whole(w.env), event.UUID)
		require.NoError(t, err)
		b := Bulk{View: access.Whole(w.env), Events: []events.Event{e}, Limit: many,
			Criteria: events.DeliveryCriteria{ErrorCodes: []string{codeGone}}}
		all, parts := w.startBulk(t, b)
		require.Equal(t, 3, parts)
		require.Empty(t, all.Skipped)
		require.Len(t, all.Started, many)
		require.True(t, slices.IsSortedFunc(all.Started, func(a, b Started) int {
			return cmp.Compare(a.SubscriptionID, b.SubscriptionID)
		}))
		require.Equal(t, map[Status]int{Pending: many, Dead: 1}, w.statuses(t, event.UUID))
		again, _ := w.startBulk(t, b)
		require.Empty(t, again.Started)
		require.Equal(t, map[SkipReason]int64{SkipNotFailed: 1}, again.Skipped)
	})
}

// An event goes to a subscription that did not receive it before only where its scope, its patterns and its filter
// match it now, and once: the same replay finds the delivery when it runs again, and leaves it. To its receiver it is a
// replay.
func TestBulkToAnotherSubscription(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		to := w.subscription()
		w.subs.saved = map[string]subscriptions.Subscription{to: {ID: to, Environment: w.env, ConnectionID: "acme",
			ProviderConfigKey: "github", EventTypes: []string{"issues.*"}, Filter: `event.body.n > 1`}}
		var uuids []string
		for i, of := range []struct{ kind, connection string }{
			{"issues.opened", "acme"}, {"issues.opened", "acme"}, {"issues.closed", "acme"}, {"push", "acme"},
			{"issues.opened", "other"}, {"issues.repeat", "acme"}, {"issues.ping", "acme"},
		} {
			e, _ := w.event(Delivery{}, to)
			e.Type, e.ConnectionID, e.ProviderConfigKey = of.kind, of.connection, "github"
			body := fmt.Sprintf(`{"n":%d}`, i)
			e.Payload = &events.Payload{Headers: "{}", Body: []byte(body), Encoding: events.JSON}
			e.BodySize, e.ContentType = maxFilterBodies, "application/json"
			if e.Control = of.kind == "issues.ping"; of.kind == "issues.repeat" {
				e.DuplicateOf, e.Payload = new(uuids[0]), nil
			}
			w.insertAs(t, e, nil)
			uuids = append(uuids, e.UUID)
		}
		list, _, err := w.events.List(t.Context(), access.Whole(w.env), events.Filter{},
			page.Request{Limit: 10, Ascending: true})
		require.NoError(t, err)
		b := Bulk{View: access.Whole(w.env), Events: list, To: to, Limit: 10}
		all, _ := w.startBulk(t, b)
		require.Equal(t, []Started{{Key{uuids[2], to}, 2}}, all.Started)
		require.Equal(t, map[SkipReason]int64{SkipNotMatched: 4, SkipDuplicate: 1, SkipControl: 1}, all.Skipped)
		d := w.read(t, all.Started[0].Key)
		require.Equal(t, Pending, d.Status)
		require.True(t, (&job{delivery: d}).replay())
		e, err := w.events.Get(t.Context(), access.Whole(w.env), uuids[2])
		require.NoError(t, err)
		require.Equal(t, events.Received, e.Status, "pending, and not attempted")

		all, _ = w.startBulk(t, b)
		require.Empty(t, all.Started)
		require.Equal(t, map[SkipReason]int64{SkipNotMatched: 4, SkipNotFailed: 1, SkipDuplicate: 1, SkipControl: 1},
			all.Skipped)

		w.subs.byID[to].Enabled = false
		b.Events = list[1:2]
		w.subs.saved[to] = subscriptions.Subscription{ID: to, Environment: w.env, EventTypes: []string{"*"}}
		all, _ = w.startBulk(t, b)
		require.Len(t, all.Started, 1)
		require.Equal(t, Held, w.read(t, all.Started[0].Key).Status)
	})
}

// Of two replays that make the same delivery at the same time one makes it, and the other learns that something has
// changed and does nothing.
func TestBulkMakesADeliveryOnce(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		to := w.subscription()
		event, _ := w.event(Delivery{}, to)
		event.Payload = &events.Payload{Headers: "{}", Encoding: events.Text}
		w.insertAs(t, event, nil)
		e, err := w.events.Get(t.Context(), access.Whole(w.env), event.UUID)
		require.NoError(t, err)
		b := Bulk{View: access.Whole(w.env), Events: []events.Event{e}, To: to, Limit: 1}
		r, err := w.PrepareBulk(t.Context(), b)
		require.NoError(t, err)
		start := func() error {
			c, err := r.choose(nil, false, testTime()) // what both have read before either's commit
			require.NoError(t, err)
			require.Len(t, c.made, 1)
			return w.db.Tx(t.Context(), func(tx *sql.Tx) error { return w.store.create(t.Context(), tx, c.made, 1) })
		}
		require.NoError(t, start())
		err = start()
		require.True(t, Changed(err), "%v", err)
		require.Equal(t, map[Status]int{Pending: 1}, w.statuses(t, event.UUID))
	})
}

// A started delivery is open until its first attempt has endedand no longer. Its outcome is counted once.
func TestBulkProgress(t *testing.T) {
	t.Parallel()
	key := Key{"e", "s"}
	for _, c := range []struct {
		d    *Delivery
		want BulkProgress
		soon bool
	}{
		{&Delivery{Generation: 2, Status: Pending}, BulkProgress{Open: []Started{{key, 2}}}, false},
		{&Delivery{Generation: 2, Status: Sending}, BulkProgress{Open: []Started{{key, 2}}}, false},
		{&Delivery{Generation: 2, Status: Succeeded, GenerationAttempts: 1}, BulkProgress{Succeeded: 1}, false},
		{&Delivery{Generation: 2, Status: Succeeded, GenerationAttempts: 3}, BulkProgress{Succeeded: 1}, false},
		{&Delivery{Generation: 2, Status: RetryWait, GenerationAttempts: 1}, BulkProgress{Failed: 1}, false},
		{&Delivery{Generation: 2, Status: Sending, GenerationAttempts: 1}, BulkProgress{Failed: 1}, false},
		{&Delivery{Generation: 2, Status: Held, GenerationAttempts: 1}, BulkProgress{Failed: 1}, false},
		{&Delivery{Generation: 2, Status: Dead}, BulkProgress{Failed: 1}, false},
		{&Delivery{Generation: 2, Status: Held}, BulkProgress{Other: 1}, false},
		{&Delivery{Generation: 2, Status: Cancelled}, BulkProgress{Other: 1}, false},
		{&Delivery{Generation: 3, Status: Pending}, BulkProgress{Other: 1}, false},
		{nil, BulkProgress{Other: 1}, false},
		{&Delivery{Generation: 2, Status: Held}, BulkProgress{Open: []Started{{key, 2}}}, true},
		{&Delivery{Generation: 2, Status: Held, GenerationAttempts: 1}, BulkProgress{Failed: 1}, true},
		{&Delivery{Generation: 2, Status: Cancelled}, BulkProgress{Other: 1}, true},
	} {
		var p BulkProgress
		p.add(Started{key, 2}, c.d, c.soon)
		require.Equal(t, c.want, p, "%+v", c.d)
	}
}
