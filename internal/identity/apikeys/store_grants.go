package apikeys

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/page"
)

// grantRow is a stored grant.
type grantRow struct {
	Grant
	keyID         string
	createdMillis int64
}

func grantColumns(r *grantRow) db.Columns {
	return db.Columns{
		db.Col("id", &r.ID),
		db.Col("api_key_id", &r.keyID),
		db.Col("effect", &r.Effect),
		db.Col("routes", db.JSON(&r.Routes)),
		db.Col("connections", nullList[string]{&r.Connections, encodeConnections, decodeConnections}),
		db.Col("call_limits", db.Text(r.encodeCalls, r.decodeCalls)),
		db.Col("not_after_ms", &r.NotAfterMillis),
		db.Col("created_ms", &r.createdMillis),
	}
}

func (g *Grant) encodeCalls() (string, error) {
	if g.Calls.Empty() {
		return "", nil
	}
	return db.EncodeJSON(g.Calls)
}

func (g *Grant) decodeCalls(text string) error {
	if g.Calls = nil; text == "" {
		return nil
	}
	g.Calls = new(access.CallLimits)
	return db.DecodeJSON(text, g.Calls)
}

func encodeConnections(list []string) (string, error) { return db.EncodeJSON(list) }

// decodeConnections reads what encodeConnections wrote. The result is not nil, which would stand for all connections.
func decodeConnections(text string) ([]string, error) {
	list := []string{}
	return list, db.DecodeJSON(text, &list)
}

var storeGrants = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: "INSERT INTO api_key_grants (" + grantColumns(new(grantRow)).Names() + ")",
	Types:  []string{"text", "text", "text", "text", "text", "text", "bigint", "bigint"},
}

func insertGrants(ctx context.Context, d *db.DB, tx *sql.Tx, keyID string, grants []Grant, nowMillis int64) error {
	var args []any
	for i := range grants {
		row, err := grantColumns(&grantRow{Grant: grants[i], keyID: keyID, createdMillis: nowMillis}).Args()
		if err != nil {
			return fmt.Errorf("encode a grant: %w", err)
		}
		args = append(args, row...)
	}
	if _, err := d.Exec(ctx, tx, storeGrants, args); err != nil {
		return fmt.Errorf("store grants: %w", err)
	}
	return nil
}

// addGrants fills in the first grants of the keys, oldest first.
func addGrants(ctx context.Context, q db.Querier, keys []Key) error {
	if len(keys) == 0 {
		return nil
	}
	ids, index := make([]string, len(keys)), make(map[string]int, len(keys))
	for i := range keys {
		ids[i], index[keys[i].ID] = keys[i].ID, i
	}
	w := new(db.Where)
	first := `FROM (SELECT g.* FROM api_keys k JOIN api_key_grants g ON g.id IN
			(SELECT f.id FROM api_key_grants f WHERE f.api_key_id = k.id ORDER BY f.id LIMIT ` + strconv.Itoa(ShownGrants) + `)
		WHERE k.id IN ` + db.List(w, ids) + `) g`
	rows, err := db.All(ctx, q, grantColumns, first, w, "ORDER BY api_key_id, id")
	if err != nil {
		return fmt.Errorf("read grants: %w", err)
	}
	for _, r := range rows {
		k := &keys[index[r.keyID]]
		k.Grants = append(k.Grants, r.Grant)
	}
	return nil
}

func grantsOf(keyID string) *db.Where { return new(db.Where).And("api_key_id = ?", keyID) }

// readGrants reads every grant of a key, oldest first.
func readGrants(ctx context.Context, q db.Querier, keyID string) ([]Grant, error) {
	return queryGrants(ctx, q, grantsOf(keyID), "ORDER BY id")
}

func readGrant(ctx context.Context, q db.Querier, keyID, grantID string) (Grant, bool, error) {
	list, err := queryGrants(ctx, q, grantsOf(keyID).And("id = ?", grantID), "")
	if err != nil || len(list) == 0 {
		return Grant{}, false, err
	}
	return list[0], true, nil
}

func pageOfGrants(ctx context.Context, q db.Querier, keyID string, r page.Request) ([]Grant, error) {
	w := grantsOf(keyID)
	return queryGrants(ctx, q, w, w.Page("id", r))
}

func queryGrants(ctx context.Context, q db.Querier, w *db.Where, tail string) ([]Grant, error) {
	rows, err := db.All(ctx, q, grantColumns, "FROM api_key_grants", w, tail)
	if err != nil {
		return nil, fmt.Errorf("read grants: %w", err)
	}
	grants := make([]Grant, len(rows))
	for i := range rows {
		grants[i] = rows[i].Grant
	}
	return grants, nil
}

func deleteGrant(ctx context.Context, tx *sql.Tx, keyID, grantID string) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM api_key_grants WHERE api_key_id = $1 AND id = $2", keyID,
		grantID); err != nil {
		return fmt.Errorf("delete a grant: %w", err)
	}
	return nil
}
