package events

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// maxCompared is the largest body, in bytes, that is compared with another one of its size: the comparison is a part of
// the transaction that stores duplicates.
const maxCompared = 64 << 10

// Copy is a webhook that counts as a duplicate of a stored event.
type Copy struct {
	Environment id.Environment
	// Of is the uuid of the stored event.
	Of string
	// Size is that of the body as it was received, in bytes, and Body the body as it would be stored.
	Size int64
	Body []byte
}

// FindDiffering returns the positions of the copies whose body is another than that of their event. A body of the same
// size that is large, or whose event has none any more, counts as equal.
func (*Keys) FindDiffering(ctx context.Context, tx *sql.Tx, copies []Copy) ([]int, error) {
	byEvent := map[string][]int{}
	args := map[id.Environment][]any{}
	for i := range copies {
		c := &copies[i]
		if byEvent[c.Of] == nil {
			if args[c.Environment] == nil {
				args[c.Environment] = []any{string(c.Environment), maxCompared}
			}
			args[c.Environment] = append(args[c.Environment], c.Of)
		}
		byEvent[c.Of] = append(byEvent[c.Of], i)
	}
	var differing []int
	for _, of := range args {
		//nolint:gosec // only placeholders are added
		rows, err := tx.QueryContext(ctx, `SELECT e.event_uuid, e.body_size, p.body FROM webhook_events e
			LEFT JOIN webhook_event_payloads p ON p.event_uuid = e.event_uuid AND p.received_ms = e.received_ms
				AND e.body_size <= $2
			WHERE e.environment_id = $1 AND e.event_uuid IN `+db.In(3, len(of)-2), of...)
		if err != nil {
			return nil, fmt.Errorf("read the bodies of duplicated events: %w", err)
		}
		err = db.Each(rows, func(r *sql.Rows) error {
			var uuid string
			var size int64
			var body []byte // nil for NULL
			if err := r.Scan(&uuid, &size, &body); err != nil {
				return err
			}
			for _, i := range byEvent[uuid] {
				if copies[i].Size != size || body != nil && !bytes.Equal(copies[i].Body, body) {
					differing = append(differing, i)
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read the bodies of duplicated events: %w", err)
		}
	}
	return differing, nil
}
