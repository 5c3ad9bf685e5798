package connecting

import (
	"context"
	"log/slog"

	"sallyport/internal/providers/oauth"
)

// maxFailureEvents is in how many attempts under a link, from its first, a failure emits an event. An attempt has at
// most one.
const maxFailureEvents = 10

// noteFailure counts a failure of an attempt. One that is not of the link itself is shown to the operator: with a
// pending connection, in the log, and as an event. None has the provider's words.
func (o *opened) noteFailure(ctx context.Context, s *Service, p *Problem) error {
	s.metrics.links.WithLabelValues(p.Code).Inc()
	if p.Code == codeLink {
		return nil
	}
	level := slog.LevelInfo
	if p.Code == codeClient {
		level = slog.LevelWarn // no person can connect until the operator corrects it
	}
	s.cfg.Logger.LogAttrs(ctx, level, "an attempt to connect an account has failed",
		slog.String("connection_uuid", o.connectionUUID), slog.String("environment_id", string(o.environment)),
		slog.String("provider_config_key", o.providerConfigKey), slog.String("reason", p.Code))
	emit := s.cfg.OnFailure
	if o.attempts > maxFailureEvents {
		emit = nil
	}
	return s.cfg.Connections.NoteFailure(ctx, &o.connection, p.Code, emit)
}

// codeOf returns the code for an error with which a provider sent a browser back (RFC 6749, section 4.1.2.1).
func codeOf(e *oauth.AuthorizationError) string {
	switch e.Code {
	case codeDeclined:
		return codeDeclined
	case "unauthorized_client", "invalid_client":
		return codeClient
	case "invalid_scope", "unsupported_response_type", "redirect_uri_mismatch":
		return codeMisconfigured
	default:
		return codeProvider
	}
}
