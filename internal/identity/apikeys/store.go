package apikeys

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"sallyport/internal/identity/team"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// keyRow is a stored key.
type keyRow struct {
	Key // without Prefix, UpdatedMillis, Grants, Rate and LastUsed, which follow from the fields below
	// lookup is the part of the key's text that finds it.
	lookup string
	// updatedMillis is nil for a key that was never changed.
	updatedMillis *int64
	rate          storedRate
	lastUse       storedUse
}

// keyColumns binds the columns of a key. Those of its secrets are bound where they are written, and read by the queries
// of credentials.go alone.
func keyColumns(r *keyRow) db.Columns {
	return db.Columns{
		db.Col("id", &r.ID),
		db.Col("lookup_id", &r.lookup),
		db.Col("environment_id", &r.Environment),
		db.Col("name", &r.Name),
		db.Col("last_four", &r.LastFour),
		db.Col("created_ms", &r.CreatedMillis),
		db.Col("updated_ms", &r.updatedMillis),
		db.Col("expires_ms", &r.ExpiresMillis),
		db.Col("disabled_ms", &r.DisabledMillis),
		db.Col("revoked_ms", &r.RevokedMillis),
		db.Col("previous_ends_ms", &r.PreviousEndsMillis),
		db.Col("source_cidrs", nullList[netip.Prefix]{&r.SourceCIDRs, encodeSources, decodeSources}),
		db.Col("rate_per_second", &r.rate.perSecond),
		db.Col("rate_burst", &r.rate.burst),
		db.Col("grants_version", &r.grantsVersion),
	}
}

// shownColumns binds what is read of a key: its columns, its last use and the number of its grants.
func shownColumns(r *keyRow) db.Columns {
	return slices.Concat(keyColumns(r), useColumns(&r.lastUse), db.Columns{
		db.Col("(SELECT COUNT(*) FROM api_key_grants g WHERE g.api_key_id = api_keys.id)", &r.GrantCount)})
}

// key returns the key whose environment has the type.
func (r *keyRow) key(mode team.EnvironmentType) Key {
	k := r.Key
	k.Prefix, k.Rate, k.LastUsed = keyPrefix(mode, r.lookup), r.rate.limit(), r.lastUse.use()
	k.UpdatedMillis = k.CreatedMillis
	if r.updatedMillis != nil {
		k.UpdatedMillis = *r.updatedMillis
	}
	return k
}

func insertKey(ctx context.Context, tx *sql.Tx, team id.Team, k Key, text keyText, mac []byte, createdBy string) error {
	r := keyRow{Key: k, lookup: text.lookup(), rate: storeRate(k.Rate)}
	_, err := db.Insert(ctx, tx, "INSERT INTO api_keys", append(keyColumns(&r), db.Col("team_id", &team),
		db.Col("secret_mac", &mac), db.Col("created_by", &createdBy)), "")
	if err != nil {
		return fmt.Errorf("store the API key: %w", err)
	}
	return nil
}

func keysOf(team id.Team) *db.Where { return new(db.Where).And("team_id = ?", string(team)) }

func readKey(ctx context.Context, q db.Querier, team id.Team, keyID string) (Key, bool, error) {
	keys, err := queryKeys(ctx, q, team, keysOf(team).And("id = ?", keyID), "")
	if err != nil || len(keys) == 0 {
		return Key{}, false, err
	}
	return keys[0], true, nil
}

// lockKey locks the row of a key where the engine has row locks; lock is what says so. It reports whether there is one.
func lockKey(ctx context.Context, tx *sql.Tx, team id.Team, keyID, lock string) (bool, error) {
	var found string
	err := tx.QueryRowContext(ctx, "SELECT k.id FROM api_keys k WHERE k.id = $1 AND k.team_id = $2"+lock, keyID,
		team).Scan(&found)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock the API key: %w", err)
	}
	return true, nil
}

func listKeys(ctx context.Context, q db.Querier, team id.Team, environments []id.Environment,
	r page.Request) ([]Key, error) {
	w := db.AnyOf(keysOf(team), "environment_id", environments)
	return queryKeys(ctx, q, team, w, w.Page("id", r))
}

func queryKeys(ctx context.Context, q db.Querier, teamID id.Team, w *db.Where, tail string) ([]Key, error) {
	types, err := team.ReadTypes(ctx, q, teamID)
	if err != nil {
		return nil, err
	}
	rows, err := db.All(ctx, q, shownColumns, "FROM api_keys", w, tail)
	if err != nil {
		return nil, fmt.Errorf("read API keys: %w", err)
	}
	keys := make([]Key, len(rows))
	for i := range rows {
		keys[i] = rows[i].key(types[rows[i].Environment])
	}
	return keys, addGrants(ctx, q, keys)
}

// updateKey writes what differs of a locked key from before. Caches of its compiled grants have to read them again.
func updateKey(ctx context.Context, tx *sql.Tx, team id.Team, before, after Key) error {
	after.grantsVersion++
	then := keyRow{Key: before, updatedMillis: &before.UpdatedMillis, rate: storeRate(before.Rate)}
	now := keyRow{Key: after, updatedMillis: &after.UpdatedMillis, rate: storeRate(after.Rate)}
	changed, err := keyColumns(&now).Changed(keyColumns(&then))
	if err == nil {
		_, err = db.Update(ctx, tx, "UPDATE api_keys", changed, keysOf(team).And("id = ?", after.ID))
	}
	if err != nil {
		return fmt.Errorf("change the API key: %w", err)
	}
	return nil
}

// replaceSecret gives the key another secret. The one that it had goes on until previous_ends_ms, or ends where there
// is no such time.
func replaceSecret(ctx context.Context, tx *sql.Tx, k Key, mac []byte) error {
	text := "UPDATE api_keys SET previous_mac = secret_mac, secret_mac = $2, last_four = $3, previous_ends_ms = $4 " +
		"WHERE id = $1"
	if k.PreviousEndsMillis == nil {
		text = "UPDATE api_keys SET previous_mac = NULL, secret_mac = $2, last_four = $3, previous_ends_ms = $4 WHERE id = $1"
	}
	if _, err := tx.ExecContext(ctx, text, k.ID, mac, k.LastFour, k.PreviousEndsMillis); err != nil {
		return fmt.Errorf("replace the secret of the API key: %w", err)
	}
	return nil
}

func deleteKey(ctx context.Context, tx *sql.Tx, team id.Team, keyID string) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM api_keys WHERE id = $1 AND team_id = $2", keyID, team); err != nil {
		return fmt.Errorf("delete the API key: %w", err)
	}
	return nil
}

// nullList binds a list that is stored as the text that encode returns and decode reads, and is NULL if it is nil.
type nullList[T any] struct {
	field  *[]T
	encode func([]T) (string, error)
	decode func(text string) ([]T, error)
}

// Scan sets the field from a column.
func (b nullList[T]) Scan(src any) error {
	var text sql.NullString
	err := text.Scan(src)
	if *b.field = nil; err == nil && text.Valid {
		*b.field, err = b.decode(text.String)
	}
	return err
}

// Value returns what is stored of the field.
func (b nullList[T]) Value() (driver.Value, error) {
	if *b.field == nil {
		return nil, nil
	}
	return b.encode(*b.field)
}
