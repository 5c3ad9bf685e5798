package identity

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

// SetupToken opens the set-up of an installation that has no team, once.
type SetupToken = secretbox.Secret

// maxSetupTokens bounds how many tokens are open at once: one for each start before the set-up, the oldest go first.
const maxSetupTokens = 20

func setupTokenMAC(pepper []byte, t SetupToken) []byte {
	return mac(pepper, "set-up token", []byte(t.Reveal()))
}

// HasTeam reports whether the installation has been set up.
func (s *Service) HasTeam(ctx context.Context) (bool, error) {
	_, ok, err := readTeam(ctx, s.db.Read())
	return ok, err
}

// OpenSetup lets somebody set the installation up by a token, as long as it has no team. A configured token is then the
// only one that works, and OpenSetup returns none. Otherwise it returns a new one, to be shown to the operator this
// once; those that other starts have shown go on working. It returns no token where there is a team, and is safe to
// call on several nodes at once.
func (s *Service) OpenSetup(ctx context.Context, configured SetupToken) (SetupToken, error) {
	m, err := s.material()
	if err != nil {
		return "", err
	}
	var shown SetupToken
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		shown = ""
		if err := s.lockSetup(ctx, tx); err != nil {
			return err
		}
		_, done, err := readTeam(ctx, tx)
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
			shown = SetupToken(id.NewRandom(id.PrefixSetupToken))
			token, err = shown, trimSetupTokens(ctx, tx, maxSetupTokens-1)
		}
		if err != nil {
			return err
		}
		return insertSetupToken(ctx, tx, setupTokenMAC(m.pepper, token), clock.Millis(s.clock.Now()))
	})
	if err != nil {
		return "", fmt.Errorf("open the set-up: %w", err)
	}
	return shown, nil
}

// NewInstallation is what a set-up makes: the team, and its first owner.
type NewInstallation struct {
	TeamName string
	Email    string
	Password secretbox.Secret
}

// Faults returns what is wrong with a set-up, at the names of its fields in the API.
func (n NewInstallation) Faults() []apperr.Detail {
	var f apperr.Faults
	checkName(&f, "team_name", n.TeamName)
	checkEmail(&f, n.Email)
	checkPassword(&f, "password", n.Password, n.Email)
	return f.Details()
}

// SetupFaults returns what is wrong with a set-up and the form of its token. Whether the token works, Setup tells.
func SetupFaults(t SetupToken, n NewInstallation) []apperr.Detail {
	return slices.Concat(tokenFaults(t), n.Faults())
}

var errSetupToken = errors.New("no such set-up token")

func errSetupDone() error {
	return apperr.New(apperr.CodeSetupDone,
		"This installation has been set up; sign in, or ask an owner for an invitation")
}

// Setup makes the team with the environments development and production, and its first owner, for whoever has a set-up
// token. It returns setup_done once there is a team, unauthorized for a token that does not work, rate_limited after
// many of those from the client's address, and validation_error as Faults says. Of several at a time one succeeds.
func (s *Service) Setup(ctx context.Context, c access.Client, token SetupToken, n NewInstallation) (Profile, error) {
	m, err := s.material()
	if err != nil {
		return Profile{}, err
	}
	if faults := SetupFaults(token, n); faults != nil {
		return Profile{}, apperr.Invalid(faults...)
	}
	address, _ := normalizeEmail(n.Email)
	done, err := s.HasTeam(ctx)
	if err != nil {
		return Profile{}, err
	}
	if done {
		return Profile{}, errSetupDone()
	}
	at := addressAttempt(m.pepper, purposeSetup, c)
	if err := s.admit(ctx, at); err != nil {
		return Profile{}, err
	}
	given := setupTokenMAC(m.pepper, token)
	if err := findSetupToken(ctx, s.db.Read(), given); err != nil {
		return Profile{}, err
	}
	hash, err := s.hasher.hash(ctx, n.Password)
	if err != nil {
		return Profile{}, err
	}
	actor := access.System("setup")
	actor.IP, actor.RequestID = c.IP, c.RequestID
	var p Profile
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := s.lockSetup(ctx, tx); err != nil {
			return err
		}
		_, done, err := readTeam(ctx, tx)
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
		return forgive(ctx, tx, at)
	})
	if err != nil {
		return Profile{}, err
	}
	return p, nil
}

// findSetupToken compares with every open token, so that the time tells nothing about how much of one was right.
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
