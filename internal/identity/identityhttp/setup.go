package identityhttp

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	setups "sallyport/internal/identity/setup"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/secretbox"
)

func mountSetup(api *httpapi.API, h handler) {
	httpapi.Register(api, httpapi.Operation{
		ID: "setup-team", Method: http.MethodPost, Path: "/team/setup", Tag: tagTeam, Status: http.StatusCreated,
		Public: true, Summary: "Set up the installation",
		Description: "Creates the team with the environments `development` and `production`, and its first owner, who then " +
			"signs in with `POST /team/login`. The server logs the setup token when it starts without a team, unless a token " +
			"is configured. The token works once. After the team exists, every request gets `setup_done`.",
		Errors: []apperr.Code{apperr.CodeUnauthorized, apperr.CodeRateLimited, apperr.CodeSetupDone},
	}, h.setup)
}

type setupInput struct {
	Body setupRequest
}

type setupRequest struct {
	// The setup token.
	Token secretbox.Secret `json:"token" minLength:"1" maxLength:"256" writeOnly:"true" example:"sps_3n8fj6k2q9wv5c1z7m4xg0r8bt"`
	// The display name of the team; no control characters.
	TeamName string `json:"team_name" minLength:"1" maxLength:"100" example:"Analytical Engines"`
	// The e-mail address with which the first owner signs in. Case-insensitive.
	Email string `json:"email" minLength:"3" maxLength:"254" example:"ada@example.test"`
	// The first owner's password: any characters, but not the e-mail address.
	Password secretbox.Secret `json:"password" minLength:"12" maxLength:"256" format:"password" writeOnly:"true" example:"correct horse battery"`
}

func (r *setupRequest) installation() setups.NewInstallation {
	return setups.NewInstallation{TeamName: r.TeamName, Email: r.Email, Password: r.Password}
}

// TransformSchema documents the limits of the body and leaves checking them to the domain.
func (*setupRequest) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return httpapi.DocumentOnly(s)
}

// Resolve checks the limits together with what no schema can say.
func (r *setupRequest) Resolve(_ huma.Context, prefix *huma.PathBuffer) []error {
	return violationsAt(prefix.String(), setups.Violations(r.Token, r.installation()))
}

type setupOutput struct {
	// The path of the team.
	Location string `header:"Location"`
	Body     setup
}

type setup struct {
	// The first owner.
	User teamUser `json:"user"`
	// The new team.
	Team team `json:"team"`
	// The environments of the team, oldest first.
	Environments []environment `json:"environments"`
}

func (h handler) setup(ctx context.Context, in *setupInput) (*setupOutput, error) {
	p, err := h.identity.Setup.Complete(ctx, clientOf(ctx), in.Body.Token, in.Body.installation())
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
