package invitations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/installation"
	"sallyport/internal/identity/mails"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/secretbox"
)

// Token is the secret of an invitation's link. It makes its holder a member of the team, once.
type Token = secretbox.Secret

const (
	// Lifetime is how long a link works by default.
	Lifetime = 7 * 24 * time.Hour
	// MaxLifetime is how long a link works at most.
	MaxLifetime = 30 * 24 * time.Hour
	// MaxPending is the maximum number of a team's pending invitations.
	MaxPending = 500
	// resendInterval is how soon another link can be sent, so that no one can fill a mailbox.
	resendInterval = time.Minute
	// keepInvitations is how long invitations stay listed after their expiry.
	keepInvitations = 90 * 24 * time.Hour
)

// Page is the path of the page that an invitation's link opens, below the public URL.
const Page = "/invitation"

// Status is the state of an invitation.
type Status string

// The states. Only a link of a pending invitation works.
const (
	Pending  Status = "pending"
	Accepted Status = "accepted"
	Revoked  Status = "revoked"
	Expired  Status = "expired"
)

// invitationStatuses returns every state.
func invitationStatuses() []Status {
	return []Status{Pending, Accepted, Revoked, Expired}
}

// Schema returns the schema with the states, for the API.
func (Status) Schema(oas.Registry) *oas.Schema { return oas.Enum(invitationStatuses()) }

// Invitation invites a person into the team with a role. The times are in Unix milliseconds.
type Invitation struct {
	ID string
	// Email is the address of who is asked, as it is stored for users.
	Email string
	Role  access.Role
	// Environment is where the role will hold; empty for the whole team.
	Environment id.Environment
	Status      Status
	// InvitedBy is the user who made the newest link, and gives the role.
	InvitedBy     string
	CreatedMillis int64
	// SentMillis is when the newest link was made, ExpiresMillis when it stops working.
	SentMillis    int64
	ExpiresMillis int64
	// AcceptedMillis and AcceptedBy are nil and empty until a user has become a member by it, RevokedMillis until it is
	// revoked.
	AcceptedMillis *int64
	AcceptedBy     string
	RevokedMillis  *int64
}

func (i Invitation) grant() members.RoleGrant {
	return members.RoleGrant{Role: i.Role, Environment: i.Environment}
}

// NewInvitation describes an invitation to create.
type NewInvitation struct {
	Email       string
	Role        access.Role
	Environment id.Environment
	// ExpiresMillis is in Unix milliseconds; nil means Lifetime from now.
	ExpiresMillis *int64
}

// SentInvitation is an invitation with its new link, which cannot be read again.
type SentInvitation struct {
	Invitation
	Token Token
	// Link opens the page where the invited choose a password.
	Link secretbox.Secret
	// Mailed says that a mail with the link is on its way to the address.
	Mailed bool
}

// Filter selects invitations. Values of one field are alternatives; fields restrict together. Empty fields do
// not restrict.
type Filter struct {
	Statuses []Status
	// Emails are whole addresses, in lower case.
	Emails []string
}

// ListInvitations returns a page of the invitations of the actor's team. It reads page.Request.Fetch rows, which shows
// page.Cut whether more follow.
func (s *Service) ListInvitations(ctx context.Context, actor access.Principal, f Filter,
	r page.Request) ([]Invitation, error) {
	team, err := s.team.TeamOf(ctx, actor)
	if err != nil {
		return nil, err
	}
	return listInvitations(ctx, s.db.Read(), team, f, s.clock.Now(), r)
}

// GetInvitation returns an invitation of the actor's team, or not_found.
func (s *Service) GetInvitation(ctx context.Context, actor access.Principal, invitationID string) (Invitation, error) {
	team, err := s.team.TeamOf(ctx, actor)
	if err != nil {
		return Invitation{}, err
	}
	return requireInvitation(ctx, s.db.Read(), team, invitationID, s.clock.Now())
}

func requireInvitation(ctx context.Context, q db.Querier, team id.Team, invitationID string,
	now time.Time) (Invitation, error) {
	if !id.Is(id.PrefixInvitation, invitationID) {
		return Invitation{}, errNoInvitation()
	}
	i, ok, err := readInvitation(ctx, q, team, invitationID, now)
	if err == nil && !ok {
		err = errNoInvitation()
	}
	return i, err
}

func errNoInvitation() error { return apperr.NotFound("invitation") }

// InvitationViolations returns what is wrong with the address of an invitation, at the location "email".
func InvitationViolations(email string) []apperr.Detail {
	var v apperr.Violations
	members.CheckEmail(&v, email)
	return v.Details()
}

// InvitationExpiryViolations returns what is wrong at the time now with the time at which an invitation is to end, at
// the location "expires_at".
func InvitationExpiryViolations(expiresMillis int64, now time.Time) []apperr.Detail {
	var v apperr.Violations
	invitationExpiryViolation(&v, expiresMillis, now)
	return v.Details()
}

// Invite invites a person into the actor's team, and mails them the link if mails can be sent. The person gets the role
// only if the actor may still give it then. Invite returns validation_error, member_exists, invitation_pending,
// invitations_limit, privilege_escalation for a role with permissions that the actor does not hold there, and forbidden
// for an actor who may add no members or give no roles.
func (s *Service) Invite(ctx context.Context, actor access.Principal, n NewInvitation) (SentInvitation, error) {
	var sent SentInvitation
	err := s.members.ChangeRights(ctx, actor, func(tx *sql.Tx, c members.Change) error {
		if err := mayInvite(c); err != nil {
			return err
		}
		i := Invitation{
			ID: id.New(id.PrefixInvitation), Role: n.Role, Environment: n.Environment, Status: Pending,
			CreatedMillis: clock.Millis(c.Now), ExpiresMillis: clock.Millis(c.Now.Add(Lifetime)),
		}
		var v apperr.Violations
		i.Email = members.CheckEmail(&v, n.Email)
		if n.ExpiresMillis != nil {
			i.ExpiresMillis = *n.ExpiresMillis
			invitationExpiryViolation(&v, i.ExpiresMillis, c.Now)
		}
		err := c.CheckGrant(ctx, tx, i.grant())
		if err := members.WithViolations(v.Details(), err); err != nil {
			return err
		}
		if err := s.invitable(ctx, tx, c, i.Email); err != nil {
			return err
		}
		sent, err = s.send(ctx, tx, c, i, audit.Event{Action: "invitation.create"})
		return err
	})
	return sent, err
}

func invitationExpiryViolation(v *apperr.Violations, expiresMillis int64, now time.Time) {
	if expiresMillis <= clock.Millis(now) || expiresMillis > clock.Millis(now.Add(MaxLifetime)) {
		v.Add("expires_at", "range", fmt.Sprintf("must be in the future, by %d days at most",
			int(MaxLifetime.Hours()/24)))
	}
}

// mayInvite returns forbidden unless the actor may add members and give roles.
func mayInvite(c members.Change) error {
	if c.Actor.Kind != access.KindUser {
		return team.ErrActor // an invitation belongs to a user, whose rights limit it
	}
	if err := c.Require(access.MembersWrite); err != nil {
		return err
	}
	return c.Require(access.RolesWrite)
}

// invitable returns an error if the address is a member or has a pending invitation.
func (s *Service) invitable(ctx context.Context, tx *sql.Tx, c members.Change, email string) error {
	a, known, err := members.ReadAccount(ctx, tx, email)
	if err != nil {
		return err
	}
	if known && a.Team != "" {
		return apperr.New(apperr.CodeMemberExists, "The user with this e-mail address is a member")
	}
	sameAddress, all, err := countPending(ctx, tx, c.Team, email, c.Now)
	switch {
	case err != nil:
		return err
	case sameAddress > 0:
		return apperr.New(apperr.CodeInvitationPending, "The address has an invitation; resend or revoke that")
	case all >= MaxPending:
		return apperr.New(apperr.CodeInvitationsLimit,
			fmt.Sprintf("A team has at most %d pending invitations", MaxPending))
	default:
		return nil
	}
}

// send stores an invitation of the actor with a new link, in place of the one it had, mails that, and records e with
// the rest filled in.
func (s *Service) send(ctx context.Context, tx *sql.Tx, c members.Change, i Invitation,
	e audit.Event) (SentInvitation, error) {
	i.InvitedBy, i.SentMillis, i.Status = c.Actor.ID, clock.Millis(c.Now), Pending
	token := Token(id.NewRandom(id.PrefixInvitationToken))
	link := secretbox.Secret(s.issuer + Page + "#" + token.Reveal())
	if err := putInvitation(ctx, s.db, tx, c.Team, i, invitationTokenMAC(s.pepper, token), c.Now); err != nil {
		return SentInvitation{}, err
	}
	if i.Environment != "" {
		if err := s.team.RequireLive(ctx, tx, i.Environment); err != nil {
			return SentInvitation{}, err
		}
	}
	out := SentInvitation{Invitation: i, Token: token, Link: link, Mailed: s.mailsEnabled()}
	if out.Mailed {
		if err := s.mailInvitation(ctx, tx, c, i, link); err != nil {
			return SentInvitation{}, err
		}
	}
	e.Team, e.Actor, e.TargetType, e.TargetID, e.After = c.Team, c.Actor, "invitation", i.ID, invitationState(i)
	e.Details = audit.State{"mailed": out.Mailed}
	return out, audit.Record(ctx, tx, c.Now, e)
}

func (s *Service) mailInvitation(ctx context.Context, tx *sql.Tx, c members.Change, i Invitation,
	link secretbox.Secret) error {
	t, _, err := team.Read(ctx, tx, c.Team)
	if err != nil {
		return err
	}
	// A queued mail carries the old link, which no longer works.
	if err := s.mails.Drop(ctx, tx, i.ID); err != nil {
		return err
	}
	return s.mails.Queue(ctx, tx, mails.Mail{
		Kind: MailKind, About: i.ID, To: i.Email, Subject: "Invitation to " + t.Name,
		Expires: clock.FromMillis(i.ExpiresMillis), Text: c.Actor.Name + " invites you to the team " + t.Name + " at " +
			s.issuer + ".\n\n" +
			"To join, open this link and choose a password:\n\n" + link.Reveal() + "\n\n" +
			"It works once, until " + clock.FromMillis(i.ExpiresMillis).UTC().Format("2 January 2006 15:04 MST") +
			". If you expect no invitation, do nothing.\n",
	})
}

// RevokeInvitation permanently revokes the link of an invitation of the actor's team. It returns not_found, and
// invitation_ended for an invitation that was accepted or revoked before.
func (s *Service) RevokeInvitation(ctx context.Context, actor access.Principal, invitationID string) error {
	return s.members.ChangeRights(ctx, actor, func(tx *sql.Tx, c members.Change) error {
		if err := c.Require(access.MembersWrite); err != nil {
			return err
		}
		i, err := openInvitation(ctx, tx, c, invitationID)
		if err != nil {
			return err
		}
		if err := revokeInvitation(ctx, tx, c.Team, i.ID, c.Now); err != nil {
			return err
		}
		if s.mails != nil {
			if err := s.mails.Drop(ctx, tx, i.ID); err != nil {
				return err
			}
		}
		return audit.Record(ctx, tx, c.Now, audit.Event{
			Team: c.Team, Actor: c.Actor, Action: "invitation.revoke", TargetType: "invitation", TargetID: i.ID,
			Before: invitationState(i),
		})
	})
}

// openInvitation returns an invitation that was neither accepted nor revoked.
func openInvitation(ctx context.Context, tx *sql.Tx, c members.Change, invitationID string) (Invitation, error) {
	i, err := requireInvitation(ctx, tx, c.Team, invitationID, c.Now)
	if err == nil && (i.Status == Accepted || i.Status == Revoked) {
		err = apperr.New(apperr.CodeInvitationEnded, "The invitation was "+string(i.Status))
	}
	return i, err
}

// ResendInvitation makes another link for an invitation of the actor's team, expired or not, for Lifetime
// from now, and mails it where mails can be sent. The old link stops working, and the actor becomes the inviter. It
// returns not_found, rate_limited within a minute of the link before, invitation_ended also where the role or its
// environment are gone, and what Invite returns.
func (s *Service) ResendInvitation(ctx context.Context, actor access.Principal,
	invitationID string) (SentInvitation, error) {
	var sent SentInvitation
	err := s.members.ChangeRights(ctx, actor, func(tx *sql.Tx, c members.Change) error {
		if err := mayInvite(c); err != nil {
			return err
		}
		i, err := openInvitation(ctx, tx, c, invitationID)
		if err != nil {
			return err
		}
		if wait := clock.FromMillis(i.SentMillis).Add(resendInterval).Sub(c.Now); wait > 0 {
			return apperr.Wrap(apperr.CodeRateLimited, "The link was made just now; try again later", errSentJustNow).
				RetryIn(wait)
		}
		err = c.CheckGrant(ctx, tx, i.grant())
		if apperr.Is(err, apperr.CodeValidation) {
			return apperr.Wrap(apperr.CodeInvitationEnded, "The role of the invitation, or its environment, is gone", err)
		}
		if err != nil {
			return err
		}
		// The invitation's own link must not count as pending.
		if err := dropInvitationToken(ctx, tx, c.Team, i.ID); err != nil {
			return err
		}
		if err := s.invitable(ctx, tx, c, i.Email); err != nil {
			return err
		}
		before := invitationState(i)
		i.ExpiresMillis = clock.Millis(c.Now.Add(Lifetime))
		sent, err = s.send(ctx, tx, c, i, audit.Event{Action: "invitation.resend", Before: before})
		return err
	})
	return sent, err
}

var errSentJustNow = errors.New("a link of the invitation was made within the last minute")

func invitationTokenMAC(pepper installation.Pepper, t Token) []byte {
	return pepper.MAC("invitation token", []byte(t.Reveal()))
}

func invitationState(i Invitation) audit.State {
	s := audit.State{
		"email": i.Email, "role": i.Role, "environment_id": nil, "invited_by": i.InvitedBy,
		"expires_at": clock.FromMillis(i.ExpiresMillis), "accepted_by": nil,
	}
	if i.AcceptedBy != "" {
		s["accepted_by"] = i.AcceptedBy
	}
	if i.Environment != "" {
		s["environment_id"] = i.Environment
	}
	return s
}
