package signin

import (
	"context"
	"database/sql"
	"errors"

	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/members"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// Federated is a person whom an identity provider has identified.
type Federated struct {
	Team id.Team
	// Provider is the id of what is set up here, and names the roles that it gives.
	Provider string
	// Issuer and Subject identify the person at the provider, permanently.
	Issuer, Subject string
	// Email is an address that the provider has verified.
	Email string
	// Roles are those that they have for as long as the provider says so.
	Roles []members.GivenRole
	// MayJoin makes a person a member if no user has their address and there is a role for them.
	MayJoin bool
	// MayLink accepts the address as proof that the user with that address is this person.
	MayLink bool
	// Recheck returns an error if the provider's settings changed since, and locks them until the transaction ends. Nil
	// where they cannot change.
	Recheck func(ctx context.Context, tx *sql.Tx) error
}

var (
	errStranger = errors.New("the provider may add no members, or there is no role for this one")
	errTaken    = errors.New("a user has the address who is not linked to the provider")
	errAddress  = errors.New("the provider's e-mail address is none that is stored")
)

func errNotMember(cause error) error {
	return apperr.Wrap(apperr.CodeSSONotMember,
		"The identity provider has signed you in, but you are no member of the team here", cause)
}

// SignInFederated signs in a person for whom an identity provider vouches and starts a session; replaced is the refresh
// token that the client had until now, if any. It revokes roles that the provider gave before and gives no longer. It
// returns sso_not_member where they are none and may not become one, sso_account_exists where their address is that of
// a user who is not linked to them, and what f.Recheck returns.
func (s *Service) SignInFederated(ctx context.Context, c access.Client, f Federated,
	replaced RefreshToken) (SignIn, error) {
	var ok bool
	if f.Email, ok = members.NormalizeEmail(f.Email); !ok {
		return SignIn{}, errNotMember(errAddress)
	}
	keys, err := s.tokens.Keys(ctx)
	if err != nil {
		return SignIn{}, err
	}
	var in SignIn
	try := func() error {
		return s.db.Tx(ctx, func(tx *sql.Tx) error {
			in = SignIn{}
			if f.Recheck != nil {
				if err := f.Recheck(ctx, tx); err != nil {
					return err
				}
			}
			user, err := s.federatedUser(ctx, tx, c, f)
			if err != nil {
				return err
			}
			if err := s.members.GiveManaged(ctx, tx, c.User(user.ID, user.Email, f.Team), f.Provider, f.Roles); err != nil {
				return err
			}
			if err := s.sessions.endFamily(ctx, tx, c, replaced); err != nil {
				return err
			}
			k := sessionKey{user: user, team: f.Team}
			if in.Session, in.Refresh, err = s.sessions.startSession(ctx, tx, c, k, []string{methodSSO}); err != nil {
				return err
			}
			k.id = in.Session.ID
			return s.completeSignIn(ctx, tx, keys, &in, k)
		})
	}
	if err = try(); db.IsUniqueViolation(err) {
		err = try() // the same person has come in for the first time by two windows: now they are known
	}
	if err != nil {
		return SignIn{}, err
	}
	return in, nil
}

// federatedUser finds whom the provider speaks of, and makes or links them where it may. The row of the user is held.
func (s *Service) federatedUser(ctx context.Context, tx *sql.Tx, c access.Client, f Federated) (members.User, error) {
	// In this order: where another window has made the user since this transaction began, who is found here is known
	// below, too.
	a, exists, err := members.ReadAccount(ctx, tx, f.Email)
	if err != nil {
		return members.User{}, err
	}
	user, known, err := readIdentity(ctx, tx, f.Issuer, f.Subject)
	if err != nil {
		return members.User{}, err
	}
	if !known {
		if user, err = s.newIdentity(ctx, tx, c, f, a.User, exists); err != nil {
			return members.User{}, err
		}
	}
	if err := members.LockUser(ctx, tx, user.ID); err != nil {
		return members.User{}, err
	}
	_, member, err := members.ReadPrincipal(ctx, tx, f.Team, user.ID, "", s.clock.Now())
	if err == nil && !member {
		err = errNotMember(errNoMember)
	}
	return user, err
}

// newIdentity links a person who signs in with the provider for the first time to a new user, or to the user with their
// address, if there is one.
func (s *Service) newIdentity(ctx context.Context, tx *sql.Tx, c access.Client, f Federated, user members.User,
	exists bool) (members.User, error) {
	now := s.clock.Now()
	ms := clock.Millis(now)
	e := audit.Event{Team: f.Team, TargetType: "user", Details: audit.State{"sso_provider_id": f.Provider,
		"issuer": f.Issuer}}
	if exists {
		linked, err := hasIdentity(ctx, tx, user.ID, f.Issuer)
		if err != nil {
			return members.User{}, err
		}
		// An address that went from one person to another at the provider does not bring the account along.
		if !f.MayLink || linked {
			return members.User{}, apperr.Wrap(apperr.CodeSSOAccountExists,
				"A user has this e-mail address and is not linked to the identity provider; sign in as before", errTaken)
		}
		e.Action = "user.link_identity"
	} else {
		if !f.MayJoin || len(f.Roles) == 0 {
			return members.User{}, errNotMember(errStranger)
		}
		user = members.User{ID: id.New(id.PrefixUser), Email: f.Email}
		// A hash that no password has.
		if err := members.AddUser(ctx, tx, user, unknownUser().String(), ms); err != nil {
			return members.User{}, err
		}
		if err := members.AddMembership(ctx, tx, f.Team, user.ID, ms); err != nil {
			return members.User{}, err
		}
		e.Action, e.After = "user.create", audit.State{"email": user.Email}
	}
	if err := insertIdentity(ctx, tx, f.Issuer, f.Subject, user.ID, ms); err != nil {
		return members.User{}, err
	}
	e.Actor, e.TargetID = c.User(user.ID, user.Email, f.Team), user.ID
	return user, audit.Record(ctx, tx, now, e)
}
