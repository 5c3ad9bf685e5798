package sso

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/secretbox"
)

const (
	table        = "sso_providers"
	columnSecret = "client_secret"
)

// sealedColumns returns the columns that a rotation of the keyset encrypts again.
func sealedColumns() []secretbox.Column {
	return []secretbox.Column{{Table: table, Column: columnSecret, IDColumn: "id"}}
}

func secretAD(providerID string) secretbox.AD {
	return secretbox.AD{Table: table, Column: columnSecret, RowID: providerID}
}

const columns = `id, team_id, name, issuer, client_id, client_secret, scopes, groups_claim, role_mappings,
	allowed_domains, just_in_time, link_existing, enabled, created_ms, updated_ms`

func scan(row interface{ Scan(...any) error }) (p Provider, err error) {
	var scopes, mappings, domains string
	err = row.Scan(&p.ID, &p.Team, &p.Name, &p.Issuer, &p.ClientID, &p.sealedSecret, &scopes, &p.GroupsClaim, &mappings,
		&domains, &p.JustInTime, &p.LinkExisting, &p.Enabled, &p.CreatedMillis, &p.UpdatedMillis)
	if err != nil {
		return p, err
	}
	return p, errors.Join(json.Unmarshal([]byte(scopes), &p.Scopes), json.Unmarshal([]byte(mappings), &p.RoleMappings),
		json.Unmarshal([]byte(domains), &p.AllowedDomains))
}

// values are those of columns.
func (p Provider) values() ([]any, error) {
	scopes, err1 := json.Marshal(p.Scopes)
	mappings, err2 := json.Marshal(p.RoleMappings)
	domains, err3 := json.Marshal(p.AllowedDomains)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("encode an identity provider: %w", err)
	}
	var secret []byte
	if p.HasSecret() {
		secret = p.sealedSecret
	}
	return []any{p.ID, p.Team, p.Name, p.Issuer, p.ClientID, secret, string(scopes), p.GroupsClaim, string(mappings),
		string(domains), p.JustInTime, p.LinkExisting, p.Enabled, p.CreatedMillis, p.UpdatedMillis}, nil
}

// readProvider finds a provider by id, whatever its team: a sign-in knows none yet.
func readProvider(ctx context.Context, q db.Querier, providerID string) (Provider, bool, error) {
	return found(scan(q.QueryRowContext(ctx, "SELECT "+columns+" FROM sso_providers WHERE id = $1", providerID)))
}

// readProviderOf finds a provider of a team.
func readProviderOf(ctx context.Context, q db.Querier, team id.Team, providerID string) (Provider, bool, error) {
	return found(scan(q.QueryRowContext(ctx, "SELECT "+columns+" FROM sso_providers WHERE team_id = $1 AND id = $2", team,
		providerID)))
}

// lockProvider is readProviderOf with the row held until the transaction ends.
func lockProvider(ctx context.Context, tx *sql.Tx, team id.Team, providerID string) (Provider, bool, error) {
	return found(scan(tx.QueryRowContext(ctx, "UPDATE sso_providers SET updated_ms = updated_ms WHERE team_id = $1 AND "+
		"id = $2 RETURNING "+columns,
		team, providerID)))
}

func found(p Provider, err error) (Provider, bool, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return Provider{}, false, nil
	}
	if err != nil {
		return Provider{}, false, fmt.Errorf("read the identity provider: %w", err)
	}
	return p, true, nil
}

func listProviders(ctx context.Context, q db.Querier, team id.Team, r page.Request) ([]Provider, error) {
	text, args := "SELECT "+columns+" FROM sso_providers WHERE team_id = $1", []any{team}
	if r.After != "" {
		args = append(args, r.After)
		text += " AND id " + r.Compare() + " $2"
	}
	args = append(args, r.Fetch())
	rows, err := q.QueryContext(ctx, text+" ORDER BY id "+r.Direction()+" LIMIT $"+strconv.Itoa(len(args)), args...)
	if err != nil {
		return nil, fmt.Errorf("read identity providers: %w", err)
	}
	var list []Provider
	err = db.Each(rows, func(r *sql.Rows) error {
		p, err := scan(r)
		list = append(list, p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read identity providers: %w", err)
	}
	return list, nil
}

// insertProvider reports whether the team has room for another.
func insertProvider(ctx context.Context, tx *sql.Tx, p Provider) (bool, error) {
	values, err := p.values()
	if err != nil {
		return false, err
	}
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM sso_providers WHERE team_id = $1",
		p.Team).Scan(&n); err != nil {
		return false, fmt.Errorf("count identity providers: %w", err)
	}
	if n >= MaxProviders {
		return false, nil
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO sso_providers ("+columns+
		") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)", values...)
	if err != nil {
		return false, fmt.Errorf("store the identity provider: %w", err)
	}
	return true, nil
}

func updateProvider(ctx context.Context, tx *sql.Tx, p Provider) error {
	values, err := p.values()
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE sso_providers SET name = $3, issuer = $4, client_id = $5, client_secret = $6,
			scopes = $7, groups_claim = $8, role_mappings = $9, allowed_domains = $10, just_in_time = $11, link_existing = $12,
		enabled = $13, created_ms = $14, updated_ms = $15
		WHERE id = $1 AND team_id = $2`, values...)
	if err != nil {
		return fmt.Errorf("store the identity provider: %w", err)
	}
	return nil
}

func deleteProvider(ctx context.Context, tx *sql.Tx, team id.Team, providerID string) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM sso_providers WHERE team_id = $1 AND id = $2", team,
		providerID); err != nil {
		return fmt.Errorf("remove the identity provider: %w", err)
	}
	return nil
}

// signIn is a row of sso_sign_ins.
type signIn struct {
	stateHash, browserHash []byte
	provider               string
	returnTo               string
	expiresMillis          int64
}

// insertSignIn stores a sign-in and removes a few that nobody finished, so that the table stays small without a worker.
func (s *Service) insertSignIn(ctx context.Context, v signIn, now time.Time) error {
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		old := "SELECT state_hash FROM sso_sign_ins WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT 10" + s.db.SkipLocked()
		_, err := tx.ExecContext(ctx,
			"DELETE FROM sso_sign_ins WHERE state_hash IN ("+old+")", clock.Millis(now)) //nolint:gosec // the text is ours
		if err != nil {
			return fmt.Errorf("remove old sign-ins: %w", err)
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO sso_sign_ins (state_hash, provider_id, browser_hash, return_to, "+
			"expires_ms) VALUES ($1, $2, $3, $4, $5)",
			v.stateHash, v.provider, v.browserHash, v.returnTo, v.expiresMillis)
		if err != nil {
			return fmt.Errorf("store a sign-in: %w", err)
		}
		return nil
	})
}

// useSignIn removes a sign-in of the provider that the browser has begun and returns where it goes on. Only one caller
// gets it.
func (s *Service) useSignIn(ctx context.Context, v signIn, now time.Time) (returnTo string, ok bool, err error) {
	// Looking waits for no writer: whoever makes answers up keeps none waiting.
	var n int
	err = s.db.Read().QueryRowContext(ctx, "SELECT 1 FROM sso_sign_ins WHERE state_hash = $1 AND browser_hash = $2",
		v.stateHash, v.browserHash).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("look for a sign-in: %w", err)
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		ok = true
		err := tx.QueryRowContext(ctx, `DELETE FROM sso_sign_ins WHERE state_hash = $1 AND browser_hash = $2
			AND provider_id = $3 AND expires_ms > $4
			RETURNING return_to`, v.stateHash, v.browserHash, v.provider, clock.Millis(now)).Scan(&returnTo)
		if errors.Is(err, sql.ErrNoRows) {
			ok = false
			return nil
		}
		return err
	})
	if err != nil {
		return "", false, fmt.Errorf("use a sign-in: %w", err)
	}
	return returnTo, ok, nil
}
