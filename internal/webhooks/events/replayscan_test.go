package events_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
)

// A scan that is followed from place to place shows what the list's filter and its own bounds select, each event once
// and in order, however small its windows and its parts are, and never looks at more than a window at a time.
func TestScan(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newStore(store.DB)
		rapid.Check(t, func(rt *rapid.T) {
			env := id.Environment(id.New(id.PrefixEnvironment))
			list := storeRandom(t.Context(), rt, store, env)
			storeRandom(t.Context(), rt, store, id.Environment(id.New(id.PrefixEnvironment)))
			scan := events.Scan{Filter: drawFilter(rt, list), Window: rapid.IntRange(1, 4).Draw(rt, "window"),
				Descending: rapid.Bool().Draw(rt, "descending"), Failing: rapid.Bool().Draw(rt, "failing")}
			uuid := rapid.Custom(func(rt *rapid.T) string { return rapid.SampledFrom(list).Draw(rt, "event").UUID })
			if rapid.Bool().Draw(rt, "some") {
				scan.UUIDs = append(rapid.SliceOfN(uuid, 1, 3).Draw(rt, "uuids"), id.NewUUID())
			}
			if rapid.Bool().Draw(rt, "through") {
				scan.Through = uuid.Draw(rt, "last")
			}
			if rapid.Bool().Draw(rt, "received through") {
				scan.ReceivedThrough = at(rapid.Int64Range(0, 4).Draw(rt, "received"))
			}
			want := []string{}
			for _, e := range list {
				failing := e.Status == events.Failed || e.Status == events.DeadLetter
				if fits(rt, scan.Filter, e) && (!scan.Failing || failing) &&
					(scan.UUIDs == nil || slices.Contains(scan.UUIDs, e.UUID)) &&
					(scan.Through == "" || e.UUID <= scan.Through) &&
					(scan.ReceivedThrough.IsZero() || !e.ReceivedAt.After(scan.ReceivedThrough)) {
					want = append(want, e.UUID)
				}
			}
			if scan.Descending {
				slices.Reverse(want)
			}
			got, place := []string{}, ""
			limit := rapid.IntRange(1, 3).Draw(rt, "limit")
			for end := false; !end; {
				found, err := s.Next(t.Context(), access.Whole(env), scan, place, limit)
				require.NoError(rt, err)
				require.LessOrEqual(rt, len(found.Events), min(limit, scan.Window))
				for _, e := range found.Events {
					got = append(got, e.UUID)
				}
				require.True(rt, found.End || found.Place != place, "a scan gets on")
				place, end = found.Place, found.End
			}
			require.Equal(rt, want, got)

			first, last, err := s.Bounds(t.Context(), env)
			require.NoError(rt, err)
			require.Equal(rt, []string{list[0].UUID, list[len(list)-1].UUID}, []string{first, last})
		})
		first, last, err := s.Bounds(t.Context(), id.Environment(id.New(id.PrefixEnvironment)))
		require.NoError(t, err)
		require.Empty(t, first+last)
	})
}
