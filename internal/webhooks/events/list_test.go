package events_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
)

// Small sets of values, so that filters hit. Among them are those that patterns, collations and case could confuse.
func types() []string {
	return []string{"a", "a.b", "a.b.c", "a.", "ab.c", "A.b", "a_b", "a%b", "ä.b", "unknown"}
}

func texts() []string { return []string{"github", "GitHub", "stripe", "a,b", "ä"} }

func statuses() []events.Status { return events.Statuses() }

// countersFor returns counters whose status is the one given.
func countersFor(s events.Status) events.Counters {
	switch s {
	case events.Forwarding:
		return events.Counters{Sending: 1}
	case events.Forwarded:
		return events.Counters{Succeeded: 1, Attempted: 1}
	case events.Failed:
		return events.Counters{RetryWait: 1, Attempted: 1}
	case events.DeadLetter:
		return events.Counters{Dead: 1, Attempted: 1}
	case events.Received:
	}
	return events.Counters{}
}

// storeRandom stores random events of the environment and returns them in the order of their uuids, as they are read.
func storeRandom(ctx context.Context, rt *rapid.T, store testkit.Store, env id.Environment) []events.Event {
	text, size := rapid.SampledFrom(texts()), rapid.IntRange(1, 8).Draw(rt, "events")
	list := make([]events.NewEvent, size)
	changes := make([]events.Change, 0, size)
	var keys []*events.Key
	uuids := testkit.UUIDs(at(0))
	for i := range list {
		e := newEvent(env)
		e.UUID = uuids()
		e.Provider, e.ProviderConfigKey, e.ConnectionID = text.Draw(rt, "provider"), text.Draw(rt, "key"),
			text.Draw(rt, "connection")
		e.IdempotencyKey, e.Type = text.Draw(rt, "idempotency"), rapid.SampledFrom(types()).Draw(rt, "type")
		e.Control, e.ReceivedAt = rapid.Bool().Draw(rt, "control"), at(rapid.Int64Range(0, 4).Draw(rt, "received"))
		if rapid.Bool().Draw(rt, "batch") {
			e.Types = append([]string{e.Type}, rapid.SliceOfN(rapid.SampledFrom(types()), 0, 2).Draw(rt, "types")...)
		}
		if rapid.Bool().Draw(rt, "duplicate") {
			// It is a duplicate of the event that has its key.
			if o := slices.IndexFunc(list[:i], func(o events.NewEvent) bool {
				return o.DuplicateOf == nil && o.IdempotencyKey == e.IdempotencyKey
			}); o >= 0 {
				e.DuplicateOf, e.Payload = new(list[o].UUID), nil
			}
		}
		if e.DuplicateOf == nil {
			keys = append(keys, &events.Key{ConnectionUUID: e.ConnectionUUID, Hash: events.HashID(e.IdempotencyKey),
				EventUUID: e.UUID, ExpiresMillis: events.KeyForever})
		}
		list[i] = e
		changes = append(changes, events.Change{EventUUID: e.UUID, Environment: env, At: e.ReceivedAt,
			Counters: countersFor(rapid.SampledFrom(statuses()).Draw(rt, "status"))})
	}
	_, statement := events.Apply(changes, &events.Log{})
	run(ctx, rt, store.DB, append(events.Insert(list), statement)...)
	claim(ctx, rt, store, started, keys...)
	out := make([]events.Event, size)
	for i, e := range list {
		out[i] = e.Event
		out[i].Status = events.StatusOf(changes[i].Counters)
	}
	return out
}

func drawFilter(rt *rapid.T, list []events.Event) events.Filter {
	var f events.Filter
	some := func(label string) []string { return rapid.SliceOfN(rapid.SampledFrom(texts()), 0, 3).Draw(rt, label) }
	fields := rapid.SliceOfN(rapid.IntRange(0, 11), 0, 3).Draw(rt, "fields")
	for _, field := range fields {
		switch field {
		case 0:
			f.Statuses = rapid.SliceOfN(rapid.SampledFrom(statuses()), 1, 3).Draw(rt, "statuses")
		case 1:
			f.Providers = some("providers")
		case 2:
			f.ProviderConfigKeys = some("keys")
		case 3:
			f.ConnectionIDs = some("connections")
		case 4:
			f.IdempotencyKeys = some("idempotency keys")
		case 5:
			patterns := append(types(), "*", "a.*", "a.b.*", "ab.*", "A.*", "ä.*", "*.b", "*.*", "a.*.c", "*.b.*")
			f.Types = rapid.SliceOfN(rapid.SampledFrom(patterns), 0, 3).Draw(rt, "types")
		case 6:
			f.Duplicate = new(rapid.Bool().Draw(rt, "duplicates"))
		case 7:
			f.Control = new(rapid.Bool().Draw(rt, "controls"))
		case 8:
			f.ReceivedAfter = new(at(rapid.Int64Range(-1, 5).Draw(rt, "after")))
		case 9:
			f.ReceivedBefore = new(at(rapid.Int64Range(-1, 5).Draw(rt, "before")))
		case 10:
			e := rapid.SampledFrom(list).Draw(rt, "searched")
			f.Search = rapid.SampledFrom(append(searches(), e.UUID, e.UUID[:30], e.IdempotencyKey, e.Type)).Draw(rt, "search")
		default:
			f.SubscriptionIDs = []string{rapid.SampledFrom(list).Draw(rt, "delivered").UUID}
		}
	}
	return f
}

// searches are the beginnings of types, or not, among them those that patterns and collations could confuse.
func searches() []string {
	return []string{"a", "a.", "a.b", "a.B", "A", "a_", "a%", "ä", "Ä", "u", "unknown", "z", "%", "_", "'", "body:", ".",
		"\U0010ffff"}
}

// fits is the definition of a filter.
func fits(t require.TestingT, f events.Filter, e events.Event) bool {
	anyOf := func(values []string, v string) bool { return len(values) == 0 || slices.Contains(values, v) }
	return (len(f.Statuses) == 0 || slices.Contains(f.Statuses, e.Status)) &&
		anyOf(f.Providers, e.Provider) && anyOf(f.ProviderConfigKeys, e.ProviderConfigKey) &&
		anyOf(f.ConnectionIDs, e.ConnectionID) &&
		anyOf(f.IdempotencyKeys, e.IdempotencyKey) && anyOf(f.SubscriptionIDs, e.UUID) &&
		(len(f.Types) == 0 || slices.ContainsFunc(e.AllTypes(), func(kind string) bool {
			return slices.ContainsFunc(f.Types, func(p string) bool {
				return matchesType(p, &events.Event{Type: kind, Provider: e.Provider, ProviderConfigKey: e.ProviderConfigKey})
			})
		})) &&
		(f.Search == "" || f.Search == e.UUID || f.Search == e.IdempotencyKey || strings.HasPrefix(e.Type, f.Search)) &&
		(f.Duplicate == nil || *f.Duplicate == (e.DuplicateOf != nil)) &&
		(f.Control == nil || *f.Control == e.Control) &&
		(f.ReceivedAfter == nil || e.ReceivedAt.After(*f.ReceivedAfter)) &&
		(f.ReceivedBefore == nil || e.ReceivedAt.Before(*f.ReceivedBefore))
}

// However little a search looks at before it returns, and with any combination of filters, a list holds exactly the
// events that fit, and walking its pages shows each once, newest or oldest first. Another environment sees none of
// them.
func TestListAgainstDefinition(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		ctx := t.Context()
		rapid.Check(t, func(rt *rapid.T) {
			s, env := newStore(store.DB), newEnvironment()
			if rapid.Bool().Draw(rt, "little at a time") {
				s.BoundSearch(rapid.IntRange(1, 4).Draw(rt, "window"))
			}
			if rapid.Bool().Draw(rt, "every query that may end does") {
				s.LimitWindows(time.Nanosecond)
			}
			list := storeRandom(ctx, rt, store, env)
			f := drawFilter(rt, list)
			want := []string{}
			for _, e := range list {
				if fits(rt, f, e) {
					want = append(want, e.UUID)
				}
			}
			require.Equal(rt, want, walk(ctx, rt, s, env, f, true))
			slices.Reverse(want)
			require.Equal(rt, want, walk(ctx, rt, s, env, f, false))
			foreign, _, err := s.List(ctx, access.Whole(newEnvironment()), f, page.Request{Limit: page.MaxLimit})
			require.NoError(rt, err)
			require.Empty(rt, foreign)
		})
	})
}

// walk returns the uuids of all pages.
func walk(ctx context.Context, rt *rapid.T, s *events.Store, env id.Environment, f events.Filter,
	ascending bool) []string {
	request := page.Request{Limit: rapid.IntRange(1, 4).Draw(rt, "limit"), Ascending: ascending}
	all := []string{}
	for {
		rows, place, err := s.List(ctx, access.Whole(env), f, request)
		require.NoError(rt, err)
		for _, e := range rows[:min(len(rows), request.Limit)] {
			all = append(all, e.UUID)
		}
		switch {
		case len(rows) > request.Limit:
			require.Len(rt, rows, request.Limit+1)
			require.Empty(rt, place)
			place = all[len(all)-1]
		case place == "":
			return all
		}
		require.NotEqual(rt, request.After, place, "the list does not get on")
		request.After = place
	}
}

// A read returns the stored event to the last byte and field.
func TestReadBack(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newStore(store.DB)
		env := newEnvironment()
		original, repeat := newEvent(env), newEvent(env)
		original.Payload = &events.Payload{Headers: `{"a":"ä"}`, Body: []byte{0, 0xff, '\n', '"'}, Encoding: events.Base64}
		original.Suspect, original.Hops, original.BodySize = new(events.SuspectSameBody), 3, 4
		original.Types = []string{original.Type, "b.c"}
		repeat.DuplicateOf, repeat.Payload = new(original.UUID), nil
		empty := newEvent(env)
		empty.Payload.Body, empty.Payload.Encoding = []byte{}, events.Text
		run(t.Context(), t, store.DB, events.Insert([]events.NewEvent{original, repeat, empty})...)

		for _, e := range []events.NewEvent{original, repeat} {
			want := fresh(e.Event)
			got, err := s.Get(t.Context(), access.Whole(env), e.UUID)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		list := []events.Event{original.Event, repeat.Event, empty.Event}
		payloads, err := s.Payloads(t.Context(), env, list)
		require.NoError(t, err)
		require.Len(t, payloads, 2)
		require.Equal(t, *original.Payload, payloads[original.UUID])
		require.Empty(t, payloads[empty.UUID].Body)
		require.Equal(t, events.Text, payloads[empty.UUID].Encoding)

		foreign, err := s.Payloads(t.Context(), newEnvironment(), list)
		require.NoError(t, err)
		require.Empty(t, foreign)
		_, err = s.Get(t.Context(), access.Whole(newEnvironment()), original.UUID)
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
	})
}

// An id that cannot exist costs no query: the store is asked although it is closed.
func TestImpossibleID(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newStore(store.DB)
		require.NoError(t, store.DB.Close())
		for _, uuid := range []string{"", "x", "01939A4E-7A5E-7C6F-8A54-3B1F0F6A8F11",
			"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f1\x00"} {
			_, err := s.Get(t.Context(), access.Whole(newEnvironment()), uuid)
			require.True(t, apperr.Is(err, apperr.CodeNotFound), uuid)
		}
		_, err := s.Get(t.Context(), access.Whole(newEnvironment()), id.NewUUID())
		require.False(t, apperr.Is(err, apperr.CodeNotFound))
		require.Error(t, err)
	})
}

// By time of receipt only those events are looked at whose uuids may be of that time: within a day of it, which is more
// than clocks are wrong by.
func TestReceivedBoundsUUIDs(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s, env := newStore(store.DB), newEnvironment()
		const day = 24 * time.Hour
		var uuids []string
		for _, off := range []time.Duration{-day - time.Second, -day + time.Second, 0, day - time.Second, day + time.Second} {
			e := newEvent(env)
			e.UUID = testkit.UUIDs(e.ReceivedAt.Add(off))()
			uuids = append(uuids, e.UUID)
			run(t.Context(), t, store.DB, events.Insert([]events.NewEvent{e})...)
		}
		after, before := at(-1), at(1)
		for _, c := range []struct {
			filter events.Filter
			want   []string
		}{
			{events.Filter{}, uuids},
			{events.Filter{ReceivedAfter: &after}, uuids[1:]},
			{events.Filter{ReceivedBefore: &before}, uuids[:4]},
			{events.Filter{ReceivedAfter: &after, ReceivedBefore: &before}, uuids[1:4]},
		} {
			f := c.filter
			list, _, err := s.List(t.Context(), access.Whole(env), f, page.Request{Limit: page.MaxLimit, Ascending: true})
			require.NoError(t, err)
			found := []string{}
			for _, e := range list {
				found = append(found, e.UUID)
			}
			require.Equal(t, c.want, found)
			scanned, err := s.Next(t.Context(), access.Whole(env), events.Scan{Filter: f, Window: 10}, "", 10)
			require.NoError(t, err)
			require.Len(t, scanned.Events, len(found))
			// An event of another time is no part of a window.
			scanned, err = s.Next(t.Context(), access.Whole(env), events.Scan{Filter: f, Window: len(found) + 1}, "", 10)
			require.NoError(t, err)
			require.True(t, scanned.End)
		}
	})
}

// A list that takes too long ends, and says what helps; one whose reader has gone says nothing of the kind.
func TestSlowList(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s, v := newStore(store.DB), access.Whole(newEnvironment())
		s.BoundLists(time.Nanosecond)
		for _, f := range []events.Filter{{}, {Search: "a"}, {IdempotencyKeys: []string{"a"}}} {
			_, _, err := s.List(t.Context(), v, f, page.Request{Limit: 1})
			var e *apperr.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, apperr.CodeUnavailable, e.Code)
			require.Contains(t, e.Message, "narrow them")
			gone, leave := context.WithCancel(t.Context())
			leave()
			_, _, err = s.List(gone, v, f, page.Request{Limit: 1})
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorAs(t, err, &e)
		}
	})
}
