package deliveries

import (
	"context"
	"strconv"

	"sallyport/internal/platform/access"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// shownWhere returns the condition that a delivery or attempt is in the view, as an addition to other conditions, and
// its arguments: it belongs to the environment and to a subscription that the view shows. prefix is that of the
// columns, and next the number of the first placeholder.
func shownWhere(v access.View, prefix string, next int) (condition string, args []any) {
	condition, args = prefix+"environment_id = $"+strconv.Itoa(next), []any{string(v.Environment)}
	if shown, names := subscriptions.ShownWhere(v, prefix+"subscription_id", next+1); shown != "" {
		return condition + " AND " + shown, append(args, names...)
	}
	return condition, args
}

// HideFailures removes from events, which the view shows, the last failure of each whose delivery the view does not
// show.
func (s *Store) HideFailures(ctx context.Context, v access.View, list []events.Event) error {
	if v.Connections.Unrestricted() {
		return nil
	}
	failed := map[int]string{}
	var ids []string
	for i := range list {
		failure, subscriptionID, err := DecodeFailure(list[i].LastError)
		if err != nil {
			return err
		}
		if failure != nil {
			failed[i] = subscriptionID
			ids = append(ids, subscriptionID)
		}
	}
	connections, err := subscriptions.ConnectionsOf(ctx, s.db.Read(), v.Environment, ids)
	if err != nil {
		return err
	}
	for i, subscriptionID := range failed {
		if !v.Connections.Covers(connections[subscriptionID]) {
			list[i].LastError = nil
		}
	}
	return nil
}
