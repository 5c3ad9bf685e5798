package identity

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// GivenRole is a role and where it holds.
type GivenRole struct {
	Role access.Role
	// Environment is empty for the whole team.
	Environment id.Environment
}

// Federated is somebody for whom an identity provider vouches.
type Federated struct {
	Team id.Team
	// Provider is the id of what is set up here, and names the roles that it gives.
	Provider string
	// Issuer and Subject are who they are there, for good.
	Issuer, Subject string
	// Email is an address that the provider has verified.
	Email string
	// Roles are those that they have for as long as the provider says so.
	Roles []GivenRole
	// Join makes a member of somebody whose address no user has, if there is a role for them.
	Join bool
	// Link takes the address as proof that the user of that address is them.
	Link bool
	// Holds returns an error where what is said here does not hold any more, and has it hold until the transaction ends:
	// to ask the provider takes time, in which its settings may change. Nil where they cannot.
	Holds func(ctx context.Context, tx *sql.Tx) error
}

var (
	errStranger = errors.New("the provider may add nobody, or there is no role for them")
	errTaken    = errors.New("a user has the address who is not linked to the provider")
	errAddress  = errors.New("the provider's e-mail address is none that is stored")
)

func errNotMember(cause error) error {
	return apperr.Wrap(apperr.CodeSSONotMember,
		"The identity provider has signed you in, but you are no member of the team here", cause)
}

// SignInFederated signs in whom an identity provider vouches for and starts a session; replaced is the refresh token
// that the client had until now, if any. Roles that the provider gave before and gives no longer are taken away. It
// returns sso_not_member where they are none and may not become one, sso_account_exists where their address is that of
// a user who is not linked to them, and what f.Holds returns.
func (s *Service) SignInFederated(ctx context.Context, c access.Client, f Federated,
	replaced RefreshToken) (SignIn, error) {
	m, err := s.material()
	if err != nil {
		return SignIn{}, err
	}
	var ok bool
	if f.Email, ok = normalizeEmail(f.Email); !ok {
		return SignIn{}, errNotMember(errAddress)
	}
	keys, err := s.tokens(ctx)
	if err != nil {
		return SignIn{}, err
	}
	var in SignIn
	try := func() error {
		return s.db.Tx(ctx, func(tx *sql.Tx) error {
			in = SignIn{}
			if f.Holds != nil {
				if err := f.Holds(ctx, tx); err != nil {
					return err
				}
			}
			user, err := s.federatedUser(ctx, tx, c, f)
			if err != nil {
				return err
			}
			if err := s.giveManaged(ctx, tx, c.User(user.ID, user.Email, f.Team), f); err != nil {
				return err
			}
			if err := s.endFamily(ctx, tx, m, c, replaced); err != nil {
				return err
			}
			k := sessionKey{user: user, team: f.Team}
			if in.Session, in.Refresh, err = s.startSession(ctx, tx, m, c, k, []string{methodSSO}); err != nil {
				return err
			}
			k.id = in.Session.ID
			return s.complete(ctx, tx, keys, &in, k)
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
func (s *Service) federatedUser(ctx context.Context, tx *sql.Tx, c access.Client, f Federated) (User, error) {
	// In this order: where another window has made the user since this transaction began, who is found here is known
	// below, too.
	a, exists, err := readAccount(ctx, tx, f.Email)
	if err != nil {
		return User{}, err
	}
	user, known, err := readIdentity(ctx, tx, f.Issuer, f.Subject)
	if err != nil {
		return User{}, err
	}
	if !known {
		if user, err = s.newIdentity(ctx, tx, c, f, a.user, exists); err != nil {
			return User{}, err
		}
	}
	if err := holdUser(ctx, tx, user.ID); err != nil {
		return User{}, err
	}
	_, member, err := readMember(ctx, tx, f.Team, user.ID, s.clock.Now())
	if err == nil && !member {
		err = errNotMember(errNoMember)
	}
	return user, err
}

// newIdentity links somebody who comes in by the provider for the first time, to a new user or to the one who has their
// address, if there is.
func (s *Service) newIdentity(ctx context.Context, tx *sql.Tx, c access.Client, f Federated, user User,
	exists bool) (User, error) {
	now := s.clock.Now()
	ms := clock.Millis(now)
	e := audit.Event{Team: f.Team, TargetType: "user", Details: audit.State{"sso_provider_id": f.Provider,
		"issuer": f.Issuer}}
	if exists {
		linked, err := hasIdentity(ctx, tx, user.ID, f.Issuer)
		if err != nil {
			return User{}, err
		}
		// An address that went from one person to another at the provider does not bring the account along.
		if !f.Link || linked {
			return User{}, apperr.Wrap(apperr.CodeSSOAccountExists,
				"A user has this e-mail address and is not linked to the identity provider; sign in as before", errTaken)
		}
		e.Action = "user.link_identity"
	} else {
		if !f.Join || len(f.Roles) == 0 {
			return User{}, errNotMember(errStranger)
		}
		user = User{ID: id.New(id.PrefixUser), Email: f.Email}
		// A hash that no password has.
		if err := insertUser(ctx, tx, user, unknownUser().String(), ms); err != nil {
			return User{}, err
		}
		if err := insertMembership(ctx, tx, f.Team, user.ID, ms); err != nil {
			return User{}, err
		}
		e.Action, e.After = "user.create", audit.State{"email": user.Email}
	}
	if err := insertIdentity(ctx, tx, f.Issuer, f.Subject, user.ID, ms); err != nil {
		return User{}, err
	}
	e.Actor, e.TargetID = c.User(user.ID, user.Email, f.Team), user.ID
	return user, audit.Record(ctx, tx, now, e)
}

// giveManaged makes the roles that a provider gives a user those that it names now. A role that people gave stays as it
// is.
func (s *Service) giveManaged(ctx context.Context, tx *sql.Tx, actor access.Principal, f Federated) error {
	has, err := readManaged(ctx, tx, f.Team, f.Provider, actor.ID)
	if err != nil {
		return err
	}
	want := map[GivenRole]bool{}
	for _, r := range f.Roles {
		want[r] = true
	}
	for _, b := range has {
		r := GivenRole{Role: b.Role, Environment: b.Environment}
		if want[r] {
			delete(want, r)
			continue
		}
		if err := s.takeManaged(ctx, tx, actor, f.Provider, b); err != nil {
			return err
		}
	}
	now := s.clock.Now()
	if err := forgetExpired(ctx, tx, f.Team, actor.ID, now); err != nil {
		return err
	}
	for _, r := range f.Roles {
		if !want[r] {
			continue
		}
		// What the mapping names may be gone by now.
		if ok, err := givable(ctx, tx, f.Team, r); err != nil || !ok {
			if err != nil {
				return err
			}
			continue
		}
		b := Binding{ID: id.New(id.PrefixBinding), PrincipalKind: access.KindUser, PrincipalID: actor.ID, Role: r.Role,
			Environment: r.Environment, CreatedMillis: clock.Millis(now)}
		added, err := insertManaged(ctx, tx, f.Team, f.Provider, b)
		if err != nil {
			return err
		}
		if !added {
			continue
		}
		if err := audit.Record(ctx, tx, now, managedEvent(actor, f.Team, f.Provider, "role_binding.create", b.ID, nil,
			managedState(b))); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) takeManaged(ctx context.Context, tx *sql.Tx, actor access.Principal, provider string,
	b Binding) error {
	if err := deleteManaged(ctx, tx, b.ID); err != nil {
		return err
	}
	return audit.Record(ctx, tx, s.clock.Now(), managedEvent(actor, actor.Team, provider, "role_binding.delete", b.ID,
		managedState(b), nil))
}

// TakeManaged takes away, in tx, every role that a provider of the actor's team gave, but for those to keep.
func (s *Service) TakeManaged(ctx context.Context, tx *sql.Tx, actor access.Principal, provider string,
	keep []GivenRole) error {
	list, err := readManaged(ctx, tx, actor.Team, provider, "")
	if err != nil {
		return err
	}
	for _, b := range list {
		if slices.Contains(keep, GivenRole{Role: b.Role, Environment: b.Environment}) {
			continue
		}
		if err := s.takeManaged(ctx, tx, actor, provider, b); err != nil {
			return err
		}
	}
	return nil
}

func managedEvent(actor access.Principal, team id.Team, provider, action, binding string, before,
	after audit.State) audit.Event {
	return audit.Event{Team: team, Actor: actor, Action: action, TargetType: "role_binding", TargetID: binding,
		Before: before, After: after, Details: audit.State{"sso_provider_id": provider}}
}

func managedState(b Binding) audit.State {
	state := audit.State{"principal": map[string]string{"type": string(b.PrincipalKind), "id": b.PrincipalID},
		"role": b.Role, "environment_id": nil, "expires_at": nil}
	if b.Environment != "" {
		state["environment_id"] = b.Environment
	}
	return state
}

// CheckGivable checks a role that the actor wants to have given to others: validation_error below the location where
// it, or its environment, does not exist for them, and privilege_escalation where it holds what the actor does not have
// there, as things are in tx.
func (s *Service) CheckGivable(ctx context.Context, tx *sql.Tx, actor access.Principal, r GivenRole,
	location string) error {
	at := grantAt{role: location + ".role", environment: location + ".environment_id"}
	return s.checkGrantOf(ctx, tx, actor, RoleGrant{Role: r.Role, Environment: r.Environment}, at)
}
