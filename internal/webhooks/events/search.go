package events

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

const (
	// maxSearchTypes is the maximum number of types that a search may be the beginning of. Each is looked up in a part of
	// one statement, of which SQLite accepts 500.
	maxSearchTypes = 200
	// maxSearchKeys is the maximum number of events of a key that are looked up individually. If a key has more, the list
	// is read from its beginning, as for other filters, and finds them soon.
	maxSearchKeys = 100
)

// search adds the condition that an event has the uuid or the key q, or a type that begins with q.
func search(w *db.Where, q string) {
	if q == "" {
		return
	}
	arg := "CAST(" + w.Arg(q) + " AS text)"
	w.And("(e.event_uuid = " + arg + " OR e.idempotency_key = " + arg + " OR substr(e.event_type, 1, length(" + arg +
		")) = " + arg + ")")
}

// holders returns events of the environment that may have one of the keys: those that hold it, and those that a key
// names; at most one more than maxSearchKeys. Its cost depends on the number of connections, by which keys are stored.
func (s *Store) holders(ctx context.Context, q db.Querier, env id.Environment, keys []string) ([]string, error) {
	var list []string
	args := []any{string(env)}
	var lookups []string
	for _, key := range keys {
		if last := key[strings.LastIndexByte(key, ':')+1:]; id.IsUUID(last) {
			list = append(list, last) // the key of a body, or of an event without one
		}
		for _, hash := range [][]byte{HashID(key), HashSignedID(key), HashPublished(key)} {
			args = append(args, hash)
			// A subquery that yields one value, because every planner runs it as a look-up in the primary key.
			lookups = append(lookups, fmt.Sprintf(`SELECT (SELECT k.event_uuid FROM webhook_event_keys k
				WHERE k.connection_uuid = s.connection_uuid
				AND k.key_hash = $%d) AS event_uuid FROM scope s`, len(args)))
		}
	}
	rows, err := q.QueryContext(ctx, `WITH RECURSIVE scope (connection_uuid) AS (
		SELECT (SELECT k.connection_uuid FROM webhook_event_keys k ORDER BY k.connection_uuid LIMIT 1)
		UNION ALL
		SELECT (SELECT k.connection_uuid FROM webhook_event_keys k WHERE k.connection_uuid > scope.connection_uuid
			ORDER BY k.connection_uuid LIMIT 1)
			FROM scope WHERE scope.connection_uuid IS NOT NULL)
		SELECT f.event_uuid FROM (`+strings.Join(lookups, " UNION ")+`) f WHERE f.event_uuid IS NOT NULL
			AND (SELECT e.event_uuid FROM webhook_events e WHERE e.environment_id = $1
			AND e.event_uuid = f.event_uuid) IS NOT NULL
			LIMIT `+strconv.Itoa(maxSearchKeys+1), args...)
	if err != nil {
		return nil, fmt.Errorf("find the events of a key: %w", err)
	}
	if err := db.Each(rows, func(r *sql.Rows) error {
		var uuid string
		err := r.Scan(&uuid)
		list = append(list, uuid)
		return err
	}); err != nil {
		return nil, fmt.Errorf("find the events of a key: %w", err)
	}
	return list, nil
}

// typesWith returns the environment's types that begin with a text, at most one more than maxSearchTypes. It steps
// through the index from one to the next.
func (s *Store) typesWith(ctx context.Context, q db.Querier, env id.Environment, prefix string) ([]string, error) {
	// PostgreSQL's operators that compare bytes, as the index does, regardless of the collation. SQLite compares so by
	// itself.
	from, over, below, order := ">=", ">", "<", ""
	if s.db.Engine() == db.Postgres {
		from, over, below, order = "~>=~", "~>~", "~<~", " USING ~<~"
	}
	args := []any{string(env), prefix}
	limit := ""
	if end := endOf(prefix); end != "" {
		args = append(args, end)
		limit = " AND e.event_type " + below + " $3"
	}
	next := func(condition string) string {
		// PostgreSQL's index has the condition that the type is not empty.
		return "SELECT (SELECT e.event_type FROM webhook_events e WHERE e.environment_id = $1 AND e.event_type <> '' " +
			"AND e.event_type " + condition + limit +
			" ORDER BY e.event_type" + order + " LIMIT 1)"
	}
	rows, err := q.QueryContext(ctx, fmt.Sprintf(`WITH RECURSIVE hop (event_type, n) AS (%s, 1
		UNION ALL %s, hop.n + 1 FROM hop
		WHERE hop.event_type IS NOT NULL AND hop.n <= %d) SELECT hop.event_type FROM hop WHERE hop.event_type IS NOT NULL`,
		next(from+" $2"), next(over+" hop.event_type"), maxSearchTypes), args...)
	if err != nil {
		return nil, fmt.Errorf("find types: %w", err)
	}
	var types []string
	if err := db.Each(rows, func(r *sql.Rows) error {
		var t string
		err := r.Scan(&t)
		types = append(types, t)
		return err
	}); err != nil {
		return nil, fmt.Errorf("find types: %w", err)
	}
	return types, nil
}

// endOf returns the smallest text that is greater, by its bytes, than every text with the prefix; empty if there is
// none.
func endOf(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		const beforeSurrogates, afterSurrogates = 0xD7FF, 0xE000
		switch {
		case last == beforeSurrogates:
			return prefix + string(rune(afterSurrogates))
		case last < utf8.MaxRune:
			return prefix + string(last+1)
		}
	}
	return ""
}
