package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"sallyport/internal/identity"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/migrate"
	"sallyport/internal/platform/secretbox"
)

// Store is what every command that touches data opens: the database, the keyset and the identities.
type Store struct {
	DB       *db.DB
	Box      *secretbox.Box
	Identity *identity.Service
}

// Close closes the database.
func (s *Store) Close() error { return s.DB.Close() }

// OpenStore opens the database and the keyset for a command beside a server that may be running. It changes no schema.
func OpenStore(ctx context.Context, cfg *config.Config, log *slog.Logger) (*Store, error) {
	d, err := OpenDatabase(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s, err := openStore(ctx, cfg, d, clock.System(), log)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return s, nil
}

// Errors of opening the database.
var (
	// ErrNoDatabase says that SQLite's file has yet to be made.
	ErrNoDatabase = errors.New("there is no database yet")
	// ErrDatabase says that the database does not let itself be opened.
	ErrDatabase = errors.New("the database cannot be opened")
)

// OpenDatabase opens the database and checks that its schema is the binary's.
func OpenDatabase(ctx context.Context, cfg *config.Config) (*db.DB, error) {
	d, err := openExisting(ctx, cfg)
	if err != nil {
		return nil, err
	}
	state, err := migrate.Read(ctx, d)
	if err == nil {
		err = state.Check()
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// openExisting opens the database, whatever its schema, and makes none.
func openExisting(ctx context.Context, cfg *config.Config) (*db.DB, error) {
	if cfg.SQLite() {
		_, err := os.Stat(filepath.Join(cfg.Data, db.FileName))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w in %s", ErrNoDatabase, cfg.Data)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDatabase, err)
		}
	}
	return openOrMake(ctx, cfg)
}

// openOrMake opens the database and makes SQLite's file where it is missing.
func openOrMake(ctx context.Context, cfg *config.Config) (*db.DB, error) {
	d, err := db.Open(ctx, cfg.DatabaseURL.Reveal(), cfg.Data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDatabase, err)
	}
	return d, nil
}

// errOpenKeyset says that the keyset is not there or is none.
var errOpenKeyset = errors.New("the keyset cannot be opened")

func openStore(ctx context.Context, cfg *config.Config, d *db.DB, clk clock.Clock, log *slog.Logger) (*Store, error) {
	box, err := secretbox.Open(KeysetSource(cfg), secretbox.WithClock(clk), secretbox.WithLogger(log))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errOpenKeyset, err)
	}
	ids, err := identity.New(d, box, clk, identity.Options{Issuer: cfg.PublicURL,
		PayloadRetentionDays: cfg.WebhookPayloadRetentionDays, EventRetentionDays: cfg.WebhookEventRetentionDays})
	if err != nil {
		return nil, err
	}
	if err := ids.Init(ctx, cfg.Dev); err != nil {
		return nil, err
	}
	return &Store{DB: d, Box: box, Identity: ids}, nil
}

// KeysetSource says where the configuration puts the keyset.
func KeysetSource(cfg *config.Config) secretbox.Source {
	if cfg.Keyset != "" {
		return secretbox.Source{Inline: cfg.Keyset}
	}
	return secretbox.Source{Path: cfg.KeysetFile}
}

// ensureKeyset makes the keyset of the embedded default on its first start. Elsewhere the operator makes it, because
// every node needs the same one.
func ensureKeyset(cfg *config.Config) error {
	if cfg.Keyset != "" || !cfg.SQLite() && !cfg.Dev {
		return nil
	}
	err := secretbox.Create(cfg.KeysetFile)
	if errors.Is(err, secretbox.ErrExists) {
		return nil
	}
	return err
}

// errInUse says that another server works in the data folder.
var errInUse = errors.New("another `sallyport serve` is using this data folder; stop it, or give this one its own " +
	"with --data")

// lockData takes the data folder for this process, and names it. On SQLite a folder that is taken is an error. On
// PostgreSQL nodes may share a folder; only the first of them has a name that outlives it.
func lockData(cfg *config.Config) (lock *flock.Flock, node string, err error) {
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, "", fmt.Errorf("create the data folder: %w", err)
	}
	lock = flock.New(filepath.Join(cfg.Data, "serve.lock"))
	held, err := lock.TryLock()
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("lock the data folder: %w", err)
	case held && cfg.SQLite():
		return lock, soleNode, nil
	case held:
		node, err = nodeName(filepath.Join(cfg.Data, "node-id"))
		if err != nil {
			return nil, "", errors.Join(err, lock.Unlock())
		}
		return lock, node, nil
	case cfg.SQLite():
		return nil, "", errInUse
	default:
		node, err = newNodeName()
		return lock, node, err
	}
}

// soleNode is the name of the one server that a SQLite database has: whatever lease it finds at its start is a
// predecessor's, also in a database that was restored elsewhere.
const soleNode = "sole"

const nodeNameBytes = 6

// nodeName reads this data folder's node name, or gives it one. It is how a process recognises its predecessor's
// leases.
func nodeName(path string) (string, error) {
	b, err := os.ReadFile(path) //nolint:gosec // the operator chooses the data folder
	if err == nil {
		if name := strings.TrimSpace(string(b)); len(name) == 2*nodeNameBytes {
			return name, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the node name: %w", err)
	}
	name, err := newNodeName()
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write the node name: %w", err)
	}
	return name, nil
}

func newNodeName() (string, error) {
	var b [nodeNameBytes]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("make a node name: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}
