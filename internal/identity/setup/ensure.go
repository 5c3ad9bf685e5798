package setup

import (
	"context"
	"log/slog"
)

// Options describe the server that Ensure prepares.
type Options struct {
	// Dev is development mode, which writes credentials to DataDir instead of opening the set-up.
	Dev     bool
	DataDir string
	// URL is the base URL of the API. It ends in /api/v1.
	URL string
	// Token returns the configured token, or none.
	Token  func() (Token, error)
	Logger *slog.Logger
}

// Ensure makes sure that someone can sign in to a server that starts. In development mode it calls EnsureDev. Otherwise
// it opens the set-up of an installation without a team and logs the token, unless it is a configured one.
func (s *Service) Ensure(ctx context.Context, o Options) error {
	if o.Dev {
		return s.EnsureDev(ctx, o.DataDir, o.URL)
	}
	done, err := s.hasTeam(ctx)
	if err != nil || done {
		return err
	}
	configured, err := o.Token()
	if err != nil {
		return err
	}
	generated, err := s.Open(ctx, configured)
	if err != nil {
		return err
	}
	token := "as configured"
	switch {
	case generated != "":
		token = generated.Reveal()
	case configured == "": // another node was set up in the meantime
		return nil
	}
	// The message appears at every log level: without the token no one can set up the installation.
	level := slog.LevelWarn
	if !o.Logger.Enabled(ctx, level) {
		level = slog.LevelError
	}
	o.Logger.Log(ctx, level, "this installation is not set up yet: post this token, or use `sallyport admin create`",
		slog.String("setup_token", token), slog.String("url", o.URL+"/team/setup"))
	return nil
}
