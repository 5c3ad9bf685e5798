package invitations

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/signin"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

const purpose signin.Purpose = "invitation"

var (
	errInvitation = errors.New("no such invitation token")
	errNotToGive  = errors.New("the inviter may no longer give the role")
	errJoined     = errors.New("the address of the invitation belongs to a member by now")
)

// notJoined is the 401 of a token that does not work. Its text is the same for every reason.
func notJoined(cause error) error {
	return apperr.Wrap(apperr.CodeUnauthorized,
		"The invitation link is not valid: it was used or revoked, or it expired", cause)
}

// Joined is a person who has become a member.
type Joined struct {
	User members.User
	Team team.Team
}

// JoinViolations returns the validation errors of a new member's password, at the location "password".
func JoinViolations(password secretbox.Secret) []apperr.Detail {
	var v apperr.Violations
	signin.CheckPassword(&v, "password", password, "")
	return v.Details()
}

// Join makes the holder of an invitation's token a member, with the password that they choose. For a former member it
// replaces the old password. The inviter gives the role at this moment, and must still have the right to. Join returns
// unauthorized for a token that does not work, validation_error for a password that breaks a rule, after which the
// token still works, and rate_limited after many wrong tokens from the client's address.
func (s *Service) Join(ctx context.Context, c access.Client, token Token,
	password secretbox.Secret) (Joined, error) {
	if violations := JoinViolations(password); violations != nil {
		return Joined{}, apperr.Invalid(violations...)
	}
	at, err := s.signIn.Admit(ctx, purpose, c)
	if err != nil {
		return Joined{}, err
	}
	if !id.Is(id.PrefixInvitationToken, token.Reveal()) {
		return Joined{}, notJoined(errInvitation)
	}
	given := invitationTokenMAC(s.pepper, token)
	_, email, ok, err := readInvited(ctx, s.db.Read(), given, s.clock.Now())
	if err != nil {
		return Joined{}, err
	}
	if !ok {
		return Joined{}, notJoined(errInvitation)
	}
	var v apperr.Violations
	signin.CheckPassword(&v, "password", password, email)
	if err := v.Err(); err != nil {
		return Joined{}, err
	}
	hash, err := s.signIn.HashPassword(ctx, password)
	if err != nil {
		return Joined{}, err
	}
	var j Joined
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := s.members.LockRights(ctx, tx); err != nil {
			return err
		}
		if j, err = s.join(ctx, tx, c, given, hash); err != nil {
			return err
		}
		return signin.Forgive(ctx, tx, at)
	})
	if db.IsUniqueViolation(err) {
		err = notJoined(errJoined) // by an identity provider, in this moment
	}
	if err != nil {
		return Joined{}, err
	}
	return j, nil
}

// join accepts the invitation. The caller holds the lock of changes of rights.
func (s *Service) join(ctx context.Context, tx *sql.Tx, c access.Client, given []byte,
	hash string) (Joined, error) {
	now := s.clock.Now()
	found, email, ok, err := readInvited(ctx, tx, given, now)
	if err != nil {
		return Joined{}, err
	}
	if !ok {
		return Joined{}, notJoined(errInvitation)
	}
	i, err := requireInvitation(ctx, tx, found.team, found.id, now)
	if err != nil {
		return Joined{}, err
	}
	t, _, err := team.Read(ctx, tx, found.team)
	if err != nil {
		return Joined{}, err
	}
	user, err := s.addMember(ctx, tx, c, t, email, hash)
	if err != nil {
		return Joined{}, err
	}
	if err := s.giveInvited(ctx, tx, c, t, i, user); err != nil {
		return Joined{}, err
	}
	if err := acceptInvitation(ctx, tx, i.ID, user.ID, now); err != nil {
		return Joined{}, err
	}
	if s.mails != nil {
		if err := s.mails.Drop(ctx, tx, i.ID); err != nil {
			return Joined{}, err
		}
	}
	accepted := i
	accepted.AcceptedBy = user.ID
	return Joined{User: user, Team: t}, audit.Record(ctx, tx, now, audit.Event{
		Team: t.ID, Actor: c.User(user.ID, user.Email, t.ID), Action: "invitation.accept", TargetType: "invitation",
		TargetID: i.ID, Before: invitationState(i), After: invitationState(accepted),
	})
}

// addMember makes a member of the user with the address, and the user where there is none. A person who is a member by
// now keeps their password: a link is no way to take over an account.
func (s *Service) addMember(ctx context.Context, tx *sql.Tx, c access.Client, t team.Team, email,
	hash string) (members.User, error) {
	now := s.clock.Now()
	a, known, err := members.ReadAccount(ctx, tx, email)
	if err != nil {
		return members.User{}, err
	}
	if known && a.Team != "" {
		return members.User{}, notJoined(errJoined)
	}
	user, action := a.User, "user.rejoin"
	if known {
		if _, err := s.signIn.ReplacePassword(ctx, tx, user, hash); err != nil {
			return members.User{}, err
		}
	} else {
		user, action = members.User{ID: id.New(id.PrefixUser), Email: email}, "user.create"
		if err := members.AddUser(ctx, tx, user, hash, clock.Millis(now)); err != nil {
			return members.User{}, err
		}
	}
	if err := members.AddMembership(ctx, tx, t.ID, user.ID, clock.Millis(now)); err != nil {
		return members.User{}, err
	}
	return user, audit.Record(ctx, tx, now, audit.Event{
		Team: t.ID, Actor: c.User(user.ID, user.Email, t.ID), Action: action, TargetType: "user", TargetID: user.ID,
		After: audit.State{"email": email},
	})
}

// giveInvited gives the role of an invitation, as who invited would now.
func (s *Service) giveInvited(ctx context.Context, tx *sql.Tx, c access.Client, t team.Team, i Invitation,
	user members.User) error {
	inviter, ok, err := members.ReadPrincipal(ctx, tx, t.ID, i.InvitedBy, "", s.clock.Now())
	if err != nil {
		return err
	}
	if !ok {
		return notJoined(errNotToGive)
	}
	inviter.RequestID = c.RequestID
	change, err := members.ChangeBy(ctx, tx, inviter, t.ID, s.clock.Now())
	if err != nil {
		return err
	}
	if err := mayInvite(change); err != nil {
		return notJoined(errors.Join(errNotToGive, err))
	}
	_, err = s.members.Give(ctx, tx, change, user.ID, i.grant())
	refusals := []apperr.Code{apperr.CodeValidation, apperr.CodePrivilegeEscalation, apperr.CodeForbidden,
		apperr.CodeNotFound}
	if slices.ContainsFunc(refusals, func(code apperr.Code) bool { return apperr.Is(err, code) }) {
		return notJoined(errors.Join(errNotToGive, err))
	}
	return err
}
