package signin

import (
	"context"
	"database/sql"
	"errors"

	"golang.org/x/text/unicode/norm"

	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/secretbox"
)

// ErrWrongPassword means that the current password was given wrongly.
var ErrWrongPassword = errors.New("the current password is another one")

// ChangePassword replaces the actor's password and ends their other sessions. The session of the request continues with
// the refresh token that is returned. Its earlier refresh token no longer works, because a copy of it may be the reason
// for the change. ChangePassword returns validation_error at the location "new_password" for a password that breaks a
// rule or is the current one, and ErrWrongPassword. Wrong passwords count as failed sign-ins, so it returns
// rate_limited and unavailable as Login does.
func (s *Service) ChangePassword(ctx context.Context, actor access.Principal, current,
	next secretbox.Secret) (Session, RefreshToken, error) {
	if actor.Kind != access.KindUser {
		return Session{}, "", team.ErrActor
	}
	a, known, hash, err := s.findAccount(ctx, actor.Name)
	if err != nil {
		return Session{}, "", err
	}
	if !known || a.User.ID != actor.ID {
		return Session{}, "", apperr.Unauthorized(errNoMember)
	}
	var violations apperr.Violations
	CheckPassword(&violations, "new_password", next, a.User.Email)
	if norm.NFC.String(next.Reveal()) == norm.NFC.String(current.Reveal()) {
		violations.Add("new_password", "different", "must differ from the current password")
	}
	if err := violations.Err(); err != nil {
		return Session{}, "", err
	}
	at, err := s.throttle.newAttempt(ctx, a.User.ID, a.User.Email, access.Client{IP: actor.IP})
	if err != nil {
		return Session{}, "", err
	}
	right, err := s.throttle.checkPassword(ctx, at, hash, current)
	if err != nil {
		return Session{}, "", err
	}
	if !right {
		return Session{}, "", ErrWrongPassword
	}
	replacement, err := s.hasher.hash(ctx, next)
	if err != nil {
		return Session{}, "", err
	}
	var v Session
	var token RefreshToken
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		now := s.clock.Now()
		unchanged, err := members.ReplacePasswordHash(ctx, tx, a.User.ID, a.PasswordHash, replacement)
		if err != nil {
			return err
		}
		if !unchanged {
			return ErrWrongPassword // another request has changed it meanwhile
		}
		if err := setPassword(ctx, tx, a.User.ID, replacement, clock.Millis(now)); err != nil {
			return err
		}
		ended, err := endSessions(ctx, tx, a.User.ID, actor.Session, now)
		if err != nil {
			return err
		}
		t := newRefreshToken()
		renewed, err := renewSession(ctx, tx, actor.Session, t.familyMAC(s.pepper), t.tokenMAC(s.pepper), now)
		if err != nil {
			return err
		}
		var live bool
		if renewed {
			if v, live, err = readSession(ctx, tx, a.User.ID, actor.Session, now); err != nil {
				return err
			}
		}
		if !live {
			return apperr.Unauthorized(errSessionEnded)
		}
		token = t.encode()
		if err := forgiveAttempt(ctx, tx, at); err != nil {
			return err
		}
		return audit.Record(ctx, tx, now, audit.Event{
			Team: actor.Team, Actor: actor, Action: "user.change_password", TargetType: "user", TargetID: a.User.ID,
			Details: audit.State{"password": next, "sessions_ended": ended},
		})
	})
	if err != nil {
		return Session{}, "", err
	}
	return v, token, nil
}
