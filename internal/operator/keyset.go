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

// errKeyInUse says that values would be lost with a key.
var errKeyInUse = errors.New("values in the database need the key (see `sallyport doctor`): wait until the servers " +
	"have encrypted them again, or run `sallyport keyset reseal`; values that need it")

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
	return changeKeyset(cfg, func() (secretbox.KeyInfo, error) { return secretbox.Rotate(cfg.KeysetFile) })
}

func changeKeyset(cfg *config.Config, change func() (secretbox.KeyInfo, error)) (secretbox.KeyInfo, error) {
	if cfg.Keyset != "" {
		return secretbox.KeyInfo{}, errInlineKeyset
	}
	key, err := change()
	if err != nil && !errors.Is(err, secretbox.ErrNoKey) {
		return secretbox.KeyInfo{}, fmt.Errorf("%w: %w", app.ErrKeyset, err)
	}
	return key, err
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

// Reseal encrypts again every value that is not sealed under the newest key, and returns how many values it changed.
// It works while servers run, which do the same in the background, and may be ended and run again. It calls report as
// it goes. Values that do not open are left as they are and named in the error.
func Reseal(ctx context.Context, cfg *config.Config, log *slog.Logger, report func(secretbox.Progress)) (changed int,
	err error) {
	s, err := OpenStore(ctx, cfg, log)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for range resealPasses {
		total, err := secretbox.Reseal(ctx, s.DB, s.Box, app.SealedColumns(), report)
		changed += total.Changed
		if err != nil || total.Changed+total.Left == 0 {
			return changed, err
		}
	}
	return changed, errKeysetUnread
}

// AddSpareKey adds a key to the keyset file that opens values, and encrypts nothing before PromoteKey.
func AddSpareKey(cfg *config.Config) (secretbox.KeyInfo, error) {
	return changeKeyset(cfg, func() (secretbox.KeyInfo, error) { return secretbox.Add(cfg.KeysetFile) })
}

// PromoteKey makes a key of the keyset file the one that encrypts.
func PromoteKey(cfg *config.Config, key uint32) (secretbox.KeyInfo, error) {
	return changeKeyset(cfg, func() (secretbox.KeyInfo, error) { return secretbox.Promote(cfg.KeysetFile, key) })
}

// RemoveKey removes a key from the keyset file when no value of the database needs it. If the file was changed lately
// it waits until every server has read it, so that none stores a value under the key afterwards.
func RemoveKey(ctx context.Context, cfg *config.Config, clk clock.Clock, log *slog.Logger, key uint32) (err error) {
	if cfg.Keyset != "" {
		return errInlineKeyset
	}
	s, err := OpenStore(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return secretbox.Remove(cfg.KeysetFile, key, func(changed time.Time) error {
		if clk.Now().Sub(changed) < KeysetWait {
			if err := AwaitKeyset(ctx, clk); err != nil {
				return err
			}
		}
		counts, err := secretbox.Count(ctx, s.DB, app.SealedColumns())
		if err != nil {
			return err
		}
		if n := counts[key]; n > 0 {
			return fmt.Errorf("%w: %d", errKeyInUse, n)
		}
		return nil
	})
}
