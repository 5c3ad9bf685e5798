package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"sallyport/internal/app"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/secretbox"
)

// KeysetWait is how long after a rotation every server that shares the keyset file has read it: a server looks every
// five seconds at most, and a value may be sealed just before it looks and stored just after.
const KeysetWait = 7 * time.Second

// resealPasses bounds how often Reseal goes over the columns for values that were stored meanwhile under an older key.
const resealPasses = 5

// errInlineKeyset says that the keyset is in a variable, where no command can change it.
var errInlineKeyset = errors.New("the keyset is in the variable SALLYPORT_KEYSET, which commands cannot change: " +
	"work on a file that holds it (--keyset-file), give its new content to every node, then run `sallyport keyset reseal`")

// errKeysetUnread means that a server still seals under an older key.
var errKeysetUnread = errors.New("a server still seals under an older key: give every node the present keyset, then " +
	"run `sallyport keyset reseal`")

// CreateKeyset makes the keyset file, with its folder, and returns its path. secretbox.ErrExists says that there is
// one.
func CreateKeyset(cfg *config.Config) (string, error) {
	if cfg.Keyset != "" {
		return "", errInlineKeyset
	}
	if err := os.MkdirAll(filepath.Dir(cfg.KeysetFile), 0o700); err != nil {
		return "", fmt.Errorf("create the keyset's folder: %w", err)
	}
	return cfg.KeysetFile, secretbox.Create(cfg.KeysetFile)
}

// ListKeyset describes the keys of the keyset file, oldest first.
func ListKeyset(cfg *config.Config) ([]secretbox.KeyInfo, error) {
	if cfg.Keyset != "" {
		return nil, errInlineKeyset
	}
	keys, err := secretbox.List(cfg.KeysetFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", app.ErrKeyset, err)
	}
	return keys, nil
}

// AddKeysetKey adds a key to the keyset file, under which everything is sealed from then on.
func AddKeysetKey(cfg *config.Config) (secretbox.KeyInfo, error) {
	if cfg.Keyset != "" {
		return secretbox.KeyInfo{}, errInlineKeyset
	}
	key, err := secretbox.Rotate(cfg.KeysetFile)
	if err != nil {
		return secretbox.KeyInfo{}, fmt.Errorf("%w: %w", app.ErrKeyset, err)
	}
	return key, nil
}

// AwaitKeyset returns when every server has read a keyset file that was just changed, or when ctx ends.
func AwaitKeyset(ctx context.Context, clk clock.Clock) error {
	t := clk.NewTimer(KeysetWait)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the servers to read the keyset: %w", ctx.Err())
	}
}

// CheckKeyset returns nil when the keyset is that of the database.
func CheckKeyset(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	s, err := OpenStore(ctx, cfg, log)
	if err != nil {
		return err
	}
	return s.Close()
}

// Reseal encrypts again every value that is not sealed under the newest key, and returns how many values it changed. It
// works while servers run, and may be ended and run again. It calls report after each column, with the number of values
// changed. Values that do not open are left as they are and named in the error.
func Reseal(ctx context.Context, cfg *config.Config, log *slog.Logger, report func(c secretbox.Column,
	changed int)) (total int, err error) {
	s, err := OpenStore(ctx, cfg, log)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for range resealPasses {
		changed, err := resealOnce(ctx, s, report)
		total += changed
		if err != nil || changed == 0 {
			return total, err
		}
	}
	return total, errKeysetUnread
}

func resealOnce(ctx context.Context, s *Store, report func(c secretbox.Column, changed int)) (total int, err error) {
	for _, c := range app.SealedColumns() {
		n, cerr := secretbox.Reseal(ctx, s.DB.Write(), s.Box, []secretbox.Column{c})
		total += n
		err = errors.Join(err, cerr)
		if ctx.Err() != nil {
			return total, err
		}
		if report != nil {
			report(c, n)
		}
	}
	return total, err
}
