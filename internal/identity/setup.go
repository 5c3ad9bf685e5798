package identity

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/secretbox"
)

const pepperBytes = 32

// ErrNotDev is Init's answer to development mode on a database that holds more than play.
var ErrNotDev = errors.New("the database was not created by development mode; start without --dev, or with another " +
	"data folder")

// Init makes what an empty database lacks (the mark of what it is, the pepper of API keys, a key to sign tokens with)
// and reads it. dev marks a database that it finds empty as one of development mode; on a database without that mark it
// returns ErrNotDev. A database made by development mode may also be opened without it. It is safe to call on several
// nodes at once.
func (s *Service) Init(ctx context.Context, dev bool) error {
	fresh, err := s.newInstallation(dev)
	if err != nil {
		return err
	}
	first, err := s.sealedSigningKey(s.clock.Now())
	if err != nil {
		return err
	}
	var found db.Installation
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := s.lockSetup(ctx, tx); err != nil {
			return err
		}
		var ok bool
		if found, ok, err = db.ReadInstallation(ctx, tx); err != nil {
			return err
		}
		if !ok {
			found = fresh
			if err := db.AddInstallation(ctx, tx, found); err != nil {
				return err
			}
		}
		if dev && !found.Dev {
			return ErrNotDev
		}
		keys, err := readSigningKeys(ctx, tx)
		if err != nil || len(keys) > 0 {
			return err
		}
		return insertSigningKey(ctx, tx, first, s.clock.Now())
	})
	if err != nil {
		return fmt.Errorf("set up the database: %w", err)
	}
	pepper, err := s.box.Open(found.SealedPepper, pepperAD())
	if err != nil {
		return fmt.Errorf("open the pepper of API keys: %w", err)
	}
	if _, err := s.tokens(ctx); err != nil {
		return err
	}
	s.ready.Store(&material{dev: found.Dev, pepper: pepper})
	return nil
}

func (s *Service) newInstallation(dev bool) (db.Installation, error) {
	pepper := make([]byte, pepperBytes)
	// crypto/rand.Read never returns an error; it ends the program when the system has no entropy.
	_, _ = rand.Read(pepper)
	sealed, err := s.box.Seal(pepper, pepperAD())
	if err != nil {
		return db.Installation{}, fmt.Errorf("seal the pepper of API keys: %w", err)
	}
	return db.Installation{Dev: dev, SealedPepper: sealed, CreatedMillis: clock.Millis(s.clock.Now())}, nil
}

func pepperAD() secretbox.AD {
	return secretbox.AD{Table: "installation", Column: "pepper", RowID: db.InstallationID}
}

// SealedColumns lists the columns that a rotation of the keyset encrypts again.
func SealedColumns() []secretbox.Column {
	return []secretbox.Column{
		{Table: "installation", Column: "pepper", IDColumn: "id"},
		{Table: "password_reset_requests", Column: "request", IDColumn: "id"},
		{Table: "signing_keys", Column: "private_key", IDColumn: "id"},
		{Table: "user_totp", Column: "secret", IDColumn: "user_id"},
	}
}
