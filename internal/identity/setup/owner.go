package setup

import (
	"context"
	"database/sql"
	"errors"

	"sallyport/internal/identity/installation"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/signin"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/secretbox"
)

// ErrTeamExists means that the installation's team has another name than the one given.
var ErrTeamExists = errors.New("the installation has its team already, under another name")

// CreateOwner adds a user with the role owner. The first call makes the team too, under teamName or, where that is
// empty, team.DefaultName, with the environments development and production. Later calls add owners to that team; they
// may leave teamName empty. It returns validation_error for an e-mail address or a password that breaks a rule,
// ErrEmailTaken and ErrTeamExists.
func (s *Service) CreateOwner(ctx context.Context, actor access.Principal, teamName, email string,
	password secretbox.Secret) (members.Profile, error) {
	address, err := checkAccount(teamName, email, password)
	if err != nil {
		return members.Profile{}, err
	}
	hash, err := s.signIn.HashPassword(ctx, password)
	if err != nil {
		return members.Profile{}, err
	}
	var p members.Profile
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := installation.Lock(ctx, tx, s.db); err != nil {
			return err
		}
		p, err = s.addOwner(ctx, tx, actor, teamName, address, hash)
		return err
	})
	return p, err
}

// addOwner adds an owner to the team, and creates the team where there is none. The caller holds the lock of the
// installation.
func (s *Service) addOwner(ctx context.Context, tx *sql.Tx, actor access.Principal, teamName, address,
	hash string) (members.Profile, error) {
	t, err := s.ensureTeam(ctx, tx, actor, teamName)
	if err != nil {
		return members.Profile{}, err
	}
	return s.members.AddOwner(ctx, tx, actor, t, address, hash)
}

// ensureTeam returns the installation's team, and makes it with its environments where there is none.
func (s *Service) ensureTeam(ctx context.Context, tx *sql.Tx, actor access.Principal, name string) (team.Team, error) {
	t, ok, err := team.ReadOnly(ctx, tx)
	if err != nil {
		return team.Team{}, err
	}
	if ok {
		if name != "" && name != t.Name {
			return team.Team{}, ErrTeamExists
		}
		return t, nil
	}
	if err := deleteSetupTokens(ctx, tx); err != nil {
		return team.Team{}, err
	}
	return s.team.Create(ctx, tx, actor, name)
}

func checkAccount(teamName, email string, password secretbox.Secret) (address string, err error) {
	var v apperr.Violations
	if teamName != "" {
		team.CheckName(&v, "team_name", teamName)
	}
	address = members.CheckEmail(&v, email)
	signin.CheckPassword(&v, "password", password, email)
	return address, v.Err()
}
