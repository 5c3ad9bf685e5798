package connecting

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/connections"
)

// A standing link is a link that a connection has by itself as long as a person has to connect it again. It follows
// from the connection, the credentials it is to replace, and a period of time, so that every node returns the same
// without storing it. Its row is stored when its form is submitted for the first time, in place of that of any other
// link of the connection.

// standingPeriod is how often the standing link of a connection changes. It is valid until the end of the next period,
// so for at least one.
const standingPeriod = 12 * time.Hour

// StandingLinks are those of all connections. It is safe for concurrent use.
type StandingLinks struct{ cfg *Config }

// NewStandingLinks returns the standing links of a service; those of none have no URL.
func NewStandingLinks(s *Service) StandingLinks {
	if s == nil {
		return StandingLinks{}
	}
	return StandingLinks{&s.cfg}
}

// URL returns the URL of a connection's standing link, and when it expires. It is empty for a connection that
// no one has to connect again, and where the provider configuration has nothing with which anyone could.
func (s StandingLinks) URL(ctx context.Context, c *connections.Connection) (secretbox.Secret, time.Time, error) {
	if !isToReconnect(c) {
		return "", time.Time{}, nil
	}
	config, ok, err := s.cfg.Configs.Resolve(ctx, c.Environment, c.ProviderConfigKey)
	if err != nil || !ok {
		return "", time.Time{}, err
	}
	provider, ok := s.cfg.Providers.Find(c.Environment, config.Provider)
	if !ok || provider.Outbound == nil || len(connectable(provider.Outbound, config, modeOf(c))) == 0 {
		return "", time.Time{}, nil
	}
	period := periodOf(s.cfg.Clock.Now())
	return urlOf(s.cfg, s.token(c, period)), endOf(period), nil
}

// isToReconnect reports whether a connection works again only after a person has connected it.
func isToReconnect(c *connections.Connection) bool {
	switch c.Status {
	case connections.NeedsReauth, connections.Expired, connections.Revoked:
		return true
	default:
		return false
	}
}

func periodOf(t time.Time) int64 { return t.Unix() / int64(standingPeriod/time.Second) }

func startOf(period int64) time.Time {
	return time.Unix(period*int64(standingPeriod/time.Second), 0).UTC()
}

// endOf is when the link of a period expires.
func endOf(period int64) time.Time { return startOf(period + 2) }

// token returns the token of a connection's standing link: a MAC, the connection and its environment.
func (s StandingLinks) token(c *connections.Connection, period int64) secretbox.Secret {
	text := strings.Join([]string{string(c.Environment), c.UUID, strconv.FormatInt(givenMillis(c), 10),
		strconv.FormatInt(period, 10)}, "\n")
	mac := s.cfg.Pepper.MAC("connect-standing-link", []byte(text))
	return secretbox.Secret(base64.RawURLEncoding.EncodeToString(mac) + "." + c.UUID + "." + string(c.Environment))
}

// standingParts returns the connection of a standing link's token; false for a text that is none.
func standingParts(token secretbox.Secret) (env id.Environment, uuid string, ok bool) {
	parts := strings.Split(token.Reveal(), ".")
	if len(parts) != 3 {
		return "", "", false
	}
	mac, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil || len(mac) != sha256.Size || !id.IsUUID(parts[1]) || !id.Is(id.PrefixEnvironment, parts[2]) {
		return "", "", false
	}
	return id.Environment(parts[2]), parts[1], true
}

// find returns the standing link of a token that has no row yet, or a *Problem.
func (s StandingLinks) find(ctx context.Context, token secretbox.Secret) (link, error) {
	env, uuid, ok := standingParts(token)
	if !ok {
		return link{}, linkProblem(wordsUnknown)
	}
	c, err := s.cfg.Connections.ByUUID(ctx, env, uuid)
	if apperr.Is(err, apperr.CodeNotFound) {
		return link{}, linkProblem(wordsStanding) // as below: a guess does not show which connections exist
	}
	if err != nil {
		return link{}, err
	}
	now := s.cfg.Clock.Now()
	period := periodOf(now)
	if !s.isOf(&c, token, period) {
		if period--; !s.isOf(&c, token, period) {
			// Of an earlier period, or for credentials that were replaced. The page does not say which of them.
			return link{}, linkProblem(wordsStanding)
		}
	}
	if !isToReconnect(&c) {
		return link{}, linkProblem(wordsWorks)
	}
	row, found, err := findLink(ctx, s.cfg.DB.Read(), new(db.Where).And("environment_id = ?", string(env)).
		And("connection_uuid = ?", uuid))
	if err != nil {
		return link{}, err
	}
	if found && subtle.ConstantTimeCompare(row.tokenHash, linkHash(token)) == 1 {
		return row, nil // another request has stored it meanwhile
	}
	team, err := s.cfg.Teams.TeamOfEnvironment(ctx, env)
	if err != nil {
		return link{}, err
	}
	config, ok, err := s.cfg.Configs.Resolve(ctx, env, c.ProviderConfigKey)
	if err != nil {
		return link{}, err
	}
	if !ok {
		return link{}, linkProblem(wordsChanged)
	}
	return link{id: id.NewUUID(), tokenHash: linkHash(token), connectionUUID: uuid, environment: env, team: team,
		providerConfigKey: c.ProviderConfigKey, connectionID: c.ConnectionID, mode: modeOf(&c), clientID: config.ClientID,
		credentialsMillis: givenMillis(&c), createdAt: now, expiresAt: endOf(period), unstored: true}, nil
}

func (s StandingLinks) isOf(c *connections.Connection, token secretbox.Secret, period int64) bool {
	want := s.token(c, period)
	return subtle.ConstantTimeCompare([]byte(want), []byte(token)) == 1
}

// freed returns a stored standing link for another browser, which begins from the start: the connection shows the link
// for hours, so that a person may well go on with it on another device. Nothing that the first browser has proven is
// taken over.
func (l *link) freed() link {
	out := *l
	out.id, out.browserHash, out.signedInMillis, out.returned, out.unstored = id.NewUUID(), nil, 0, "", true
	return out
}

// keep stores a standing link for a browser, in place of the link that the connection has, unless that is the same for
// the same browser.
func (s StandingLinks) keep(ctx context.Context, tx *sql.Tx, l *link, browserHash []byte) error {
	if err := s.cfg.Connections.Hold(ctx, tx, l.environment, l.providerConfigKey, l.connectionID); err != nil {
		return err
	}
	row, found, err := findLink(ctx, tx, new(db.Where).And("environment_id = ?", string(l.environment)).
		And("connection_uuid = ?", l.connectionUUID))
	if err != nil {
		return err
	}
	if found && subtle.ConstantTimeCompare(row.tokenHash, l.tokenHash) == 1 {
		if row.connected || row.browserHash == nil || subtle.ConstantTimeCompare(row.browserHash, browserHash) == 1 {
			*l = row
			return nil
		}
		*l = row.freed() // with its attempts
	}
	l.unstored = false
	return replaceLink(ctx, tx, l)
}
