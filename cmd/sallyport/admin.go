package main

import (
	"context"
	"fmt"
	"time"

	"sallyport/internal/operator"
)

type adminCommand struct {
	Create           adminCreate `cmd:"" help:"Add an owner. The first owner creates the team and its environments."`
	ResetPassword    adminReset  `cmd:"" name:"reset-password" help:"Set a user's password and end their sessions."`
	RemoveTOTP       adminTOTP   `cmd:"" name:"remove-totp" help:"Remove the authenticator app of a user who has lost it, and end their sessions."`
	RotateSigningKey adminRotate `cmd:"" name:"rotate-signing-key" help:"Replace the key that signs access tokens."`
}

type adminCreate struct {
	Email string `required:"" placeholder:"ADDRESS" help:"The owner's e-mail address, used to sign in. The password is read from standard input."`
	Team  string `placeholder:"NAME" help:"The team's name, if there is no team yet."`
}

// Run adds the owner.
func (c adminCreate) Run(ctx context.Context, e *env) error {
	return e.withStore(ctx, func(s *operator.Store) error {
		password, err := e.readPassword(ctx)
		if err != nil {
			return err
		}
		p, err := s.CreateOwner(ctx, c.Team, c.Email, password)
		if err != nil {
			return err
		}
		rows := [][]string{{"USER", p.User.ID, p.User.Email}, {"TEAM", string(p.Team.ID), p.Team.Name}}
		for _, env := range p.Environments {
			rows = append(rows, []string{"ENVIRONMENT", string(env.ID), env.Name})
		}
		return printTable(e.stdout, rows)
	})
}

type adminReset struct {
	Email string `required:"" placeholder:"ADDRESS" help:"The user's e-mail address. The new password is read from standard input."`
}

// Run sets the password.
func (c adminReset) Run(ctx context.Context, e *env) error {
	return e.withStore(ctx, func(s *operator.Store) error {
		password, err := e.readPassword(ctx)
		if err != nil {
			return err
		}
		if err := s.ResetPassword(ctx, c.Email, password); err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.stdout, "%s has a new password\n", c.Email)
		return err
	})
}

type adminTOTP struct {
	Email string `required:"" placeholder:"ADDRESS" help:"The user's e-mail address."`
}

// Run removes the app.
func (c adminTOTP) Run(ctx context.Context, e *env) error {
	return e.withStore(ctx, func(s *operator.Store) error {
		if err := s.ResetTOTP(ctx, c.Email); err != nil {
			return err
		}
		_, err := fmt.Fprintf(e.stdout, "%s signs in with the password alone\n", c.Email)
		return err
	})
}

type adminRotate struct {
	Compromised bool `help:"Remove the existing keys and sign with the new one immediately. Existing access tokens become invalid within seconds; users stay signed in."`
}

// Run rotates the key while servers run. They need no restart.
func (c adminRotate) Run(ctx context.Context, e *env) error {
	return e.withStore(ctx, func(s *operator.Store) error {
		k, err := s.RotateSigningKey(ctx, c.Compromised)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.stdout, "%s signs access tokens from %s on\n", k.ID, k.From.UTC().Format(time.RFC3339))
		return err
	})
}
