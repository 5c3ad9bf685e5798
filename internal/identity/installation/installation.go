// Package installation knows what exists once in a database: whether development mode created it, and the pepper under
// which secrets are hashed.
package installation

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/secretbox"
)

const pepperBytes = 32

// ErrNotDev means that development mode refuses a database because development mode did not create it.
var ErrNotDev = errors.New("the database was not created by development mode; start without --dev, or with another " +
	"data folder or database")

// Config configures Open.
type Config struct {
	DB    *db.DB
	Box   *secretbox.Box
	Clock clock.Clock
	// Dev opens the database in development mode.
	Dev bool
}

// Installation describes an opened database.
type Installation struct {
	// Dev reports whether development mode created the database. A server without --dev may open such a database too.
	Dev    bool
	Pepper Pepper
}

// Open reads the installation of a database, and creates it in a database that has none. It returns ErrNotDev in
// development mode, unless development mode created the database. Several nodes may call it at the same time.
func Open(ctx context.Context, c Config) (Installation, error) {
	fresh, err := create(c)
	if err != nil {
		return Installation{}, err
	}
	var found db.Installation
	err = c.DB.Tx(ctx, func(tx *sql.Tx) error {
		if err := Lock(ctx, tx, c.DB); err != nil {
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
		if c.Dev && !found.Dev {
			return ErrNotDev
		}
		return nil
	})
	if err != nil {
		return Installation{}, fmt.Errorf("set up the database: %w", err)
	}
	pepper, err := c.Box.Open(found.SealedPepper, pepperAD())
	if err != nil {
		return Installation{}, fmt.Errorf("open the pepper of API keys: %w", err)
	}
	return Installation{Dev: found.Dev, Pepper: pepper}, nil
}

func create(c Config) (db.Installation, error) {
	pepper := make([]byte, pepperBytes)
	// crypto/rand.Read never returns an error; it ends the program when the system has no entropy.
	_, _ = rand.Read(pepper)
	sealed, err := c.Box.Seal(pepper, pepperAD())
	if err != nil {
		return db.Installation{}, fmt.Errorf("seal the pepper of API keys: %w", err)
	}
	return db.Installation{Dev: c.Dev, SealedPepper: sealed, CreatedMillis: clock.Millis(c.Clock.Now())}, nil
}

// Lock serialises the transactions that create what exists once: the installation, its team, its signing keys.
func Lock(ctx context.Context, tx *sql.Tx, d *db.DB) error {
	if err := d.AdvisoryLock(ctx, tx, db.LockSetup); err != nil {
		return fmt.Errorf("wait for another set-up: %w", err)
	}
	return nil
}

// Pepper is the secret of the installation under which tokens and keys are hashed, so that a copy of the database alone
// verifies no guess.
type Pepper []byte

// MAC returns the HMAC-SHA-256 of b for a purpose. The same bytes have another HMAC for each purpose.
func (p Pepper) MAC(purpose string, b []byte) []byte {
	m := hmac.New(sha256.New, p)
	m.Write([]byte(purpose))
	m.Write([]byte{0})
	m.Write(b)
	return m.Sum(nil)
}

// String keeps the pepper out of logs.
func (Pepper) String() string { return "[redacted]" }

// GoString keeps the pepper out of logs.
func (Pepper) GoString() string { return "[redacted]" }

func pepperAD() secretbox.AD {
	return secretbox.AD{Table: "installation", Column: "pepper", RowID: db.InstallationID}
}

// SealedColumns lists the columns that a rotation of the keyset encrypts again.
func SealedColumns() []secretbox.Column {
	return []secretbox.Column{{Table: "installation", Column: "pepper", IDColumn: "id"}}
}
