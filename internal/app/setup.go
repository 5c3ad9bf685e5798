package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"sallyport/internal/platform/config"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/secretbox"
)

// ensurePeople sees to it that somebody can get in.
func (a *App) ensurePeople(ctx context.Context) error {
	if a.cfg.Dev {
		return a.store.Identity.EnsureDev(ctx, a.cfg.Data, a.devURL()+httpapi.Prefix)
	}
	return a.openSetup(ctx)
}

// devURL is where clients on this machine reach the server: the public URL, or the listener where that took any free
// port.
func (a *App) devURL() string {
	if strings.HasSuffix(a.cfg.PublicURL, ":0") {
		return "http://" + a.Addr()
	}
	return a.cfg.PublicURL
}

// openSetup lets somebody set up an installation that has no team, and tells the operator how.
func (a *App) openSetup(ctx context.Context) error {
	done, err := a.store.Identity.HasTeam(ctx)
	if err != nil || done {
		return err
	}
	configured, err := setupToken(&a.cfg)
	if err != nil {
		return err
	}
	shown, err := a.store.Identity.OpenSetup(ctx, configured)
	if err != nil {
		return err
	}
	token := "as configured"
	switch {
	case shown != "":
		token = shown.Reveal()
	case configured == "": // another node was set up meanwhile
		return nil
	}
	// Whatever is logged, this is: without it nobody gets in.
	level := slog.LevelWarn
	if !a.log.Enabled(ctx, level) {
		level = slog.LevelError
	}
	a.log.Log(ctx, level, "nobody has set up this installation yet: post this token, or use `sallyport admin create`",
		slog.String("setup_token", token), slog.String("url", a.cfg.PublicURL+httpapi.Prefix+"/team/setup"))
	return nil
}

const maxSetupTokenFile = 4 << 10

var errSetupTokenFile = errors.New("setup-token-file must hold one token of 32 to 256 printable characters without " +
	"spaces")

// setupToken returns the token that the operator has chosen; empty where they left it to us.
func setupToken(cfg *config.Config) (secretbox.Secret, error) {
	if cfg.SetupTokenFile == "" {
		return cfg.SetupToken, nil
	}
	token, err := readSecretFile(cfg.SetupTokenFile, maxSetupTokenFile)
	if err != nil {
		return "", fmt.Errorf("read setup-token-file: %w", err)
	}
	if !config.IsSetupToken(token) {
		return "", errSetupTokenFile
	}
	return token, nil
}

var (
	errSecretFile  = errors.New("the file is too large for a secret")
	errEmptySecret = errors.New("the file is empty")
)

// readSecretFile returns what a file holds, without the line end that editors add.
func readSecretFile(path string, most int64) (secretbox.Secret, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Size() > most {
		return "", errSecretFile
	}
	b, err := os.ReadFile(path) //nolint:gosec // the operator chooses the file
	if err != nil {
		return "", err
	}
	return secretbox.Secret(strings.TrimSpace(string(b))), nil
}
