package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// InstallationID is the id of the one row of its table.
const InstallationID = "installation"

// Installation says what this database is.
type Installation struct {
	// Dev marks a database that development mode made; development mode opens no other.
	Dev bool
	// SealedPepper is the key under which API keys are stored, sealed for (installation, pepper, InstallationID).
	SealedPepper  []byte
	CreatedMillis int64
}

// ReadInstallation returns the installation; false when the database has not been set up yet.
func ReadInstallation(ctx context.Context, q Querier) (Installation, bool, error) {
	var i Installation
	err := q.QueryRowContext(ctx, "SELECT dev, pepper, created_ms FROM installation WHERE id = $1", InstallationID).
		Scan(&i.Dev, &i.SealedPepper, &i.CreatedMillis)
	if errors.Is(err, sql.ErrNoRows) {
		return Installation{}, false, nil
	}
	if err != nil {
		return Installation{}, false, fmt.Errorf("read the installation: %w", err)
	}
	return i, true, nil
}

// AddInstallation stores the installation. A second one is a unique violation.
func AddInstallation(ctx context.Context, tx *sql.Tx, i Installation) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO installation (id, dev, pepper, created_ms) VALUES ($1, $2, $3, $4)",
		InstallationID, i.Dev, i.SealedPepper, i.CreatedMillis)
	if err != nil {
		return fmt.Errorf("store the installation: %w", err)
	}
	return nil
}
