package signin

import (
	"context"
	"errors"

	"sallyport/internal/identity/members"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

var (
	errNoMember  = errors.New("the user is no member of the team")
	errNoSession = errors.New("the session of the access token has ended, or its user is no member of the team")
)

// Bearer returns the principal of a user's access token. The session and the user's roles are read now: an ended
// session and a removed user are refused, and changed roles apply, with the next request.
func (s *Service) Bearer(ctx context.Context, token string) (access.Principal, error) {
	keys, err := s.tokens.Keys(ctx)
	if err != nil {
		return access.Principal{}, err
	}
	c, err := keys.Verify(s.clock.Now(), token)
	if err != nil {
		return access.Principal{}, apperr.Unauthorized(err)
	}
	return s.readSignedIn(ctx, s.db.Read(), c.Subject, c.Team, c.Session)
}

// Current returns a user who was identified before with the rights that they have now, or unauthorized where their
// session has ended.
func (s *Service) Current(ctx context.Context, p access.Principal) (access.Principal, error) {
	return s.readSignedIn(ctx, s.db.Read(), p.ID, p.Team, p.Session)
}

// readSignedIn reads session and roles in one query, because every request of a user does so.
func (s *Service) readSignedIn(ctx context.Context, q db.Querier, user string, teamID id.Team,
	sessionID string) (access.Principal, error) {
	now := s.clock.Now()
	p, signedIn, err := members.ReadPrincipal(ctx, q, teamID, user, sessionID, now,
		whileSignedIn(sessionID, user, teamID, now))
	if err == nil && !signedIn {
		err = apperr.Unauthorized(errNoSession)
	}
	return p, err
}

// Profile returns a signed-in user's view of their own account, and the session of the request.
func (s *Service) Profile(ctx context.Context, actor access.Principal) (members.Profile, Session, error) {
	p, err := members.ReadProfile(ctx, s.db.Read(), actor.Team, actor.ID, s.clock.Now())
	if err != nil {
		return members.Profile{}, Session{}, err
	}
	current, ok, err := readSession(ctx, s.db.Read(), actor.ID, actor.Session, s.clock.Now())
	if err != nil {
		return members.Profile{}, Session{}, err
	}
	if !ok {
		return members.Profile{}, Session{}, apperr.Unauthorized(errSessionEnded)
	}
	return p, current, nil
}
