package teamhttp

import (
	"context"
	"net/http"

	"sallyport/internal/identity/team"
	"sallyport/internal/identity/wire"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/patch"
)

const (
	tagEnvironments  = "Environments"
	environmentsPath = "/team/environments"
	environmentPath  = environmentsPath + "/{id}"
)

func (h *handlers) mountEnvironments(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-environment", Method: http.MethodPost, Path: environmentsPath, Tag: tagEnvironments,
		Status: http.StatusCreated, Permission: access.EnvironmentsWrite, Summary: "Create an environment",
		Description: "Creates an environment in the team. Environments are isolated: the data of one environment does not " +
			"exist in another.",
		Errors: []apperr.Code{apperr.CodeEnvironmentExists},
	}, h.createEnvironment)
	httpapi.RegisterList(api, httpapi.Operation{
		ID: "list-environments", Method: http.MethodGet, Path: environmentsPath, Tag: tagEnvironments,
		AnyEnvironment: true, Status: http.StatusOK, Permission: access.EnvironmentsRead, Summary: "List environments",
		Description: "Returns the environments of the team that the user can see, newest first.",
	}, httpapi.List[listEnvironmentsInput, team.Environment, wire.Environment]{Rows: h.listEnvironments, View: viewListed,
		Key: func(e *team.Environment) string { return string(e.ID) }, IsKey: id.Matcher(id.PrefixEnvironment)})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-environment", Method: http.MethodGet, Path: environmentPath, Tag: tagEnvironments,
		AnyEnvironment: true, Status: http.StatusOK, Permission: access.EnvironmentsRead, Summary: "Get an environment",
		Description: "Returns an environment.",
		Errors:      []apperr.Code{apperr.CodeNotFound}, IfNoneMatch: true,
	}, h.getEnvironment)
	httpapi.Register(api, httpapi.Operation{
		ID: "update-environment", Method: http.MethodPatch, Path: environmentPath, Tag: tagEnvironments,
		AnyEnvironment: true, Status: http.StatusOK, Permission: access.EnvironmentsWrite, Summary: "Update an environment",
		Description: "Applies a merge patch (RFC 7396): absent fields stay.",
		Errors:      []apperr.Code{apperr.CodeNotFound, apperr.CodeEnvironmentExists}, IfMatch: true,
	}, h.updateEnvironment)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-environment", Method: http.MethodDelete, Path: environmentPath, Tag: tagEnvironments,
		AnyEnvironment: true, Status: http.StatusNoContent, Permission: access.EnvironmentsWrite,
		Summary: "Delete an environment",
		Messages: map[apperr.Code][]string{
			apperr.CodeEnvironmentNotEmpty: {
				"The environment still has connections",
				"The environment still has API keys",
			},
		},
		Description: "Deletes an empty environment: one without connections, subscriptions and API keys, including revoked " +
			"and expired keys. Its name can be used again. Its audit trail is kept. Events that it received stay stored but " +
			"are no longer readable.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeEnvironmentNotEmpty}, IfMatch: true,
	}, h.deleteEnvironment)
}

type createEnvironmentInput struct {
	Body newEnvironment
}

type newEnvironment struct {
	// The name of the environment, unique in the team: lower-case letters, digits and hyphens, beginning with a letter.
	Name string `json:"name" pattern:"^[a-z][a-z0-9-]{0,62}$" example:"staging"`
	// `live`: production. `test` (default): any other use. It cannot be changed, because API keys show it.
	Type team.EnvironmentType `json:"type,omitempty" default:"test" example:"test"`
	RetentionSettings
}

// RetentionSettings says how long an environment keeps events. It is exported because only exported embedded structs
// are documented.
type RetentionSettings struct {
	// How many days the headers and bodies of events are kept, at most `event_retention_days`. The default `null` means
	// the configuration of the service (30 by default), and no longer than the events.
	PayloadRetentionDays patch.Field[int64] `json:"payload_retention_days,omitempty" minimum:"1" maximum:"365" example:"30"`
	// How many days events are kept, with their deliveries, attempts and idempotency keys. The default `null` means the
	// configuration of the service (90 by default).
	EventRetentionDays patch.Field[int64] `json:"event_retention_days,omitempty" minimum:"1" maximum:"3650" example:"90"`
}

func (r RetentionSettings) change() team.RetentionChange {
	days := func(n patch.Field[int64]) *int64 {
		if !n.Set || n.Null {
			return nil
		}
		return &n.Value
	}
	return team.RetentionChange{PayloadSet: r.PayloadRetentionDays.Set, EventSet: r.EventRetentionDays.Set,
		Retention: team.Retention{PayloadDays: days(r.PayloadRetentionDays), EventDays: days(r.EventRetentionDays)}}
}

type environmentPatch struct {
	// The name of the environment, unique in the team: lower-case letters, digits and hyphens, beginning with a letter.
	// Default: unchanged.
	Name patch.Optional[string] `json:"name,omitempty" pattern:"^[a-z][a-z0-9-]{0,62}$" example:"staging"`
	// The URLs to which the connect page may send browsers back, at most 20. They begin with https://, or with http:// if
	// the host is this machine, and have no fragment, user name or password. A link names exactly one of them, with its
	// query. Default: unchanged.
	ConnectRedirectURLs patch.Optional[[]string] `json:"connect_redirect_urls,omitempty" maxItems:"20" example:"[\"https://app.example.com/connected\"]"`
	RetentionSettings
}

type environmentInput struct {
	// The id of the environment.
	ID string `path:"id" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type updateEnvironmentInput struct {
	// The id of the environment.
	ID   string `path:"id" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Body environmentPatch
}

type listEnvironmentsInput struct{ page.Query }

type createEnvironmentOutput struct {
	httpapi.Versioned
	// The path of the new environment.
	Location string `header:"Location"`
	Body     wire.Environment
}

type environmentOutput struct {
	httpapi.Versioned
	Body wire.Environment
}

func (h *handlers) createEnvironment(ctx context.Context,
	in *createEnvironmentInput) (*createEnvironmentOutput, error) {
	e, err := h.svc.CreateEnvironment(ctx, access.From(ctx),
		team.NewEnvironment{Name: in.Body.Name, Type: in.Body.Type,
			Retention: in.Body.change().Retention})
	if err != nil {
		return nil, err
	}
	return &createEnvironmentOutput{Versioned: httpapi.Version(e.Version()),
		Location: httpapi.Prefix + environmentsPath + "/" + string(e.ID),
		Body:     wire.ViewEnvironment(e)}, nil
}

func (h *handlers) listEnvironments(ctx context.Context, _ *listEnvironmentsInput,
	p page.Request) ([]team.Environment, error) {
	return h.svc.ListEnvironments(ctx, access.From(ctx), p)
}

func viewListed(_ context.Context, e *team.Environment) wire.Environment {
	return wire.ViewEnvironment(*e)
}

func (h *handlers) getEnvironment(ctx context.Context, in *environmentInput) (*environmentOutput, error) {
	return respondEnvironment(h.svc.GetEnvironment(ctx, access.From(ctx), id.Environment(in.ID)))
}

func (h *handlers) updateEnvironment(ctx context.Context, in *updateEnvironmentInput) (*environmentOutput, error) {
	return respondEnvironment(h.svc.UpdateEnvironment(ctx, access.From(ctx), id.Environment(in.ID),
		team.EnvironmentChange{Name: in.Body.Name.Pointer(), RedirectURLs: in.Body.ConnectRedirectURLs.Pointer(),
			RetentionChange: in.Body.change()}))
}

func (h *handlers) deleteEnvironment(ctx context.Context, in *environmentInput) (*struct{}, error) {
	return nil, h.svc.DeleteEnvironment(ctx, access.From(ctx), id.Environment(in.ID))
}

func respondEnvironment(e team.Environment, err error) (*environmentOutput, error) {
	if err != nil {
		return nil, err
	}
	return &environmentOutput{Versioned: httpapi.Version(e.Version()), Body: wire.ViewEnvironment(e)}, nil
}
