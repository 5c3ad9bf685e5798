package app

import (
	"context"
	"log/slog"
	"strings"

	"sallyport/internal/identity"
	"sallyport/internal/platform/httpapi"
)

// ensurePeople makes sure that somebody can sign in.
func (a *App) ensurePeople(ctx context.Context, ids *identity.Services) error {
	if a.cfg.Dev {
		return ids.Setup.EnsureDev(ctx, a.cfg.Data, a.devURL()+httpapi.Prefix)
	}
	return a.openSetup(ctx, ids)
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
func (a *App) openSetup(ctx context.Context, ids *identity.Services) error {
	done, err := ids.Setup.HasTeam(ctx)
	if err != nil || done {
		return err
	}
	configured, err := a.cfg.ReadSetupToken()
	if err != nil {
		return err
	}
	shown, err := ids.Setup.Open(ctx, configured)
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
	a.log.Log(ctx, level, "this installation is not set up yet: post this token, or use `sallyport admin create`",
		slog.String("setup_token", token), slog.String("url", a.cfg.PublicURL+httpapi.Prefix+"/team/setup"))
	return nil
}
