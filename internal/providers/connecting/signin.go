package connecting

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

// People knows the members of teams, and finds out who is at a browser. Its errors for a person are rate_limited,
// unauthorized, totp_required and totp_invalid.
type People interface {
	// Member returns the e-mail address of an active member of a team who has a role in an environment; false for anyone
	// else.
	Member(ctx context.Context, q db.Querier, team id.Team, env id.Environment, user string) (email string, found bool,
		err error)
	// ByPassword returns the user with a password, and with a code of their authenticator app if they have one.
	ByPassword(ctx context.Context, c access.Client, email string, password, code secretbox.Secret) (access.Principal,
		error)
	// BySession returns the user whom a browser's refresh token keeps signed in.
	BySession(ctx context.Context, token secretbox.Secret) (access.Principal, error)
	// EndedSince reports whether what a user proved at a time may have ended: they have another password, or a session of
	// theirs has ended.
	EndedSince(ctx context.Context, q db.Querier, user string, since time.Time) (bool, error)
	// Providers returns the identity providers through which members of a team can sign in.
	Providers(ctx context.Context, team id.Team) ([]IdentityProvider, error)
	// StartURL is where a browser begins to sign in through a provider, to come back to a path of the service.
	StartURL(provider, returnTo string) string
}

// IdentityProvider is a way to sign in without a password of the service.
type IdentityProvider struct{ ID, Name string }

// Visitor is the browser of a request.
type Visitor struct {
	// Browser is the value of the cookie to which links belong; empty without one.
	Browser secretbox.Secret
	// Session is the refresh token of a user who is signed in there; empty without one.
	Session secretbox.Secret
	Client  access.Client
}

// SignInForm asks who is at the browser, in place of fields.
type SignInForm struct {
	Email     string
	Providers []IdentityProvider
	// Back is true for a browser that comes back from an identity provider.
	Back bool
	// CodeError is about the code of an authenticator app; empty for no error.
	CodeError string
}

// Values of the input that says how a person signs in.
const (
	inputSignIn      = "sign_in"
	signInByPassword = "password"
	signInBySession  = "session"
	signInBySSO      = "sso:" // before the id of the identity provider
)

// maxEmail and maxPassword are the longest that the API takes, in bytes.
const maxEmail, maxPassword = 254, 256

// SignedInPath is the path to which a browser comes back from an identity provider, before the state of its way.
const SignedInPath = PagePath + "signed-in/"

// signInLifetime is how long a sign-in on a page counts. The way to a provider and back does not shorten it.
const signInLifetime = 30 * time.Minute

// Words of sign-ins.
const (
	wordsSomeoneElse = ", and this link is for another person. Sign in as that person, or ask for a link of your own " +
		"where you got this one."
	wordsNoMember = "The person for whom this link is does not belong to the team any more. Ask about it where you got " +
		"this link."
	wordsSignIn = "Your sign-in on this page has expired. Open the link again."
)

// awaitsSignIn reports whether the connection belongs to a member who has not signed in yet, in the browser to which
// the link belongs.
func (o *opened) awaitsSignIn(now time.Time) bool {
	return o.connection.OwnerUserID != "" && !now.Before(clock.FromMillis(o.signedInMillis).Add(signInLifetime))
}

// endedSignIn reports whether the owner of the connection has signed in on the page, and has ended a session or changed
// the password since, because someone else may have been there.
func (o *opened) endedSignIn(ctx context.Context, q db.Querier, of People) (bool, error) {
	if !o.owned() || o.signedInMillis == 0 {
		return false, nil
	}
	//nolint:wrapcheck // it says what failed
	return of.EndedSince(ctx, q, o.connection.OwnerUserID, clock.FromMillis(o.signedInMillis))
}

// owned reports whether the connection belongs to a member.
func (o *opened) owned() bool { return o.connection.OwnerUserID != "" }

// signInPage returns the page that asks who is at the browser.
func (s *Service) signInPage(ctx context.Context, o *opened, email string) (*Page, error) {
	team, err := s.cfg.Teams.NameOf(ctx, o.team)
	if err != nil {
		return nil, err
	}
	list, err := s.cfg.People.Providers(ctx, o.team)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what failed
	}
	p := &Page{Team: team, Provider: o.providerName(), Host: hostOf(o.redirectURL), Owned: true,
		Again:  o.connection.Credentials != nil || o.connection.Account.ID != "",
		SignIn: &SignInForm{Email: email, Providers: list}}
	if name := o.provider.Definition.DisplayName; name != p.Provider {
		p.Definition = name
	}
	return p, nil
}

// signIn takes the form of signInPage. It returns the page of the link once the owner of the connection has signed in.
func (s *Service) signIn(ctx context.Context, o *opened, v Visitor, values map[string]string) (*Step, error) {
	page, err := s.signInPage(ctx, o, values["email"])
	if err != nil {
		return nil, err
	}
	var who access.Principal
	switch how := values[inputSignIn]; {
	case how == signInByPassword:
		if len(page.SignIn.Email) > maxEmail || len(values["password"]) > maxPassword {
			page.SignIn.Email = ""
			page.Errors = append(page.Errors, "The email address or the password is longer than any can be.")
			return &Step{Form: page}, nil
		}
		who, err = s.cfg.People.ByPassword(ctx, v.Client, strings.TrimSpace(values["email"]),
			secretbox.Secret(values["password"]), secretbox.Secret(strings.TrimSpace(values["totp"])))
	case how == signInBySession:
		who, err = s.cfg.People.BySession(ctx, v.Session)
		if apperr.Is(err, apperr.CodeUnauthorized) {
			page.Errors = append(page.Errors, "No one is signed in to this service in this browser.")
			return &Step{Form: page}, nil
		}
	case strings.HasPrefix(how, signInBySSO):
		return s.leave(ctx, o, page, strings.TrimPrefix(how, signInBySSO))
	default:
		return &Step{Form: page}, nil
	}
	switch {
	case err != nil:
		return page.refuse(err)
	case who.ID != o.connection.OwnerUserID || who.Team != o.team:
		p := linkProblem("You have signed in as " + who.Name + wordsSomeoneElse)
		p.Retry, p.Again = true, PagePath+o.token.Reveal()
		return nil, s.counted(p)
	}
	o.signedInMillis = clock.Millis(s.cfg.Clock.Now())
	if err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error { return noteSignIn(ctx, tx, &o.link) }); err != nil {
		return nil, err
	}
	next, err := s.page(ctx, o, "", nil)
	if err != nil {
		return nil, err
	}
	return &Step{Form: next}, nil
}

// refuse shows why a person is not signed in. It returns other errors as they are.
func (p *Page) refuse(err error) (*Step, error) {
	var e *apperr.Error
	if !errors.As(err, &e) {
		return nil, err
	}
	switch e.Code {
	case apperr.CodeUnauthorized, apperr.CodeUnavailable:
		p.Errors = append(p.Errors, sentence(e.Message))
	case apperr.CodeRateLimited:
		wait := max(1, int64((e.RetryAfter+time.Second-1)/time.Second))
		p.Errors = append(p.Errors, fmt.Sprintf("There were too many failed sign-ins. Wait %d seconds, and try again.", wait))
	case apperr.CodeTOTPRequired:
		p.SignIn.CodeError = "is needed for this account; enter the password again, too"
	case apperr.CodeTOTPInvalid:
		p.SignIn.CodeError = "is wrong or was used before; enter the password again, too"
	default:
		return nil, err
	}
	return &Step{Form: p}, nil
}

// leave returns the step to an identity provider. The way back to the link is kept as it is for those who are at a
// provider: sealed under a state.
func (s *Service) leave(ctx context.Context, o *opened, page *Page, provider string) (*Step, error) {
	for _, p := range page.SignIn.Providers {
		if p.ID != provider {
			continue
		}
		state := newToken()
		f := flow{linkID: o.id, environment: o.environment, expiresAt: s.cfg.Clock.Now().Add(flowLifetime),
			flowSecrets: flowSecrets{Link: o.token.Reveal(), SignIn: true}}
		sealed, err := s.flows.seal(&f, state)
		if err != nil {
			return nil, err
		}
		err = s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error { return insertFlow(ctx, tx, &f, state, sealed) })
		if err != nil {
			return nil, err
		}
		to := s.cfg.People.StartURL(provider, SignedInPath+state.Reveal())
		return &Step{To: to, Team: page.Team, Provider: p.Name, Host: hostOf(s.cfg.PublicURL), Entering: true}, nil
	}
	page.Errors = append(page.Errors, "This way to sign in is not available any more.")
	return &Step{Form: page}, nil
}

// SignedIn returns what a browser sees that comes back from an identity provider: a form with which it says that it is
// signed in. The cookie of the session comes only with a request that our own page has sent. It changes nothing.
func (s *Service) SignedIn(ctx context.Context, v Visitor, state secretbox.Secret) (*Step, error) {
	f, found, err := s.flows.look(ctx, s.cfg.DB.Read(), state)
	if err != nil {
		return nil, err
	}
	if !found || !f.SignIn || !s.cfg.Clock.Now().Before(f.expiresAt) {
		return nil, s.counted(linkProblem(wordsState))
	}
	o, err := s.find(ctx, secretbox.Secret(f.Link), v.Browser)
	switch {
	case err != nil:
		return nil, s.counted(err)
	case !o.isOf(v.Browser):
		return nil, s.counted(linkProblem(wordsState))
	case o.connected:
		return s.connected(ctx, o)
	}
	page, err := s.signInPage(ctx, o, "")
	if err != nil {
		return nil, err
	}
	page.SignIn.Back, page.Path = true, PagePath+o.token.Reveal()
	return &Step{Form: page}, nil
}

// actor is who connects: the owner of the connection, or the page for anyone who has the link.
func (s *Service) actor(ctx context.Context, q db.Querier, o *opened) (access.Principal, error) {
	actor := access.System("connect")
	if o.owned() {
		email, found, err := s.cfg.People.Member(ctx, q, o.team, o.environment, o.connection.OwnerUserID)
		if err != nil {
			return actor, err //nolint:wrapcheck // it says what failed
		}
		if !found {
			return actor, linkProblem(wordsNoMember)
		}
		actor = o.client.User(o.connection.OwnerUserID, email, o.team)
	}
	actor.Team, actor.Environment = o.team, o.environment
	return actor, nil
}

// checkOwner adds an error unless the connection can belong to a user. owner is that of a connection that exists.
func (s *Service) checkOwner(ctx context.Context, v *apperr.Violations, team id.Team, env id.Environment,
	user string) error {
	if !id.Is(id.PrefixUser, user) {
		return nil // there is none, or Check refuses it
	}
	_, found, err := s.cfg.People.Member(ctx, s.cfg.DB.Read(), team, env, user)
	if err != nil {
		return err //nolint:wrapcheck // it says what failed
	}
	if !found {
		v.Add("user_id", "exists", "must be an active member of the team with a role in the environment")
	}
	return nil
}

// noteSignIn notes when the owner has signed in, for the browser to which the link belongs.
func noteSignIn(ctx context.Context, tx *sql.Tx, l *link) error {
	if _, err := tx.ExecContext(ctx, `UPDATE connect_links SET signed_in_ms = $3
		WHERE environment_id = $1 AND id = $2 AND browser_hash = $4`, string(l.environment), l.id,
		l.signedInMillis, l.browserHash); err != nil {
		return fmt.Errorf("note a sign-in: %w", err)
	}
	return nil
}
