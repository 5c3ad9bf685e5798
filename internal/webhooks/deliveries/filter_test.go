package deliveries

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
)

// A list's filters by subscription, status of the response and code of the failure find the events that have one
// delivery for which all of them hold, together with the list's other filters.
func TestFilterAgainstDefinition(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		ctx := t.Context()
		w := newWorld(t, store)
		// Each code begins another: a comparison of their beginnings alone would confuse them.
		codes, statuses := []string{"timeout", "time", "t"}, []int{200, 500, 503}
		rapid.Check(t, func(rt *rapid.T) {
			w.env = id.Environment(id.New(id.PrefixEnvironment))
			// A subscription is of one environment.
			subs := []string{id.New(id.PrefixSubscription), id.New(id.PrefixSubscription), id.New(id.PrefixSubscription)}
			all := map[string][]Delivery{}
			for range rapid.IntRange(1, 6).Draw(rt, "events") {
				e, d := w.event(Delivery{Status: Pending}, subs[0])
				var list []Delivery
				for _, sub := range subs[:rapid.IntRange(0, 3).Draw(rt, "deliveries")] {
					own := d
					own.SubscriptionID, own.ID = sub, id.NewUUID()
					list = append(list, own)
				}
				w.insert(rt, []events.NewEvent{e}, list)
				for i := range list {
					if rapid.Bool().Draw(rt, "answered") {
						list[i].LastHTTPStatus = new(rapid.SampledFrom(statuses).Draw(rt, "status"))
					}
					if rapid.Bool().Draw(rt, "failed") {
						list[i].LastFailure = &Failure{Code: rapid.SampledFrom(codes).Draw(rt, "code"), Message: `"code":"t",`,
							At: testTime()}
					}
					text, err := encodeFailure(list[i].LastFailure, "")
					require.NoError(rt, err)
					_, err = store.DB.Write().ExecContext(ctx, `UPDATE deliveries SET last_http_status = $1, last_error = $2
						WHERE event_uuid = $3 AND subscription_id = $4`, list[i].LastHTTPStatus, text, e.UUID, list[i].SubscriptionID)
					require.NoError(rt, err)
				}
				all[e.UUID] = list
				// An attempt that fails is recorded in the event, too, and stays there.
				if slices.ContainsFunc(list, func(d Delivery) bool {
					return d.LastFailure != nil || d.LastHTTPStatus != nil && *d.LastHTTPStatus >= 300
				}) {
					_, err := store.DB.Write().ExecContext(ctx, "UPDATE webhook_events SET last_error = $1 WHERE event_uuid = $2",
						`{"code":"timeout","message":"","at":1}`, e.UUID)
					require.NoError(rt, err)
				}
			}
			c := events.DeliveryCriteria{
				SubscriptionIDs: rapid.SliceOfN(rapid.SampledFrom(subs), 0, 2).Draw(rt, "subscriptions"),
				HTTPStatuses:    rapid.SliceOfN(rapid.SampledFrom(statuses), 0, 2).Draw(rt, "statuses"),
				ErrorCodes:      rapid.SliceOfN(rapid.SampledFrom(append(codes, "%", "time_ut")), 0, 2).Draw(rt, "codes"),
			}
			want := []string{}
			for event, list := range all {
				if len(c.SubscriptionIDs)+len(c.HTTPStatuses)+len(c.ErrorCodes) == 0 ||
					slices.ContainsFunc(list, func(d Delivery) bool {
						require.Equal(rt, fits(c, d), d.fits(c), "a bulk replay selects deliveries as a list does")
						return fits(c, d)
					}) {
					want = append(want, event)
				}
			}
			slices.Sort(want)
			for _, f := range []events.Filter{{DeliveryCriteria: c}, {DeliveryCriteria: c, Statuses: events.Statuses(),
				Control: new(false)}} {
				found, _, err := w.events.List(ctx, access.Whole(w.env), f, page.Request{Limit: page.MaxLimit, Ascending: true})
				require.NoError(rt, err)
				got := []string{}
				for _, e := range found {
					got = append(got, e.UUID)
				}
				require.Equal(rt, want, got)
			}
		})
	})
}

// fits is the definition of the criteria.
func fits(c events.DeliveryCriteria, d Delivery) bool {
	return (len(c.SubscriptionIDs) == 0 || slices.Contains(c.SubscriptionIDs, d.SubscriptionID)) &&
		(len(c.HTTPStatuses) == 0 || d.LastHTTPStatus != nil && slices.Contains(c.HTTPStatuses, *d.LastHTTPStatus)) &&
		(len(c.ErrorCodes) == 0 || d.LastFailure != nil && slices.Contains(c.ErrorCodes, d.LastFailure.Code))
}
