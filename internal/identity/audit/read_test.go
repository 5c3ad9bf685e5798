package audit_test

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
)

// record commits one event.
func record(ctx context.Context, t require.TestingT, d *db.DB, e audit.Event, ms int64) {
	require.NoError(t, d.Tx(ctx, func(tx *sql.Tx) error { return audit.Record(ctx, tx, clock.FromMillis(ms), e) }))
}

// Every committed event gets a number, each trail counts from 1 without a gap regardless of which process seals, and
// nothing ever appears behind a number that was read.
func TestSealIsGapless(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		const writers, each = 6, 30
		s, ctx := audit.New(audit.Config{DB: store.DB}), t.Context()
		trails := []audit.Trail{{Team: "team_1", Environment: "env_1"}, {Team: "team_1", Environment: "env_2"},
			{Team: "team_1"}}
		var work sync.WaitGroup
		violations := make(chan error, writers+2)
		for w := range writers {
			work.Go(func() {
				for n := range each {
					e := event()
					e.Team, e.Environment, e.TargetID = "team_1", trails[(w+n)%3].Environment, strconv.Itoa(w)+" "+strconv.Itoa(n)
					err := store.DB.Tx(ctx, func(tx *sql.Tx) error { return audit.Record(ctx, tx, time.Unix(0, 0), e) })
					if err != nil {
						violations <- err
						return
					}
				}
			})
		}
		done, end := context.WithCancel(ctx)
		defer end()
		for range 2 {
			work.Go(func() {
				for done.Err() == nil {
					if err := s.Seal(ctx); err != nil {
						violations <- err
						return
					}
				}
			})
		}
		last, seen := map[audit.Trail]int64{}, map[string]bool{}
		for len(seen) < writers*each && len(violations) == 0 {
			for _, trail := range trails {
				list, err := s.ReadAfter(ctx, trail, audit.Filter{}, last[trail], 7)
				require.NoError(t, err)
				for _, e := range list {
					last[trail]++
					require.Equal(t, last[trail], e.Seq)
					require.False(t, seen[e.TargetID])
					seen[e.TargetID] = true
				}
			}
		}
		end()
		work.Wait()
		require.Empty(t, violations)
	})
}

// A transaction that began early and commits late gets a later number, and not one that a reader has passed already.
func TestSealFollowsCommits(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d, err := db.Open(ctx, testkit.NewPostgres(t), "")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	s, trail := audit.New(audit.Config{DB: d}), audit.Trail{Environment: "env_1"}
	require.NoError(t, d.Tx(ctx, func(tx *sql.Tx) error {
		late := event()
		late.TargetID = "late"
		if err := audit.Record(ctx, tx, time.Unix(0, 0), late); err != nil {
			return err
		}
		record(ctx, t, d, event(), 0)
		require.NoError(t, s.Seal(ctx))
		list, err := s.ReadAfter(ctx, trail, audit.Filter{}, 0, 10)
		require.Len(t, list, 1)
		return err
	}))
	require.NoError(t, s.Seal(ctx))
	list, err := s.ReadAfter(ctx, trail, audit.Filter{}, 1, 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "late", list[0].TargetID)
}

// However little a search looks at before it returns, and with any combination of filters, a list holds exactly the
// events of the trail that fit, and walking its pages shows
// each once, in the order of the numbers. More events than one transaction numbers are all numbered.
func TestListAgainstDefinition(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		ctx := t.Context()
		actions, texts := []string{"thing.make", "thing.end", "things.end", "Thing.make", "th_ng.make"},
			[]string{"a", "A", "b"}
		rapid.Check(t, func(rt *rapid.T) {
			s := audit.New(audit.Config{DB: store.DB})
			if rapid.Bool().Draw(rt, "little at a time") {
				s.BoundSearch(rapid.Int64Range(1, 3).Draw(rt, "window"))
			}
			trail := audit.Trail{Team: "team_1", Environment: id.Environment(id.New(id.PrefixEnvironment))}
			text := rapid.SampledFrom(texts)
			var all []audit.Event
			var times []int64
			for range rapid.IntRange(1, 6).Draw(rt, "events") {
				e := audit.Event{Team: "team_1", Environment: trail.Environment, Action: rapid.SampledFrom(actions).Draw(rt,
					"action"), Outcome: rapid.SampledFrom([]audit.Outcome{audit.Success, audit.Denied}).Draw(rt, "outcome"),
					Actor: access.Principal{Kind: rapid.SampledFrom([]access.Kind{access.KindUser, access.KindAPIKey}).Draw(rt,
						"kind"), ID: text.Draw(rt, "actor"), RequestID: text.Draw(rt, "request")},
					TargetType: text.Draw(rt, "type"), TargetID: text.Draw(rt, "target")}
				at := rapid.Int64Range(0, 4).Draw(rt, "time")
				record(ctx, rt, store.DB, e, at)
				all, times = append(all, e), append(times, at)
			}
			require.NoError(rt, s.Seal(ctx))
			some := func(label string) []string { return rapid.SliceOfN(text, 0, 2).Draw(rt, label) }
			f := audit.Filter{ActorIDs: some("actors"), TargetTypes: some("types"), TargetIDs: some("targets"),
				RequestIDs: some("requests")}
			if rapid.Bool().Draw(rt, "by action") {
				f.Actions = rapid.SliceOfN(rapid.SampledFrom(append(actions, "thing.*", "th_ng.*")), 1, 2).Draw(rt, "actions")
			}
			if rapid.Bool().Draw(rt, "by time") {
				after, before := clock.FromMillis(rapid.Int64Range(-1, 4).Draw(rt, "after")),
					clock.FromMillis(rapid.Int64Range(0, 5).Draw(rt, "before"))
				f.After, f.Before = &after, &before
			}
			anyOf := func(values []string, v string) bool { return len(values) == 0 || slices.Contains(values, v) }
			want := []int64{}
			for i, e := range all {
				object, _, _ := strings.Cut(e.Action, ".")
				if anyOf(f.ActorIDs, e.Actor.ID) && anyOf(f.TargetTypes, e.TargetType) && anyOf(f.TargetIDs, e.TargetID) &&
					anyOf(f.RequestIDs, e.Actor.RequestID) &&
					(len(f.Actions) == 0 || slices.Contains(f.Actions, e.Action) || slices.Contains(f.Actions, object+".*")) &&
					(f.After == nil || times[i] > clock.Millis(*f.After) && times[i] < clock.Millis(*f.Before)) {
					want = append(want, int64(i+1))
				}
			}
			for _, ascending := range []bool{true, false} {
				got := []int64{}
				request := page.Request{Limit: rapid.IntRange(1, 3).Draw(rt, "limit"), Ascending: ascending}
				for {
					rows, place, err := s.List(ctx, trail, f, request)
					require.NoError(rt, err)
					for _, e := range rows[:min(len(rows), request.Limit)] {
						got = append(got, e.Seq)
					}
					switch {
					case len(rows) > request.Limit:
						require.Empty(rt, place)
						place = strconv.FormatInt(got[len(got)-1], 10)
					case place != "":
						require.NotEqual(rt, request.After, place, "the list does not get on")
					}
					if place == "" {
						break
					}
					request.After = place
				}
				if !ascending {
					slices.Reverse(got)
				}
				require.Equal(rt, want, got)
			}
			foreign, _, err := s.List(ctx, audit.Trail{Team: "team_1"}, f, page.Request{Limit: 10})
			require.NoError(rt, err)
			require.Empty(rt, foreign)
		})
	})
}
