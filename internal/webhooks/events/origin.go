package events

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// Origin identifies an event and its source.
type Origin struct {
	UUID                                                      string
	Type                                                      string
	Provider, ProviderConfigKey, ConnectionID, ConnectionUUID string
}

// Own reports whether the event is one of the gateway's own.
func (o *Origin) Own() bool { return isOwn(o.Provider, o.Type) }

// Own reports whether the event is one of the gateway's own, or an imitation of one for a test, which has no provider.
func (e *Event) Own() bool {
	return isOwn(e.Provider, e.Type) || e.Provider == "" && isOwn(OwnProvider, e.Type)
}

func isOwn(provider, eventType string) bool {
	return provider == OwnProvider && strings.HasPrefix(eventType, OwnPrefix)
}

// Origins returns the origins of the environment's events by uuid, in the transaction tx. Unknown events are not in the
// map.
func (s *Store) Origins(ctx context.Context, tx db.Querier, env id.Environment,
	uuids []string) (map[string]Origin, error) {
	out := make(map[string]Origin, len(uuids))
	for len(uuids) > 0 {
		n := min(len(uuids), 100)
		args := []any{string(env)}
		for _, u := range uuids[:n] {
			args = append(args, u)
		}
		rows, err := tx.QueryContext(ctx, `SELECT event_uuid, event_type, provider, provider_config_key,
				connection_id, connection_uuid
			FROM webhook_events WHERE environment_id = $1 AND event_uuid IN `+db.In(2, n), args...)
		if err != nil {
			return nil, fmt.Errorf("read the origins of events: %w", err)
		}
		if err := db.Each(rows, func(r *sql.Rows) error {
			var o Origin
			err := r.Scan(&o.UUID, &o.Type, &o.Provider, &o.ProviderConfigKey, &o.ConnectionID, &o.ConnectionUUID)
			out[o.UUID] = o
			return err
		}); err != nil {
			return nil, fmt.Errorf("read the origins of events: %w", err)
		}
		uuids = uuids[n:]
	}
	return out, nil
}
