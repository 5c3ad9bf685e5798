package identityhttp

import (
	"context"

	"sallyport/internal/identity"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/secretbox"
)

// noStore keeps once-shown secrets out of every cache (RFC 6749, section 5.1, asks the same of token answers).
const noStore = "no-store"

type loginInput struct {
	Body loginRequest
}

type loginRequest struct {
	Email    string           `json:"email" minLength:"1" maxLength:"254" doc:"The user's e-mail address. Case does not matter." example:"ada@example.test"`
	Password secretbox.Secret `json:"password" minLength:"1" maxLength:"256" format:"password" writeOnly:"true" doc:"The user's password." example:"correct horse battery"`
}

type loginOutput struct {
	CacheControl string `header:"Cache-Control" doc:"Always no-store."`
	Body         signIn
}

// signIn is what a successful sign-in returns. Its token is shown once, but works for minutes only and is a session's,
// not a stored credential.
type signIn struct {
	AccessToken  string        `json:"access_token" readOnly:"true" doc:"Generated: a JWT to send as Authorization: Bearer. It carries no rights; those are read for each request." example:"eyJhbGciOiJFUzI1NiIsInR5cCI6ImFkbWluK2p3dCJ9.e30.c2ln"`
	TokenType    string        `json:"token_type" enum:"Bearer" doc:"How the token is sent." example:"Bearer"`
	ExpiresIn    int           `json:"expires_in" doc:"How long the token works, in seconds from now." example:"900"`
	User         teamUser      `json:"user" doc:"Who has signed in."`
	Environments []environment `json:"environments" doc:"The environments of the user's team, oldest first."`
}

type teamUser struct {
	ID    string `json:"id" doc:"The user's id." example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Email string `json:"email" doc:"The user's e-mail address, in lower case." example:"ada@example.test"`
	Role  role   `json:"role" doc:"The user's role in the team." example:"owner"`
}

type environment struct {
	ID   string `json:"id" doc:"The environment's id, as it goes into Environment-Id." example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Name string `json:"name" doc:"The environment's name, unique in the team." example:"development"`
}

type meOutput struct {
	Body me
}

type me struct {
	User         teamUser      `json:"user" doc:"The signed-in user."`
	Team         team          `json:"team" doc:"The user's team."`
	Role         role          `json:"role" doc:"The user's role in the team." example:"owner"`
	Permissions  []permission  `json:"permissions" doc:"What the role permits." example:"[\"team:read\"]"`
	Environments []environment `json:"environments" doc:"The environments of the team, oldest first."`
}

type team struct {
	ID   string `json:"id" doc:"The team's id." example:"team_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Name string `json:"name" doc:"The team's name." example:"Analytical Engines"`
}

func (h handler) login(ctx context.Context, in *loginInput) (*loginOutput, error) {
	s, err := h.identity.Login(ctx, in.Body.Email, in.Body.Password)
	if err != nil {
		return nil, err
	}
	return &loginOutput{CacheControl: noStore, Body: signIn{
		AccessToken: s.Token.Reveal(), TokenType: "Bearer", ExpiresIn: int(identity.TokenLifetime.Seconds()),
		User: userOf(s.Profile), Environments: environmentsOf(s.Environments),
	}}, nil
}

func (h handler) me(ctx context.Context, _ *struct{}) (*meOutput, error) {
	p, err := h.identity.Profile(ctx, access.From(ctx))
	if err != nil {
		return nil, err
	}
	return &meOutput{Body: me{
		User: userOf(p), Team: team{ID: string(p.Team.ID), Name: p.Team.Name}, Role: role(p.Role),
		Permissions: convert[permission](p.Role.Permissions()), Environments: environmentsOf(p.Environments),
	}}, nil
}

func userOf(p identity.Profile) teamUser {
	return teamUser{ID: p.User.ID, Email: p.User.Email, Role: role(p.Role)}
}

func environmentsOf(list []identity.Environment) []environment {
	out := make([]environment, 0, len(list))
	for _, e := range list {
		out = append(out, environment{ID: string(e.ID), Name: e.Name})
	}
	return out
}
