package sso

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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

func columns(p *Provider) db.Columns {
	return db.Columns{
		db.Col("id", &p.ID),
		db.Col("team_id", &p.Team),
		db.Col("name", &p.Name),
		db.Col("issuer", &p.Issuer),
		db.Col("client_id", &p.ClientID),
		db.Col(columnSecret, &p.sealedSecret),
		db.Col("scopes", db.JSON(&p.Scopes)),
		db.Col("groups_claim", &p.GroupsClaim),
		db.Col("role_mappings", db.JSON(&p.RoleMappings)),
		db.Col("allowed_domains", db.JSON(&p.AllowedDomains)),
		db.Col("just_in_time", &p.JustInTime),
		db.Col("link_existing", &p.LinkExisting),
		db.Col("enabled", &p.Enabled),
		db.Col("created_ms", &p.CreatedMillis),
		db.Col("updated_ms", &p.UpdatedMillis),
	}
}

func providersOf(team id.Team) *db.Where { return new(db.Where).And("team_id = ?", string(team)) }

// readProvider finds a provider by id, of any team: a sign-in knows none yet.
func readProvider(ctx context.Context, q db.Querier, providerID string) (Provider, bool, error) {
	return findProvider(ctx, q, new(db.Where).And("id = ?", providerID))
}

// readProviderOf finds a provider of a team.
func readProviderOf(ctx context.Context, q db.Querier, team id.Team, providerID string) (Provider, bool, error) {
	return findProvider(ctx, q, providersOf(team).And("id = ?", providerID))
}

func findProvider(ctx context.Context, q db.Querier, w *db.Where) (Provider, bool, error) {
	p, ok, err := db.One(ctx, q, columns, "FROM "+table, w, "")
	if err != nil {
		return Provider{}, false, fmt.Errorf("read the identity provider: %w", err)
	}
	return p, ok, nil
}

// lockProvider is readProviderOf with the row held until the transaction ends.
func lockProvider(ctx context.Context, tx *sql.Tx, team id.Team, providerID string) (Provider, bool, error) {
	var p Provider
	c := columns(&p)
	ok, err := db.Found("the identity provider", c.Scan(tx.QueryRowContext(ctx, "UPDATE "+table+
		" SET updated_ms = updated_ms WHERE team_id = $1 AND id = $2 RETURNING "+c.Names(), team, providerID)))
	return p, ok, err
}

func listProviders(ctx context.Context, q db.Querier, team id.Team, r page.Request) ([]Provider, error) {
	w := providersOf(team)
	list, err := db.All(ctx, q, columns, "FROM "+table, w, w.Page("id", r))
	if err != nil {
		return nil, fmt.Errorf("read identity providers: %w", err)
	}
	return list, nil
}

// insertProvider reports whether the team has room for another.
func insertProvider(ctx context.Context, tx *sql.Tx, p Provider) (bool, error) {
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM sso_providers WHERE team_id = $1",
		p.Team).Scan(&n); err != nil {
		return false, fmt.Errorf("count identity providers: %w", err)
	}
	if n >= MaxProviders {
		return false, nil
	}
	if _, err := db.Insert(ctx, tx, "INSERT INTO "+table, columns(&p), ""); err != nil {
		return false, fmt.Errorf("store the identity provider: %w", err)
	}
	return true, nil
}

// updateProvider writes what differs of a locked provider from before.
func updateProvider(ctx context.Context, tx *sql.Tx, before, after Provider) error {
	changed, err := columns(&after).Changed(columns(&before))
	if err == nil {
		_, err = db.Update(ctx, tx, "UPDATE "+table, changed, providersOf(after.Team).And("id = ?", after.ID))
	}
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

// insertSignIn stores a sign-in and removes a few that were not finished, so that the table stays small without a
// worker.
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
	// Check without the writer, so that made-up responses cannot block it.
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
