package apikeys

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"sallyport/internal/identity/team"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

func insertKey(ctx context.Context, tx *sql.Tx, team id.Team, k Key, text keyText, mac []byte, createdBy string) error {
	rate := storeRate(k.Rate)
	_, err := tx.ExecContext(ctx, `INSERT INTO api_keys (id, lookup_id, team_id, environment_id, name, secret_mac,
			last_four, created_by, created_ms, expires_ms, revoked_ms, source_cidrs, rate_per_second, rate_burst)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, NULL, $11, $12, $13)`,
		k.ID, text.lookup(), team, k.Environment, k.Name, mac, k.LastFour, createdBy, k.CreatedMillis, k.ExpiresMillis,
		encodeSources(k.SourceCIDRs), rate.perSecond, rate.burst)
	if err != nil {
		return fmt.Errorf("store the API key: %w", err)
	}
	return nil
}

const selectKeys = `SELECT k.id, k.lookup_id, k.environment_id, k.name, k.last_four, k.created_ms,
		COALESCE(k.updated_ms, k.created_ms),
		k.expires_ms, k.disabled_ms, k.revoked_ms, k.previous_ends_ms, k.source_cidrs, k.rate_per_second, k.rate_burst,
		k.last_used_ms, k.last_used_ip, k.last_used_agent, k.last_used_route,
		(SELECT COUNT(*) FROM api_key_grants g WHERE g.api_key_id = k.id)
	FROM api_keys k WHERE k.team_id = $1`

func readKey(ctx context.Context, q db.Querier, teamID id.Team, keyID string) (Key, bool, error) {
	keys, err := queryKeys(ctx, q, teamID, selectKeys+" AND k.id = $2", teamID, keyID)
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

func listKeys(ctx context.Context, q db.Querier, teamID id.Team, environments []id.Environment,
	r page.Request) ([]Key, error) {
	text, args := selectKeys, []any{teamID}
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
	return queryKeys(ctx, q, teamID, text, args...)
}

func queryKeys(ctx context.Context, q db.Querier, teamID id.Team, text string, args ...any) ([]Key, error) {
	types, err := team.ReadTypes(ctx, q, teamID)
	if err != nil {
		return nil, err
	}
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, fmt.Errorf("read API keys: %w", err)
	}
	var keys []Key
	err = db.Each(rows, func(r *sql.Rows) error {
		k, err := scanKey(r, types)
		keys = append(keys, k)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read API keys: %w", err)
	}
	return keys, addGrants(ctx, q, keys)
}

func scanKey(r *sql.Rows, types map[id.Environment]team.EnvironmentType) (Key, error) {
	var k Key
	var lookup string
	var sources, ip, agent, route sql.NullString
	var rate storedRate
	var used *int64
	if err := r.Scan(&k.ID, &lookup, &k.Environment, &k.Name, &k.LastFour, &k.CreatedMillis, &k.UpdatedMillis,
		&k.ExpiresMillis, &k.DisabledMillis, &k.RevokedMillis, &k.PreviousEndsMillis, &sources, &rate.perSecond, &rate.burst,
		&used, &ip, &agent, &route, &k.GrantCount); err != nil {
		return k, err
	}
	k.Prefix, k.Rate = keyPrefix(types[k.Environment], lookup), rate.limit()
	if used != nil {
		k.LastUsed = &KeyUse{AtMillis: *used, IP: ip.String, UserAgent: agent.String, Route: route.String}
	}
	var err error
	k.SourceCIDRs, err = decodeSources(sources)
	return k, err
}

// updateKey writes what changes of a key, but for its secret. Whoever holds its grants compiled has to read them again.
func updateKey(ctx context.Context, tx *sql.Tx, team id.Team, k Key) error {
	rate := storeRate(k.Rate)
	_, err := tx.ExecContext(ctx, `UPDATE api_keys SET name = $3, expires_ms = $4, disabled_ms = $5, revoked_ms = $6,
			source_cidrs = $7,
			updated_ms = $8, rate_per_second = $9, rate_burst = $10, grants_version = grants_version + 1
			WHERE id = $1 AND team_id = $2`,
		k.ID, team, k.Name, k.ExpiresMillis, k.DisabledMillis, k.RevokedMillis, encodeSources(k.SourceCIDRs), k.UpdatedMillis,
		rate.perSecond, rate.burst)
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

// holdsKeys reports whether an environment has any API key, revoked and expired keys included.
func holdsKeys(ctx context.Context, q db.Querier, env id.Environment) (bool, error) {
	var n int
	err := q.QueryRowContext(ctx, "SELECT 1 FROM api_keys WHERE environment_id = $1 LIMIT 1", env).Scan(&n)
	return db.Found("the environment's API keys", err)
}
