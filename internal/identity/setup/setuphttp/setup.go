// Package setuphttp serves the setup of an installation over HTTP.
package setuphttp

import (
	"context"
	"net/http"

	setups "sallyport/internal/identity/setup"
	"sallyport/internal/identity/wire"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/secretbox"
)

type handlers struct{ svc *setups.Service }

// mount adds the operation to the API.
func mount(api *httpapi.API, svc *setups.Service) {
	h := &handlers{svc: svc}
	httpapi.Register(api, httpapi.Operation{
		ID: "setup-team", Method: http.MethodPost, Path: "/team/setup", Tag: "Team", Status: http.StatusCreated,
		Public: true, Summary: "Set up the installation",
		Description: "Creates the team with the environments `development` and `production`, and its first owner, who then " +
			"signs in with `POST /team/login`. The server logs the setup token when it starts without a team, unless a token " +
			"is configured. The token works once. After the team exists, every request gets `setup_done`.",
		Errors: []apperr.Code{apperr.CodeUnauthorized, apperr.CodeRateLimited, apperr.CodeSetupDone},
	}, h.complete)
}

type setupInput struct {
	Body setupRequest
}

type setupRequest struct {
	httpapi.RuleLimits
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

// Check adds the errors of every field.
func (r *setupRequest) Check(_ context.Context, v *apperr.Violations) {
	v.AddAll(setups.Violations(r.Token, r.installation()))
}

type setupOutput struct {
	// The path of the team.
	Location string `header:"Location"`
	Body     setup
}

// setup is the content of a new installation.
type setup struct {
	// The first owner.
	User wire.TeamUser `json:"user"`
	// The new team.
	Team wire.Team `json:"team"`
	// The environments of the team, oldest first.
	Environments []wire.Environment `json:"environments"`
}

func (h *handlers) complete(ctx context.Context, in *setupInput) (*setupOutput, error) {
	p, err := h.svc.Complete(ctx, httpapi.Client(ctx), in.Body.Token, in.Body.installation())
	if err != nil {
		return nil, err
	}
	return &setupOutput{Location: httpapi.Prefix + "/team",
		Body: setup{User: wire.ViewUser(p.User), Team: wire.ViewTeam(p.Team),
			Environments: wire.ViewEnvironments(p.Environments)}}, nil
}
