package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"sallyport/internal/identity"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/registry"
)

// ErrKeyset says that the keyset is missing or cannot be read.
var ErrKeyset = errors.New("the keyset cannot be opened")

// OpenKeyset opens the keyset that is configured.
func OpenKeyset(cfg *config.Config, clk clock.Clock, log *slog.Logger) (*secretbox.Box, error) {
	return openKeyset(cfg, clk, log, SealedColumns())
}

// openKeyset opens it for the sealed columns alone: a value that no command could seal again is never stored.
func openKeyset(cfg *config.Config, clk clock.Clock, log *slog.Logger,
	sealed []secretbox.Column) (*secretbox.Box, error) {
	box, err := secretbox.Open(cfg.KeysetSource(), secretbox.WithClock(clk), secretbox.WithLogger(log),
		secretbox.WithColumns(sealed))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeyset, err)
	}
	return box, nil
}

// ensureKeyset creates the keyset of a new database on SQLite or in development mode. Elsewhere the operator creates
// it, because every node needs the same one. In a database with an installation values are sealed, which no new keyset
// could open: then a missing file is an error, and no file is written.
func ensureKeyset(ctx context.Context, cfg *config.Config, d *db.DB) error {
	if cfg.Keyset != "" {
		return nil
	}
	if _, err := os.Stat(cfg.KeysetFile); !errors.Is(err, fs.ErrNotExist) {
		return nil // openKeyset reports a file that cannot be read
	}
	_, sealed, err := db.ReadInstallation(ctx, d.Read())
	switch {
	case err != nil:
		return err
	case sealed:
		return fmt.Errorf("the keyset %s is missing; restore it from its copy, or name its file with --keyset-file",
			cfg.KeysetFile)
	case !cfg.SQLite() && !cfg.Dev:
		return nil
	}
	if err := secretbox.Create(cfg.KeysetFile); err != nil && !errors.Is(err, secretbox.ErrExists) {
		return fmt.Errorf("create the keyset: %w", err)
	}
	return nil
}

// NewEgress returns the client for everything that leaves the process.
func NewEgress(cfg *config.Config, clk clock.Clock) *egress.Client {
	return egress.New(egress.Policy{AllowCIDRs: cfg.EgressAllow, AllowLoopback: cfg.Dev,
		AllowHTTP: cfg.EgressAllowHTTP || cfg.Dev}, egress.Options{MaxIdlePerHost: cfg.DeliveryConcurrencyPerHost,
		Clock: clk})
}

// LoadProviders loads the definitions that ship and those of the operator's folder.
func LoadProviders(cfg *config.Config, log *slog.Logger) (*registry.Live, error) {
	return loadProviders(cfg, registry.Config{Logger: log})
}

// LoadValidProviders is LoadProviders without the files that are invalid, which the result reports.
func LoadValidProviders(cfg *config.Config, log *slog.Logger) (*registry.Live, error) {
	return loadProviders(cfg, registry.Config{Logger: log, SkipInvalid: true})
}

func loadProviders(cfg *config.Config, c registry.Config) (*registry.Live, error) {
	if cfg.ProvidersDir != "" {
		c.Folder = &registry.Folder{FS: os.DirFS(cfg.ProvidersDir), Path: cfg.ProvidersDir}
	}
	return registry.New(c)
}

// OpenIdentity returns the people of a database, ready for use by commands. They send no mail and delete no
// environment.
func OpenIdentity(ctx context.Context, cfg *config.Config, d *db.DB, box *secretbox.Box,
	clk clock.Clock) (*identity.Services, error) {
	return identity.Open(ctx, identityConfig(cfg, d, box, clk), cfg.Dev)
}

func identityConfig(cfg *config.Config, d *db.DB, box *secretbox.Box, clk clock.Clock) identity.Config {
	return identity.Config{DB: d, Box: box, Clock: clk, Issuer: cfg.PublicURL, Dev: cfg.Dev,
		PayloadRetentionDays: cfg.WebhookPayloadRetentionDays, EventRetentionDays: cfg.WebhookEventRetentionDays}
}
