package identity

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// credential is what a request with a key needs of it.
type credential struct {
	id            string
	name          string
	team          id.Team
	environment   id.Environment
	mac           []byte
	expiresMillis int64
	revokedMillis *int64
	grants        []Grant
}

func (c credential) principal() access.Principal {
	return access.Principal{Kind: access.KindAPIKey, ID: c.id, Name: c.name, Team: c.team, Environment: c.environment, Allowed: allowedRoutes(c.grants)}
}

// readCredential finds a key with its grants by the part that is not secret.
func readCredential(ctx context.Context, q db.Querier, lookup string) (credential, bool, error) {
	return queryCredential(ctx, q, "k.lookup_id = $1", lookup)
}

// readCredentialByID finds a key with its grants by its id.
func readCredentialByID(ctx context.Context, q db.Querier, keyID string) (credential, bool, error) {
	return queryCredential(ctx, q, "k.id = $1", keyID)
}

func queryCredential(ctx context.Context, q db.Querier, condition, arg string) (c credential, ok bool, err error) {
	rows, err := q.QueryContext(ctx, `SELECT k.id, k.name, k.team_id, k.environment_id, k.secret_mac, k.expires_ms, k.revoked_ms,
			g.id, g.effect, g.routes
		FROM api_keys k LEFT JOIN api_key_grants g ON g.api_key_id = k.id
		WHERE `+condition, arg)
	if err != nil {
		return credential{}, false, fmt.Errorf("read the API key: %w", err)
	}
	err = db.Each(rows, func(r *sql.Rows) error {
		ok = true
		var grantID, effect, routes sql.NullString
		if err := r.Scan(&c.id, &c.name, &c.team, &c.environment, &c.mac, &c.expiresMillis, &c.revokedMillis, &grantID, &effect, &routes); err != nil {
			return err
		}
		if !grantID.Valid {
			return nil
		}
		g, err := decodeGrant(grantID.String, effect.String, routes.String)
		c.grants = append(c.grants, g)
		return err
	})
	if err != nil {
		return credential{}, false, fmt.Errorf("read the API key: %w", err)
	}
	return c, ok, nil
}

func insertKey(ctx context.Context, tx *sql.Tx, team id.Team, k Key, text keyText, mac []byte, createdBy string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO api_keys (id, lookup_id, team_id, environment_id, name, secret_mac, last_four, created_by,
			created_ms, expires_ms, revoked_ms)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, NULL)`,
		k.ID, text.lookup(), team, k.Environment, k.Name, mac, k.LastFour, createdBy, k.CreatedMillis, k.ExpiresMillis)
	if err != nil {
		return fmt.Errorf("store the API key: %w", err)
	}
	for _, g := range k.Grants {
		routes, err := json.Marshal(g.Routes)
		if err != nil {
			return fmt.Errorf("encode a grant: %w", err)
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO api_key_grants (id, api_key_id, effect, routes, created_ms) VALUES ($1, $2, $3, $4, $5)",
			g.ID, k.ID, g.Effect, string(routes), k.CreatedMillis)
		if err != nil {
			return fmt.Errorf("store a grant: %w", err)
		}
	}
	return nil
}

const selectKeys = `SELECT k.id, k.lookup_id, k.environment_id, e.type, k.name, k.last_four, k.created_ms, k.expires_ms, k.revoked_ms
	FROM api_keys k JOIN environments e ON e.id = k.environment_id WHERE k.team_id = $1`

func readKey(ctx context.Context, q db.Querier, team id.Team, keyID string) (Key, bool, error) {
	keys, err := queryKeys(ctx, q, selectKeys+" AND k.id = $2", team, keyID)
	if err != nil || len(keys) == 0 {
		return Key{}, false, err
	}
	return keys[0], true, nil
}

func listKeys(ctx context.Context, q db.Querier, team id.Team, environments []id.Environment, r page.Request) ([]Key, error) {
	text, args := selectKeys, []any{team}
	if len(environments) > 0 {
		text += " AND k.environment_id IN " + db.In(len(args)+1, len(environments))
		for _, e := range environments {
			args = append(args, e)
		}
	}
	if r.After != "" {
		args = append(args, r.After)
		text += " AND k.id " + r.Compare() + " $" + strconv.Itoa(len(args))
	}
	args = append(args, r.Fetch())
	text += " ORDER BY k.id " + r.Direction() + " LIMIT $" + strconv.Itoa(len(args))
	return queryKeys(ctx, q, text, args...)
}

func queryKeys(ctx context.Context, q db.Querier, text string, args ...any) ([]Key, error) {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, fmt.Errorf("read API keys: %w", err)
	}
	var keys []Key
	err = db.Each(rows, func(r *sql.Rows) error {
		var k Key
		var lookup string
		var mode EnvironmentType
		if err := r.Scan(&k.ID, &lookup, &k.Environment, &mode, &k.Name, &k.LastFour, &k.CreatedMillis, &k.ExpiresMillis, &k.RevokedMillis); err != nil {
			return err
		}
		k.Prefix = keyPrefix(mode, lookup)
		keys = append(keys, k)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read API keys: %w", err)
	}
	return keys, addGrants(ctx, q, keys)
}

// addGrants fills in the grants of the keys, oldest first.
func addGrants(ctx context.Context, q db.Querier, keys []Key) error {
	if len(keys) == 0 {
		return nil
	}
	args, index := make([]any, len(keys)), make(map[string]int, len(keys))
	for i, k := range keys {
		args[i], index[k.ID] = k.ID, i
	}
	rows, err := q.QueryContext(ctx, "SELECT api_key_id, id, effect, routes FROM api_key_grants WHERE api_key_id IN "+
		db.In(1, len(args))+" ORDER BY id", args...)
	if err != nil {
		return fmt.Errorf("read grants: %w", err)
	}
	err = db.Each(rows, func(r *sql.Rows) error {
		var keyID, grantID, effect, routes string
		if err := r.Scan(&keyID, &grantID, &effect, &routes); err != nil {
			return err
		}
		g, err := decodeGrant(grantID, effect, routes)
		k := &keys[index[keyID]]
		k.Grants = append(k.Grants, g)
		return err
	})
	if err != nil {
		return fmt.Errorf("read grants: %w", err)
	}
	return nil
}

func decodeGrant(grantID, effect, routes string) (Grant, error) {
	g := Grant{ID: grantID, Effect: Effect(effect)}
	var names []access.Route
	if err := json.Unmarshal([]byte(routes), &names); err != nil {
		return Grant{}, fmt.Errorf("decode grant %s: %w", grantID, err)
	}
	g.Routes = names
	return g, nil
}

// revokeKey reports whether the key was live until now.
func revokeKey(ctx context.Context, tx *sql.Tx, team id.Team, keyID string, nowMillis int64) (bool, error) {
	return changedOne(tx.ExecContext(ctx, "UPDATE api_keys SET revoked_ms = $3 WHERE id = $1 AND team_id = $2 AND revoked_ms IS NULL",
		keyID, team, nowMillis))
}

func deleteKey(ctx context.Context, tx *sql.Tx, team id.Team, keyID string) (bool, error) {
	return changedOne(tx.ExecContext(ctx, "DELETE FROM api_keys WHERE id = $1 AND team_id = $2", keyID, team))
}
