package events_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
)

// keyed stores an event with a key from a source, claimed as ingest claims it, unless the event is a duplicate.
func keyed(t *testing.T, store testkit.Store, env id.Environment, connection, source, key, eventType string,
	repeats *events.Event) events.Event {
	t.Helper()
	e := newEvent(env)
	e.ConnectionUUID, e.IdempotencySource, e.IdempotencyKey, e.Type = connection, source, key, eventType
	switch {
	case repeats != nil:
		e.DuplicateOf, e.Payload = &repeats.UUID, nil
	case source == events.SourceBodyHash:
		e.IdempotencyKey = events.BodyKey(key, e.UUID)
	case source == events.SourceEvent:
		e.IdempotencyKey = e.UUID
	default:
		hashes := events.HashesOfKey(source, key)
		claim(t.Context(), t, store, started, &events.Key{ConnectionUUID: e.KeyScope(), Hash: hashes[len(hashes)-1],
			EventUUID: e.UUID, ExpiresMillis: events.KeyForever})
	}
	run(t.Context(), t, store.DB, events.Insert([]events.NewEvent{e})...)
	return e.Event
}

// found returns the uuids that a search finds, in pages of two.
func found(t *testing.T, s *events.Store, env id.Environment, f events.Filter) []string {
	t.Helper()
	out := []string{}
	request := page.Request{Limit: 2, Ascending: true}
	for {
		rows, _, err := s.List(t.Context(), access.Whole(env), f, request)
		require.NoError(t, err)
		for _, e := range rows[:min(2, len(rows))] {
			out = append(out, e.UUID)
		}
		if len(rows) <= 2 {
			return out
		}
		request.After = out[len(out)-1]
	}
}

// A key finds its event and the duplicates of it, for any source of the key, on any connections, and nothing of another
// environment.
func TestSearchByKey(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newStore(store.DB)
		env, other := newEnvironment(), newEnvironment()
		one, two := id.NewUUID(), id.NewUUID()
		add := func(env id.Environment, connection, source, key string, repeats *events.Event) events.Event {
			return keyed(t, store, env, connection, source, key, "a.b", repeats)
		}
		first := add(env, one, "header:x-id", "k", nil)
		again := add(env, one, "header:x-id", "k", &first)
		onTwo := add(env, two, "json:/id", "k", nil)
		published := add(env, "", events.SourcePublisher, "k", nil)
		foreign := add(other, id.NewUUID(), "header:x-id", "k", nil)
		body := add(env, one, events.SourceBodyHash, strings.Repeat("ab", 32), nil)
		bodyAgain := add(env, one, events.SourceBodyHash, body.IdempotencyKey, &body)
		without := add(env, one, events.SourceEvent, "", nil)
		add(env, one, "header:x-id", "K", nil)
		for _, f := range []func(string) events.Filter{
			func(q string) events.Filter { return events.Filter{Search: q} },
			func(q string) events.Filter { return events.Filter{IdempotencyKeys: []string{q}} },
		} {
			require.Equal(t, []string{first.UUID, again.UUID, onTwo.UUID, published.UUID}, found(t, s, env, f("k")))
			require.Equal(t, []string{foreign.UUID}, found(t, s, other, f("k")))
			require.Equal(t, []string{body.UUID, bodyAgain.UUID}, found(t, s, env, f(body.IdempotencyKey)))
			require.Equal(t, []string{without.UUID}, found(t, s, env, f(without.UUID)))
			require.Empty(t, found(t, s, env, f("nobody's")))
			require.Empty(t, found(t, s, newEnvironment(), f("k")))
		}
		require.Equal(t, []string{first.UUID}, found(t, s, env, events.Filter{Search: first.UUID}))
		require.Empty(t, found(t, s, other, events.Filter{Search: first.UUID}))
		require.Equal(t, []string{first.UUID, again.UUID, onTwo.UUID, published.UUID, body.UUID, bodyAgain.UUID},
			found(t, s, env, events.Filter{IdempotencyKeys: []string{"k", body.IdempotencyKey}, Types: []string{"a.*"}}))
		require.Equal(t, []string{again.UUID}, found(t, s, env, events.Filter{Search: "k", Duplicate: new(true)}))
	})
}

// A key that more events have than are looked up one by one finds them all the same.
func TestSearchByCommonKey(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s, env := newStore(store.DB), newEnvironment()
		want := []string{}
		for n := range 102 {
			e := keyed(t, store, env, id.NewUUID(), "header:x-id", "1", "a.b", nil)
			want = append(want, e.UUID)
			keyed(t, store, env, e.ConnectionUUID, "header:x-id", "2", "a.b", nil)
			if n < 99 {
				continue
			}
			for _, f := range []events.Filter{{Search: "1"}, {IdempotencyKeys: []string{"1"}}} {
				rows, _, err := s.List(t.Context(), access.Whole(env), f, page.Request{Limit: page.MaxLimit, Ascending: true})
				require.NoError(t, err)
				got := []string{}
				for _, e := range rows {
					got = append(got, e.UUID)
				}
				require.Equal(t, want, got)
			}
		}
	})
}

// A text that too many types begin with is refused, and one that is long enough is not; the limit counts types, not
// events.
func TestSearchMustSelect(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s, env := newStore(store.DB), newEnvironment()
		const limit = 200
		var list []events.NewEvent
		for n := range limit {
			for range 2 {
				e := newEvent(env)
				e.Type = fmt.Sprintf("t.%03d", n)
				list = append(list, e)
			}
		}
		run(t.Context(), t, store.DB, events.Insert(list)...)
		all, _, err := s.List(t.Context(), access.Whole(env), events.Filter{Search: "t."},
			page.Request{Limit: 250, Ascending: true})
		require.NoError(t, err)
		require.Len(t, all, 251)
		require.True(t, slices.IsSortedFunc(all, func(a, b events.Event) int { return strings.Compare(a.UUID, b.UUID) }))
		one := newEvent(env)
		one.Type = "t.more"
		run(t.Context(), t, store.DB, events.Insert([]events.NewEvent{one})...)
		_, _, err = s.List(t.Context(), access.Whole(env), events.Filter{Search: "t."}, page.Request{Limit: 1})
		var e *apperr.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "query.q selective", e.Details[0].Location+" "+e.Details[0].Rule)
		require.Equal(t, []string{one.UUID}, found(t, s, env, events.Filter{Search: "t.m"}))
		require.Len(t, found(t, s, env, events.Filter{Search: "t.1"}), 200)
	})
}

// The types that a prefix selects are those that begin with it, byte for byte, in any locale.
func TestSearchByType(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s, ctx := newStore(store.DB), t.Context()
		alphabet := []rune{'a', 'B', 'b', '.', '%', '_', '\'', 'é', 'ß', '\u07ff', '\ud7ff', '\ue000', '\uffff', '\U0001f600',
			'\U0010ffff'}
		text := rapid.StringOfN(rapid.RuneFrom(alphabet), 1, 3, -1)
		rapid.Check(t, func(rt *rapid.T) {
			env := newEnvironment()
			var list []events.NewEvent
			for range rapid.IntRange(1, 8).Draw(rt, "events") {
				e := newEvent(env)
				e.Type = text.Draw(rt, "type")
				list = append(list, e)
			}
			run(ctx, rt, store.DB, events.Insert(list)...)
			prefix := text.Draw(rt, "prefix")
			want := []string{}
			for _, e := range list {
				if strings.HasPrefix(e.Type, prefix) {
					want = append(want, e.UUID)
				}
			}
			rows, _, err := s.List(ctx, access.Whole(env), events.Filter{Search: prefix},
				page.Request{Limit: 20, Ascending: true})
			require.NoError(rt, err)
			got := []string{}
			for _, e := range rows {
				got = append(got, e.UUID)
			}
			require.Equal(rt, want, got, "%q", prefix)
		})
	})
}

// The rows that a search reads grow with its result and not with the history: no table from end to end, and few rows by
// index.
func TestSearchReadsLittle(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s, env := newStore(store.DB), newEnvironment()
		connection := id.NewUUID()
		rare := keyed(t, store, env, connection, "header:x-id", "needle", "rare.type", nil)
		for range 10 {
			var list []events.NewEvent
			var keys []*events.Key
			for range 400 {
				e := newEvent(env)
				e.ConnectionUUID, e.IdempotencyKey = connection, id.NewUUID()
				list = append(list, e)
				keys = append(keys, key(connection, e.IdempotencyKey, e.UUID, events.KeyForever))
			}
			claim(t.Context(), t, store, started, keys...)
			run(t.Context(), t, store.DB, events.Insert(list)...)
		}
		search := func() {
			for _, f := range []events.Filter{{Search: rare.UUID}, {Search: "needle"}, {Search: "rare."},
				{IdempotencyKeys: []string{"needle"}}} {
				require.Equal(t, []string{rare.UUID}, found(t, s, env, f))
			}
			require.Empty(t, found(t, s, env, events.Filter{Search: "nothing"}))
		}
		if store.DB.Engine() == db.SQLite {
			search()
			for _, query := range []string{
				"SELECT e.event_uuid FROM webhook_events e WHERE e.environment_id = 'a' AND e.event_type = 'b' ORDER BY " +
					"e.event_uuid LIMIT 2",
				"SELECT e.event_type FROM webhook_events e WHERE e.environment_id = 'a' AND e.event_type >= 'b' AND " +
					"e.event_type < 'c' ORDER BY e.event_type LIMIT 1",
			} {
				require.Contains(t, plan(t, store, query),
					"USING COVERING INDEX webhook_events_by_type (environment_id=? AND event_type")
			}
			require.Contains(t, plan(t, store, `SELECT e.event_uuid FROM webhook_events e WHERE e.environment_id = 'a'
				AND e.duplicate_of IS NOT NULL
				AND e.duplicate_of IN ('b') ORDER BY e.event_uuid LIMIT 2`),
				"webhook_events_by_original (environment_id=? AND duplicate_of=?)")
			return
		}
		_, err := store.DB.Write().ExecContext(t.Context(), "ANALYZE webhook_events, webhook_event_keys")
		require.NoError(t, err)
		before := readsOf(t, store)
		search()
		read := readsOf(t, store) - before
		require.Less(t, read, 500)
		require.Positive(t, read)
	})
}

// readsOf returns how many rows of events and keys PostgreSQL has read. One list after the other uses one connection,
// so its statistics are all there are.
func readsOf(t *testing.T, store testkit.Store) (n int) {
	t.Helper()
	require.NoError(t, store.DB.List(t.Context(), "stats", func(ctx context.Context, q db.Querier) error {
		if _, err := q.ExecContext(ctx, "SELECT pg_stat_force_next_flush()"); err != nil {
			return err
		}
		return q.QueryRowContext(ctx, `SELECT SUM(t.seq_tup_read) + SUM(i.idx_tup_read) FROM pg_stat_user_tables t
			JOIN pg_stat_user_indexes i USING (relid)
			WHERE t.relname IN ('webhook_events', 'webhook_event_keys')`).Scan(&n)
	}))
	return n
}

// plan returns SQLite's plan of a query.
func plan(t *testing.T, store testkit.Store, query string) string {
	t.Helper()
	rows, err := store.DB.Read().QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query)
	require.NoError(t, err)
	var lines []string
	require.NoError(t, db.Each(rows, func(r *sql.Rows) error {
		var id, parent, unused int
		var detail string
		err := r.Scan(&id, &parent, &unused, &detail)
		lines = append(lines, detail)
		return err
	}))
	return strings.Join(lines, "\n")
}
