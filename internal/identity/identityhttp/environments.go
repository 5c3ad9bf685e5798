package identityhttp

import (
	"context"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/identity"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

type environment struct {
	ID   string          `json:"id" doc:"The environment's id, as it goes into Environment-Id." example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Name string          `json:"name" doc:"The environment's name, unique in the team." example:"development"`
	Type environmentType `json:"type" doc:"What is at stake. live: production. test: anything else. API keys of the environment show it; it restricts nothing." example:"test"`
	Retention
	CreatedAt httpapi.Time `json:"created_at" doc:"When the environment was created." example:"2026-11-02T09:30:00.000Z"`
}

// Retention is how long an environment keeps things. It is exported because Huma looks only into exported embedded
// types.
type Retention struct {
	PayloadRetentionDays *int64 `json:"payload_retention_days" nullable:"true" minimum:"1" maximum:"365" doc:"For how many days the headers and bodies of events are kept; null: as the service is configured (30 unless set), and no longer than the events." example:"30"`
	EventRetentionDays   *int64 `json:"event_retention_days" nullable:"true" minimum:"1" maximum:"3650" doc:"For how many days events are kept, with their deliveries, attempts and idempotency keys; null: as the service is configured (90 unless set)." example:"90"`
}

type createEnvironmentInput struct {
	Body newEnvironment
}

type newEnvironment struct {
	Name string          `json:"name" pattern:"^[a-z][a-z0-9-]{0,62}$" doc:"The environment's name, unique in the team: lower-case letters, digits and hyphens, beginning with a letter." example:"staging"`
	Type environmentType `json:"type,omitempty" default:"test" doc:"What is at stake. live: production. test: anything else. It cannot be changed, because API keys show it. Default test." example:"test"`
	RetentionSettings
}

// RetentionSettings are the writable fields of Retention, exported for the same reason.
type RetentionSettings struct {
	PayloadRetentionDays httpapi.Nullable[int64] `json:"payload_retention_days,omitempty" minimum:"1" maximum:"365" doc:"For how many days the headers and bodies of events are kept, no more than event_retention_days. Null, the default: as the service is configured (30 unless set), and no longer than the events." example:"30"`
	EventRetentionDays   httpapi.Nullable[int64] `json:"event_retention_days,omitempty" minimum:"1" maximum:"3650" doc:"For how many days events are kept, with their deliveries, attempts and idempotency keys. Null, the default: as the service is configured (90 unless set)." example:"90"`
}

func (r RetentionSettings) change() identity.RetentionChange {
	days := func(n httpapi.Nullable[int64]) *int64 {
		if !n.Set || n.Null {
			return nil
		}
		return &n.Value
	}
	return identity.RetentionChange{PayloadSet: r.PayloadRetentionDays.Set, EventSet: r.EventRetentionDays.Set,
		Retention: identity.Retention{PayloadDays: days(r.PayloadRetentionDays), EventDays: days(r.EventRetentionDays)}}
}

type environmentPatch struct {
	Name httpapi.Optional[string] `json:"name,omitempty" pattern:"^[a-z][a-z0-9-]{0,62}$" doc:"The environment's name, unique in the team: lower-case letters, digits and hyphens, beginning with a letter. Default: the one it has." example:"staging"`
	RetentionSettings
}

type environmentInput struct {
	ID string `path:"id" doc:"The environment's id." example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type updateEnvironmentInput struct {
	ID   string `path:"id" doc:"The environment's id." example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
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
	Location string `header:"Location" doc:"The path of the new environment."`
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
	e, err := h.identity.CreateEnvironment(ctx, access.From(ctx),
		identity.NewEnvironment{Name: in.Body.Name, Type: identity.EnvironmentType(in.Body.Type),
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
	list, err := h.identity.ListEnvironments(ctx, actor, r)
	if err != nil {
		return nil, err
	}
	list, headers := page.Cut(r, list, func(e identity.Environment) string {
		return string(e.ID)
	}, in.url.Path, in.url.Query())
	return &listEnvironmentsOutput{Headers: headers, Body: environmentsOf(list)}, nil
}

func (h handler) getEnvironment(ctx context.Context, in *environmentInput) (*environmentOutput, error) {
	return environmentAnswer(h.identity.GetEnvironment(ctx, access.From(ctx), id.Environment(in.ID)))
}

func (h handler) updateEnvironment(ctx context.Context, in *updateEnvironmentInput) (*environmentOutput, error) {
	return environmentAnswer(h.identity.UpdateEnvironment(ctx, access.From(ctx), id.Environment(in.ID),
		identity.EnvironmentChange{Name: in.Body.Name.Pointer(), RetentionChange: in.Body.change()}))
}

func (h handler) deleteEnvironment(ctx context.Context, in *environmentInput) (*struct{}, error) {
	return nil, h.identity.DeleteEnvironment(ctx, access.From(ctx), id.Environment(in.ID))
}

func environmentAnswer(e identity.Environment, err error) (*environmentOutput, error) {
	if err != nil {
		return nil, err
	}
	return &environmentOutput{Body: environmentOf(e)}, nil
}

func environmentOf(e identity.Environment) environment {
	return environment{ID: string(e.ID), Name: e.Name, Type: environmentType(e.Type),
		Retention: Retention{PayloadRetentionDays: e.PayloadDays, EventRetentionDays: e.EventDays},
		CreatedAt: httpapi.TimeMillis(e.CreatedMillis)}
}

func environmentsOf(list []identity.Environment) []environment {
	out := make([]environment, 0, len(list))
	for _, e := range list {
		out = append(out, environmentOf(e))
	}
	return out
}
