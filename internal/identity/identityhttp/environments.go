package identityhttp

import (
	"context"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	teams "sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

type environment struct {
	// The id of the environment, as sent in `Environment-Id`.
	ID string `json:"id" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The name of the environment, unique in the team.
	Name string `json:"name" example:"development"`
	// `live`: production. `test`: any other use. API keys of the environment show the type. It restricts nothing.
	Type environmentType `json:"type" example:"test"`
	Retention
	// When the environment was created.
	CreatedAt httpapi.Time `json:"created_at" example:"2026-11-02T09:30:00.000Z"`
}

// Retention is how long an environment keeps things. It is exported because Huma looks only into exported embedded
// types.
type Retention struct {
	// How many days the headers and bodies of events are kept. `null` means the configuration of the service (30 by
	// default), and no longer than the events.
	PayloadRetentionDays *int64 `json:"payload_retention_days" nullable:"true" minimum:"1" maximum:"365" example:"30"`
	// How many days events are kept, with their deliveries, attempts and idempotency keys. `null` means the configuration
	// of the service (90 by default).
	EventRetentionDays *int64 `json:"event_retention_days" nullable:"true" minimum:"1" maximum:"3650" example:"90"`
}

type createEnvironmentInput struct {
	Body newEnvironment
}

type newEnvironment struct {
	// The name of the environment, unique in the team: lower-case letters, digits and hyphens, beginning with a letter.
	Name string `json:"name" pattern:"^[a-z][a-z0-9-]{0,62}$" example:"staging"`
	// `live`: production. `test` (default): any other use. It cannot be changed, because API keys show it.
	Type environmentType `json:"type,omitempty" default:"test" example:"test"`
	RetentionSettings
}

// RetentionSettings are the writable fields of Retention, exported for the same reason.
type RetentionSettings struct {
	// How many days the headers and bodies of events are kept, at most `event_retention_days`. The default `null` means
	// the configuration of the service (30 by default), and no longer than the events.
	PayloadRetentionDays httpapi.Nullable[int64] `json:"payload_retention_days,omitempty" minimum:"1" maximum:"365" example:"30"`
	// How many days events are kept, with their deliveries, attempts and idempotency keys. The default `null` means the
	// configuration of the service (90 by default).
	EventRetentionDays httpapi.Nullable[int64] `json:"event_retention_days,omitempty" minimum:"1" maximum:"3650" example:"90"`
}

func (r RetentionSettings) change() teams.RetentionChange {
	days := func(n httpapi.Nullable[int64]) *int64 {
		if !n.Set || n.Null {
			return nil
		}
		return &n.Value
	}
	return teams.RetentionChange{PayloadSet: r.PayloadRetentionDays.Set, EventSet: r.EventRetentionDays.Set,
		Retention: teams.Retention{PayloadDays: days(r.PayloadRetentionDays), EventDays: days(r.EventRetentionDays)}}
}

type environmentPatch struct {
	// The name of the environment, unique in the team: lower-case letters, digits and hyphens, beginning with a letter.
	// Default: unchanged.
	Name httpapi.Optional[string] `json:"name,omitempty" pattern:"^[a-z][a-z0-9-]{0,62}$" example:"staging"`
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

type listEnvironmentsInput struct {
	page.Query
	url url.URL
}

// Resolve keeps the URL for the link to the next page.
func (in *listEnvironmentsInput) Resolve(ctx huma.Context) []error {
	in.url = ctx.URL()
	return nil
}

type createEnvironmentOutput struct {
	// The path of the new environment.
	Location string `header:"Location"`
	Body     environment
}

type environmentOutput struct {
	Body environment
}

type listEnvironmentsOutput struct {
	page.Headers
	Body []environment
}

func (h handler) createEnvironment(ctx context.Context, in *createEnvironmentInput) (*createEnvironmentOutput, error) {
	e, err := h.identity.Team.CreateEnvironment(ctx, access.From(ctx),
		teams.NewEnvironment{Name: in.Body.Name, Type: teams.EnvironmentType(in.Body.Type),
			Retention: in.Body.change().Retention})
	if err != nil {
		return nil, err
	}
	return &createEnvironmentOutput{Location: httpapi.Prefix + "/team/environments/" + string(e.ID),
		Body: environmentOf(e)}, nil
}

func (h handler) listEnvironments(ctx context.Context, in *listEnvironmentsInput) (*listEnvironmentsOutput, error) {
	actor := access.From(ctx)
	r, err := in.Parse("environments\x00"+string(actor.Team), func(key string) bool {
		return id.Is(id.PrefixEnvironment, key)
	})
	if err != nil {
		return nil, err
	}
	list, err := h.identity.Team.ListEnvironments(ctx, actor, r)
	if err != nil {
		return nil, err
	}
	list, headers := page.Cut(r, list, func(e teams.Environment) string {
		return string(e.ID)
	}, in.url.Path, in.url.Query())
	return &listEnvironmentsOutput{Headers: headers, Body: environmentsOf(list)}, nil
}

func (h handler) getEnvironment(ctx context.Context, in *environmentInput) (*environmentOutput, error) {
	return environmentAnswer(h.identity.Team.GetEnvironment(ctx, access.From(ctx), id.Environment(in.ID)))
}

func (h handler) updateEnvironment(ctx context.Context, in *updateEnvironmentInput) (*environmentOutput, error) {
	return environmentAnswer(h.identity.Team.UpdateEnvironment(ctx, access.From(ctx), id.Environment(in.ID),
		teams.EnvironmentChange{Name: in.Body.Name.Pointer(), RetentionChange: in.Body.change()}))
}

func (h handler) deleteEnvironment(ctx context.Context, in *environmentInput) (*struct{}, error) {
	return nil, h.identity.Team.DeleteEnvironment(ctx, access.From(ctx), id.Environment(in.ID))
}

func environmentAnswer(e teams.Environment, err error) (*environmentOutput, error) {
	if err != nil {
		return nil, err
	}
	return &environmentOutput{Body: environmentOf(e)}, nil
}

func environmentOf(e teams.Environment) environment {
	return environment{ID: string(e.ID), Name: e.Name, Type: environmentType(e.Type),
		Retention: Retention{PayloadRetentionDays: e.PayloadDays, EventRetentionDays: e.EventDays},
		CreatedAt: httpapi.TimeMillis(e.CreatedMillis)}
}

func environmentsOf(list []teams.Environment) []environment {
	out := make([]environment, 0, len(list))
	for _, e := range list {
		out = append(out, environmentOf(e))
	}
	return out
}
