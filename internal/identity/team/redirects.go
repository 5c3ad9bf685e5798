package team

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// Limits of the URLs to which the connect page may send browsers back.
const (
	maxRedirectURLs     = 20
	maxRedirectURLBytes = 2048
)

const redirectField = "connect_redirect_urls"

// redirectViolations returns the errors of URLs to which browsers are sent back. They are compared as a whole, so a
// wildcard has no meaning and is refused with the characters that no URL has.
func (s *Service) redirectViolations(urls *[]string) []apperr.Detail {
	if urls == nil {
		return nil
	}
	var v apperr.Violations
	if len(*urls) > maxRedirectURLs {
		v.Add(redirectField, "max_items", fmt.Sprintf("must have at most %d items", maxRedirectURLs))
	}
	for i, text := range *urls {
		at := fmt.Sprintf("%s[%d]", redirectField, i)
		if wrong := s.checkRedirectURL(text); wrong != "" {
			v.Add(at, "redirect_url", wrong)
		} else if slices.Contains((*urls)[:i], text) {
			v.Add(at, "unique", "is in the list already")
		}
	}
	return v.Details()
}

// checkRedirectURL returns a clause about a URL that no browser may be sent to; empty if it is accepted.
func (s *Service) checkRedirectURL(text string) string {
	if len(text) > maxRedirectURLBytes {
		return fmt.Sprintf("must be at most %d bytes", maxRedirectURLBytes)
	}
	for i := range len(text) {
		if b := text[i]; b <= ' ' || b >= 0x7f || strings.IndexByte("\\\"<>^`{|}*", b) >= 0 {
			return "has a character that must be percent-encoded"
		}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return "must be an absolute URL such as https://app.example.com/connected"
	case u.User != nil:
		return "must not have a user name or password"
	case strings.Contains(text, "#"):
		return "must not have a fragment"
	case u.Scheme == "http" && !s.dev && !isLoopback(u.Hostname()):
		return "must begin with https://, unless its host is this machine"
	}
	return ""
}

// NameOf returns the name of a team, or not_found.
func (s *Service) NameOf(ctx context.Context, team id.Team) (string, error) {
	t, ok, err := Read(ctx, s.db.Read(), team)
	if err == nil && !ok {
		err = apperr.NotFound("team")
	}
	return t.Name, err
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// TeamOfEnvironment returns the team of an environment, or not_found.
func (s *Service) TeamOfEnvironment(ctx context.Context, env id.Environment) (id.Team, error) {
	e, err := s.live(ctx, env)
	return e.Team, err
}

// RedirectURLs returns the URLs to which the connect page may send browsers of an environment back, or not_found.
func (s *Service) RedirectURLs(ctx context.Context, env id.Environment) ([]string, error) {
	e, err := s.live(ctx, env)
	return e.RedirectURLs, err
}

// live returns an environment that is not deleted, or not_found.
func (s *Service) live(ctx context.Context, env id.Environment) (Environment, error) {
	e, found, err := db.One(ctx, s.db.Read(), environmentColumns, environmentTable,
		new(db.Where).And("deleted_ms IS NULL").And("id = ?", string(env)), "")
	switch {
	case err != nil:
		return Environment{}, fmt.Errorf("read the environment: %w", err)
	case !found:
		return Environment{}, ErrNoEnvironment()
	default:
		return e, nil
	}
}
