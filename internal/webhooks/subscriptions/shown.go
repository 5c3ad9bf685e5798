package subscriptions

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// ShownWhere returns the SQL condition that a column names a subscription that the view shows, deleted ones included,
// and its arguments, with placeholders from next on. The condition is empty if the view shows all of its environment.
//
// It is for what belongs to an event and a subscription: a caller who may see the event sees only the part of the
// subscriptions that they may see.
func ShownWhere(v access.View, column string, next int) (condition string, args []any) {
	if v.Connections.Unrestricted() {
		return "", nil
	}
	covered, names := v.Connections.WhereCovers("s.connection_id", next+1)
	return "EXISTS (SELECT 1 FROM webhook_subscriptions s WHERE s.id = " + column + " AND s.environment_id = $" +
		strconv.Itoa(next) + " AND " + covered + ")", append([]any{string(v.Environment)}, names...)
}

// scoped is a subscription's id and the connection that it is limited to.
type scoped struct{ id, connectionID string }

func scopedColumns(s *scoped) db.Columns {
	return db.Columns{db.Col("id", &s.id), db.Col("connection_id", db.Null(&s.connectionID))}
}

// ConnectionsOf returns the connection that each subscription is limited to, deleted ones included; empty for one to
// the events of all connections. access.Bound.Covers reports of the result whether a bound shows the subscription. An
// unknown subscription is not in the map, and shown like one to the events of all connections.
func ConnectionsOf(ctx context.Context, q db.Querier, env id.Environment, ids []string) (map[string]string, error) {
	out := make(map[string]string, len(ids))
	for chunk := range slices.Chunk(ids, 100) {
		w := new(db.Where).And("environment_id = ?", string(env))
		list, err := db.All(ctx, q, scopedColumns, table, db.AnyOf(w, "id", chunk), "")
		if err != nil {
			return nil, fmt.Errorf("read the connections of subscriptions: %w", err)
		}
		for _, s := range list {
			out[s.id] = s.connectionID
		}
	}
	return out, nil
}
