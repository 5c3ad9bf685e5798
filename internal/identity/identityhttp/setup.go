package identityhttp

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/identity"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/secretbox"
)

func mountSetup(api *httpapi.API, h handler) {
	httpapi.Register(api, httpapi.Operation{
		ID: "setup-team", Method: http.MethodPost, Path: "/team/setup", Tag: tagTeam, Status: http.StatusCreated,
		Public: true, Summary: "Set the installation up",
		Description: "Makes the team with the environments development and production, and its first owner, who then " +
			"signs in by " +
			"`POST /team/login`. The token is the one that the server logs when it starts without a team, or the one that it " +
			"is configured " +
			"with. It works once: when there is a team, `setup_done` is the answer to everybody.",
		Errors: []apperr.Code{apperr.CodeUnauthorized, apperr.CodeRateLimited, apperr.CodeSetupDone},
	}, h.setup)
}

type setupInput struct {
	Body setupRequest
}

type setupRequest struct {
	Token    secretbox.Secret `json:"token" minLength:"1" maxLength:"256" writeOnly:"true" doc:"The set-up token." example:"sps_3n8fj6k2q9wv5c1z7m4xg0r8bt"`
	TeamName string           `json:"team_name" minLength:"1" maxLength:"100" doc:"The team's name, for people; no control characters." example:"Analytical Engines"`
	Email    string           `json:"email" minLength:"3" maxLength:"254" doc:"The first owner's e-mail address, to sign in with. Case does not matter." example:"ada@example.test"`
	Password secretbox.Secret `json:"password" minLength:"12" maxLength:"256" format:"password" writeOnly:"true" doc:"The first owner's password: any characters, but not the e-mail address." example:"correct horse battery"`
}

func (r *setupRequest) installation() identity.NewInstallation {
	return identity.NewInstallation{TeamName: r.TeamName, Email: r.Email, Password: r.Password}
}

// TransformSchema documents the limits of the body and leaves checking them to the domain.
func (*setupRequest) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return httpapi.DocumentOnly(s)
}

// Resolve checks the limits together with what no schema can say.
func (r *setupRequest) Resolve(_ huma.Context, prefix *huma.PathBuffer) []error {
	return faultsAt(prefix.String(), identity.SetupFaults(r.Token, r.installation()))
}

type setupOutput struct {
	Location string `header:"Location" doc:"The path of the team."`
	Body     setup
}

type setup struct {
	User         teamUser      `json:"user" doc:"The first owner."`
	Team         team          `json:"team" doc:"The new team."`
	Environments []environment `json:"environments" doc:"The team's environments, oldest first."`
}

func (h handler) setup(ctx context.Context, in *setupInput) (*setupOutput, error) {
	p, err := h.identity.Setup(ctx, clientOf(ctx), in.Body.Token, in.Body.installation())
	if err != nil {
		return nil, err
	}
	return &setupOutput{Location: httpapi.Prefix + "/team",
		Body: setup{User: userOf(p), Team: teamOf(p.Team), Environments: environmentsOf(p.Environments)}}, nil
}

// clientOf is who sends a request that starts no session.
func clientOf(ctx context.Context) access.Client {
	return access.Client{IP: httpapi.ClientIP(ctx), RequestID: httpapi.RequestID(ctx)}
}
