package identity

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

// Limits of what a person chooses.
const (
	MinPasswordCharacters = 12
	MaxPasswordCharacters = 256
	// MaxNameCharacters bounds the names of teams and keys.
	MaxNameCharacters = 100
	// maxEmailBytes is the longest path that SMTP carries, without its brackets (RFC 5321, section 4.5.3.1.3).
	maxEmailBytes = 254
)

// Errors of the command line's twins.
var (
	// ErrEmailTaken says that the installation has a user with the e-mail address.
	ErrEmailTaken = errors.New("a user with this e-mail address exists; reset the password instead")
	// ErrTeamExists says that the installation's team has another name than the one given.
	ErrTeamExists = errors.New("the installation has its team already, under another name")
	// ErrNoUser says that no user has the e-mail address.
	ErrNoUser = errors.New("no user has this e-mail address")
)

// CreateOwner adds a user with the role owner. The first call makes the team too, under teamName or, where that is
// empty, DefaultTeamName, with the environments development and production. Later calls add owners to that team; they
// may leave teamName empty. It returns validation_error for an e-mail address or a password that breaks a rule,
// ErrEmailTaken and ErrTeamExists.
func (s *Service) CreateOwner(ctx context.Context, actor access.Principal, teamName, email string,
	password secretbox.Secret) (Profile, error) {
	address, err := checkAccount(teamName, email, password)
	if err != nil {
		return Profile{}, err
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return Profile{}, err
	}
	var p Profile
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := s.lockSetup(ctx, tx); err != nil {
			return err
		}
		p, err = s.addOwner(ctx, tx, actor, teamName, address, hash)
		return err
	})
	return p, err
}

// addOwner adds an owner to the team, and makes that where there is none. The caller holds the lock of the set-up.
func (s *Service) addOwner(ctx context.Context, tx *sql.Tx, actor access.Principal, teamName, address,
	hash string) (p Profile, err error) {
	p = Profile{User: User{ID: id.New(id.PrefixUser), Email: address}, Rights: access.Owner.Rights()}
	if p.Team, err = s.ensureTeam(ctx, tx, actor, teamName); err != nil {
		return Profile{}, err
	}
	if p.Environments, err = readEnvironments(ctx, tx, p.Team.ID); err != nil {
		return Profile{}, err
	}
	now := s.clock.Now()
	if err := insertUser(ctx, tx, p.User, hash, clock.Millis(now)); err != nil {
		if db.IsUniqueViolation(err) {
			return Profile{}, ErrEmailTaken
		}
		return Profile{}, err
	}
	if err := insertMembership(ctx, tx, p.Team.ID, p.User.ID, clock.Millis(now)); err != nil {
		return Profile{}, err
	}
	b := Binding{
		ID: id.New(id.PrefixBinding), PrincipalKind: access.KindUser, PrincipalID: p.User.ID, Role: access.Owner,
		RoleName: string(access.Owner), CreatedMillis: clock.Millis(now), permissions: access.Owner.Permissions(),
	}
	p.Bindings = []Binding{b}
	if err := insertBinding(ctx, tx, p.Team.ID, b); err != nil {
		return Profile{}, err
	}
	return p, audit.Record(ctx, tx, now, audit.Event{
		Team: p.Team.ID, Actor: actor, Action: "user.create", TargetType: "user", TargetID: p.User.ID,
		After: audit.State{"email": address, "role": access.Owner},
	})
}

// ensureTeam returns the installation's team, and makes it with its environments where there is none.
func (s *Service) ensureTeam(ctx context.Context, tx *sql.Tx, actor access.Principal, name string) (Team, error) {
	t, ok, err := readTeam(ctx, tx)
	if err != nil {
		return Team{}, err
	}
	if ok {
		if name != "" && name != t.Name {
			return Team{}, ErrTeamExists
		}
		return t, nil
	}
	if name == "" {
		name = DefaultTeamName
	}
	now := s.clock.Now()
	t = Team{ID: id.Team(id.New(id.PrefixTeam)), Name: name, CreatedMillis: clock.Millis(now)}
	if err := insertTeam(ctx, tx, t); err != nil {
		return Team{}, err
	}
	if err := deleteSetupTokens(ctx, tx); err != nil {
		return Team{}, err
	}
	err = audit.Record(ctx, tx, now, audit.Event{
		Team: t.ID, Actor: actor, Action: "team.create", TargetType: "team", TargetID: string(t.ID),
		After: audit.State{"name": t.Name},
	})
	if err != nil {
		return Team{}, err
	}
	for _, e := range []NewEnvironment{{Name: Development, Type: Test}, {Name: Production, Type: Live}} {
		if _, err := addEnvironment(ctx, tx, actor, t.ID, e, now); err != nil {
			return Team{}, err
		}
	}
	return t, nil
}

// ResetPassword gives the user another password, ends all their sessions and forgets the failed sign-ins of strangers.
// It returns ErrNoUser, and validation_error for a password that breaks a rule.
func (s *Service) ResetPassword(ctx context.Context, actor access.Principal, email string,
	password secretbox.Secret) error {
	m, err := s.material()
	if err != nil {
		return err
	}
	var f apperr.Faults
	checkPassword(&f, "password", password, email)
	if err := f.Err(); err != nil {
		return err
	}
	address, ok := normalizeEmail(email)
	if !ok {
		return ErrNoUser
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return err
	}
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		a, ok, err := readAccount(ctx, tx, address)
		if err != nil {
			return err
		}
		if !ok {
			return ErrNoUser
		}
		return s.replacePassword(ctx, tx, m, actor, a, hash, password)
	})
}

// replacePassword gives an account another password, of which hash is the hash, ends its sessions and forgets the
// failed sign-ins of strangers.
func (s *Service) replacePassword(ctx context.Context, tx *sql.Tx, m *material, actor access.Principal, a account,
	hash string, password secretbox.Secret) error {
	now := s.clock.Now()
	if err := setPassword(ctx, tx, a.user.ID, hash, clock.Millis(now)); err != nil {
		return err
	}
	ended, err := endSessions(ctx, tx, a.user.ID, "", now)
	if err != nil {
		return err
	}
	if err := forgetFailures(ctx, tx, accountBucket(m.pepper, a.user.Email, "")); err != nil {
		return err
	}
	return audit.Record(ctx, tx, now, audit.Event{
		Team: a.team, Actor: actor, Action: "user.reset_password", TargetType: "user", TargetID: a.user.ID,
		Details: audit.State{"password": password, "sessions_ended": ended},
	})
}

func checkAccount(teamName, email string, password secretbox.Secret) (address string, err error) {
	var f apperr.Faults
	if teamName != "" {
		checkName(&f, "team_name", teamName)
	}
	address = checkEmail(&f, email)
	checkPassword(&f, "password", password, email)
	return address, f.Err()
}

// checkEmail returns the address in the form that is stored.
func checkEmail(f *apperr.Faults, email string) string {
	address, ok := normalizeEmail(email)
	if !ok {
		f.Add("email", "email", "must be an e-mail address such as ada@example.test")
	}
	return address
}

// checkPassword asks for length and for nothing else, but the e-mail address is the first guess of all.
func checkPassword(f *apperr.Faults, location string, password secretbox.Secret, email string) {
	p := password.Reveal()
	switch n := utf8.RuneCountInString(p); {
	case n < MinPasswordCharacters:
		f.Add(location, "min_length", fmt.Sprintf("must have at least %d characters", MinPasswordCharacters))
	case n > MaxPasswordCharacters:
		f.Add(location, "max_length", fmt.Sprintf("must have at most %d characters", MaxPasswordCharacters))
	case strings.EqualFold(p, email):
		f.Add(location, "not_email", "must not be the e-mail address")
	}
}

// checkName holds a name to what every engine can store and a line can show.
func checkName(f *apperr.Faults, location, name string) {
	switch {
	case strings.TrimSpace(name) == "":
		f.Add(location, "required", "must not be blank")
	case utf8.RuneCountInString(name) > MaxNameCharacters:
		f.Add(location, "max_length", fmt.Sprintf("must have at most %d characters", MaxNameCharacters))
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		f.Add(location, "pattern", "must not hold control characters")
	}
}

// normalizeEmail returns the address in the form that is stored. The local part is lowered too: no provider in use
// tells addresses apart by case, and people do not remember which they typed.
func normalizeEmail(email string) (string, bool) {
	if len(email) > maxEmailBytes {
		return "", false
	}
	a, err := mail.ParseAddress(email)
	if err != nil || a.Name != "" || a.Address != email {
		return "", false
	}
	// A letter outside ASCII whose lower case is inside, such as the kelvin sign, would make one address of two people's.
	for _, r := range email {
		if r > unicode.MaxASCII && unicode.ToLower(r) <= unicode.MaxASCII {
			return "", false
		}
	}
	return strings.ToLower(email), true
}
