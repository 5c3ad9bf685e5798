package apikeys

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/page"
)

// grantRows is how many grants one statement stores.
const grantRows = 100

func insertGrants(ctx context.Context, tx *sql.Tx, keyID string, grants []Grant, nowMillis int64) error {
	for chunk := range slices.Chunk(grants, grantRows) {
		var text strings.Builder
		text.WriteString("INSERT INTO api_key_grants (id, api_key_id, effect, routes, connections, not_after_ms, " +
			"created_ms) VALUES ")
		var args []any
		for i := range chunk {
			g := &chunk[i]
			routes, err := json.Marshal(g.Routes)
			if err != nil {
				return fmt.Errorf("encode a grant: %w", err)
			}
			connections, err := encodeConnections(g.Connections)
			if err != nil {
				return err
			}
			if i > 0 {
				text.WriteString(", ")
			}
			text.WriteString("(")
			for j := range 7 {
				if j > 0 {
					text.WriteString(", ")
				}
				text.WriteString("$" + strconv.Itoa(len(args)+j+1))
			}
			text.WriteString(")")
			args = append(args, g.ID, keyID, string(g.Effect), string(routes), connections, g.NotAfterMillis, nowMillis)
		}
		if _, err := tx.ExecContext(ctx, text.String(), args...); err != nil {
			return fmt.Errorf("store grants: %w", err)
		}
	}
	return nil
}

func encodeConnections(list []string) (sql.NullString, error) {
	if list == nil {
		return sql.NullString{}, nil
	}
	b, err := json.Marshal(list)
	if err != nil {
		return sql.NullString{}, fmt.Errorf("encode a grant: %w", err)
	}
	return sql.NullString{Valid: true, String: string(b)}, nil
}

const grantColumns = "g.id, g.effect, g.routes, g.connections, g.not_after_ms"

// storedGrant is a row of grantColumns, which is null where a join found none.
type storedGrant struct {
	id, effect, routes, connections sql.NullString
	notAfter                        *int64
}

func (s *storedGrant) targets() []any {
	return []any{&s.id, &s.effect, &s.routes, &s.connections, &s.notAfter}
}

func (s *storedGrant) grant() (Grant, error) {
	g := Grant{ID: s.id.String, Effect: Effect(s.effect.String), NotAfterMillis: s.notAfter}
	var names []access.Route
	if err := json.Unmarshal([]byte(s.routes.String), &names); err != nil {
		return Grant{}, fmt.Errorf("decode grant %s: %w", g.ID, err)
	}
	g.Routes = names
	if s.connections.Valid {
		g.Connections = []string{} // not nil, which would stand for all
		if err := json.Unmarshal([]byte(s.connections.String), &g.Connections); err != nil {
			return Grant{}, fmt.Errorf("decode grant %s: %w", g.ID, err)
		}
	}
	return g, nil
}

// addGrants fills in the first grants of the keys, oldest first.
func addGrants(ctx context.Context, q db.Querier, keys []Key) error {
	if len(keys) == 0 {
		return nil
	}
	args, index := make([]any, len(keys)), make(map[string]int, len(keys))
	for i, k := range keys {
		args[i], index[k.ID] = k.ID, i
	}
	rows, err := q.QueryContext(ctx, `SELECT k.id, `+grantColumns+` FROM api_keys k JOIN api_key_grants g ON g.id IN
			(SELECT f.id FROM api_key_grants f WHERE f.api_key_id = k.id ORDER BY f.id LIMIT `+strconv.Itoa(ShownGrants)+`)
		WHERE k.id IN `+db.In(1, len(args))+` ORDER BY k.id, g.id`, args...)
	if err != nil {
		return fmt.Errorf("read grants: %w", err)
	}
	err = db.Each(rows, func(r *sql.Rows) error {
		var keyID string
		var s storedGrant
		if err := r.Scan(append([]any{&keyID}, s.targets()...)...); err != nil {
			return err
		}
		g, err := s.grant()
		k := &keys[index[keyID]]
		k.Grants = append(k.Grants, g)
		return err
	})
	if err != nil {
		return fmt.Errorf("read grants: %w", err)
	}
	return nil
}

// readGrants reads every grant of a key, oldest first.
func readGrants(ctx context.Context, q db.Querier, keyID string) ([]Grant, error) {
	return queryGrants(ctx, q, "g.api_key_id = $1 ORDER BY g.id", keyID)
}

func readGrant(ctx context.Context, q db.Querier, keyID, grantID string) (Grant, bool, error) {
	list, err := queryGrants(ctx, q, "g.api_key_id = $1 AND g.id = $2", keyID, grantID)
	if err != nil || len(list) == 0 {
		return Grant{}, false, err
	}
	return list[0], true, nil
}

func pageOfGrants(ctx context.Context, q db.Querier, keyID string, r page.Request) ([]Grant, error) {
	condition, args := "g.api_key_id = $1", []any{keyID}
	if r.After != "" {
		args = append(args, r.After)
		condition += " AND g.id " + r.Compare() + " $2"
	}
	return queryGrants(ctx, q, condition+" ORDER BY g.id "+r.Direction()+" LIMIT "+strconv.Itoa(r.Fetch()), args...)
}

func queryGrants(ctx context.Context, q db.Querier, condition string, args ...any) ([]Grant, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+grantColumns+" FROM api_key_grants g WHERE "+condition, args...)
	if err != nil {
		return nil, fmt.Errorf("read grants: %w", err)
	}
	var out []Grant
	err = db.Each(rows, func(r *sql.Rows) error {
		var s storedGrant
		if err := r.Scan(s.targets()...); err != nil {
			return err
		}
		g, err := s.grant()
		out = append(out, g)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read grants: %w", err)
	}
	return out, nil
}

func deleteGrant(ctx context.Context, tx *sql.Tx, keyID, grantID string) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM api_key_grants WHERE api_key_id = $1 AND id = $2", keyID,
		grantID); err != nil {
		return fmt.Errorf("delete a grant: %w", err)
	}
	return nil
}
