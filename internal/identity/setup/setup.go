package setup

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"sallyport/internal/identity/installation"
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

// Token opens the set-up of an installation that has no team, once.
type Token = secretbox.Secret

// purpose is what attempts with a set-up token are counted for.
const purpose signin.Purpose = "set-up"

// maxSetupTokens bounds how many tokens are open at the same time: one for each start before the set-up. The oldest are
// removed first.
const maxSetupTokens = 20

func tokenMAC(pepper installation.Pepper, t Token) []byte {
	return pepper.MAC("set-up token", []byte(t.Reveal()))
}

// hasTeam reports whether the installation has been set up.
func (s *Service) hasTeam(ctx context.Context) (bool, error) {
	_, ok, err := team.ReadOnly(ctx, s.db.Read())
	return ok, err
}

// Open creates a set-up token while the installation has no team. With a configured token only that one works, and Open
// returns none. Otherwise Open returns a new token, which is shown to the operator once; tokens of earlier starts still
// work. Open returns no token if there is a team. Several nodes may call it at the same time.
func (s *Service) Open(ctx context.Context, configured Token) (Token, error) {
	var shown Token
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		shown = ""
		if err := installation.Lock(ctx, tx, s.db); err != nil {
			return err
		}
		_, done, err := team.ReadOnly(ctx, tx)
		if err != nil {
			return err
		}
		if done {
			return deleteSetupTokens(ctx, tx)
		}
		token := configured
		if token != "" {
			err = deleteSetupTokens(ctx, tx)
		} else {
			shown = Token(id.NewRandom(id.PrefixSetupToken))
			token, err = shown, trimSetupTokens(ctx, tx, maxSetupTokens-1)
		}
		if err != nil {
			return err
		}
		return insertSetupToken(ctx, tx, tokenMAC(s.installation.Pepper, token), clock.Millis(s.clock.Now()))
	})
	if err != nil {
		return "", fmt.Errorf("open the set-up: %w", err)
	}
	return shown, nil
}

// NewInstallation describes what a set-up creates: the team and its first owner.
type NewInstallation struct {
	TeamName string
	Email    string
	Password secretbox.Secret
}

// violations returns what is wrong with a set-up, at the names of its fields in the API.
func (n NewInstallation) violations() []apperr.Detail {
	var v apperr.Violations
	team.CheckName(&v, "team_name", n.TeamName)
	members.CheckEmail(&v, n.Email)
	signin.CheckPassword(&v, "password", n.Password, n.Email)
	return v.Details()
}

// Violations returns the validation errors of a set-up and of the form of its token. Complete reports whether the token
// works.
func Violations(t Token, n NewInstallation) []apperr.Detail {
	return slices.Concat(signin.TokenViolations(t), n.violations())
}

var errSetupToken = errors.New("no such set-up token")

func errSetupDone() error {
	return apperr.New(apperr.CodeSetupDone,
		"This installation has been set up; sign in, or ask an owner for an invitation")
}

// Complete creates the team with the environments development and production, and its first owner, for the holder of a
// set-up token. It returns setup_done once there is a team, unauthorized for a token that does not work, rate_limited
// after many such tokens from the client's address, and the validation errors of its input. Of several concurrent calls
// one succeeds.
func (s *Service) Complete(ctx context.Context, c access.Client, token Token,
	n NewInstallation) (members.Profile, error) {
	if violations := Violations(token, n); violations != nil {
		return members.Profile{}, apperr.Invalid(violations...)
	}
	address, _ := members.NormalizeEmail(n.Email)
	done, err := s.hasTeam(ctx)
	if err != nil {
		return members.Profile{}, err
	}
	if done {
		return members.Profile{}, errSetupDone()
	}
	at, err := s.signIn.Admit(ctx, purpose, c)
	if err != nil {
		return members.Profile{}, err
	}
	given := tokenMAC(s.installation.Pepper, token)
	if err := findSetupToken(ctx, s.db.Read(), given); err != nil {
		return members.Profile{}, err
	}
	hash, err := s.signIn.HashPassword(ctx, n.Password)
	if err != nil {
		return members.Profile{}, err
	}
	actor := access.System("setup")
	actor.IP, actor.RequestID = c.IP, c.RequestID
	var p members.Profile
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := installation.Lock(ctx, tx, s.db); err != nil {
			return err
		}
		_, done, err := team.ReadOnly(ctx, tx)
		if err != nil {
			return err
		}
		if done {
			return errSetupDone()
		}
		if err := findSetupToken(ctx, tx, given); err != nil {
			return err
		}
		if p, err = s.addOwner(ctx, tx, actor, n.TeamName, address, hash); err != nil {
			return err
		}
		return signin.Forgive(ctx, tx, at)
	})
	if err != nil {
		return members.Profile{}, err
	}
	return p, nil
}

// findSetupToken compares with every open token, so that the time does not show how much of one was right.
func findSetupToken(ctx context.Context, q db.Querier, given []byte) error {
	macs, err := readSetupTokens(ctx, q)
	if err != nil {
		return err
	}
	found := 0
	for _, m := range macs {
		found |= subtle.ConstantTimeCompare(m, given)
	}
	if found != 1 {
		return apperr.Unauthorized(errSetupToken)
	}
	return nil
}
