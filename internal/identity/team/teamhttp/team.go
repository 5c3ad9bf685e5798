// Package teamhttp serves the team and its environments over HTTP.
package teamhttp

import (
	"context"
	"net/http"

	"sallyport/internal/identity/team"
	"sallyport/internal/identity/wire"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/patch"
)

const (
	tagTeam  = "Team"
	teamPath = "/team"
)

type handlers struct{ svc *team.Service }

// mount adds the operations on the team and its environments to the API.
func mount(api *httpapi.API, svc *team.Service) {
	h := &handlers{svc: svc}
	httpapi.Register(api, httpapi.Operation{
		ID: "get-team", Method: http.MethodGet, Path: teamPath, Tag: tagTeam, Status: http.StatusOK,
		Permission: access.TeamRead, Summary: "Get the team",
		Missing:     []string{"team"},
		Description: "Returns the team of the signed-in user.",
		Errors:      []apperr.Code{apperr.CodeNotFound}, IfNoneMatch: true,
	}, h.get)
	httpapi.Register(api, httpapi.Operation{
		ID: "update-team", Method: http.MethodPatch, Path: teamPath, Tag: tagTeam, Status: http.StatusOK,
		Permission: access.TeamWrite, Summary: "Update the team",
		Missing:     []string{"team"},
		Description: "Applies a merge patch (RFC 7396): absent fields stay.",
		Errors:      []apperr.Code{apperr.CodeNotFound}, IfMatch: true,
	}, h.update)
	h.mountEnvironments(api)
}

type teamOutput struct {
	httpapi.Versioned
	Body wire.Team
}

type updateTeamInput struct {
	Body teamPatch
}

type teamPatch struct {
	// The display name of the team; no control characters. Default: unchanged.
	Name patch.Optional[string] `json:"name,omitempty" minLength:"1" maxLength:"100" example:"Analytical Engines"`
}

// Check adds the errors of a name that the schema accepts.
func (p *teamPatch) Check(_ context.Context, v *apperr.Violations) {
	if p.Name.Value != "" {
		v.AddAll(team.NameViolations(p.Name.Value))
	}
}

func (h *handlers) get(ctx context.Context, _ *struct{}) (*teamOutput, error) {
	return respondTeam(h.svc.Get(ctx, access.From(ctx)))
}

func (h *handlers) update(ctx context.Context, in *updateTeamInput) (*teamOutput, error) {
	if !in.Body.Name.Set {
		out, err := h.get(ctx, nil)
		return httpapi.Unchanged(ctx, out, err)
	}
	return respondTeam(h.svc.Rename(ctx, access.From(ctx), in.Body.Name.Value))
}

func respondTeam(t team.Team, err error) (*teamOutput, error) {
	if err != nil {
		return nil, err
	}
	return &teamOutput{Versioned: httpapi.Version(t.Version()), Body: wire.ViewTeam(t)}, nil
}
