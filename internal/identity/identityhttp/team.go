package identityhttp

import (
	"context"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/identity/members"
	teams "sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
)

type teamUser struct {
	// The id of the user.
	ID string `json:"id" example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The user's e-mail address, in lower case.
	Email string `json:"email" example:"ada@example.test"`
}

type meOutput struct {
	Body me
}

type me struct {
	// The signed-in user.
	User teamUser `json:"user"`
	// The team of the user.
	Team team `json:"team"`
	// The present roles of the user, oldest first.
	RoleBindings []roleBinding `json:"role_bindings"`
	// The permissions of the roles in the whole team, and the permissions that every member has on their own account.
	Permissions []permission `json:"permissions" example:"[\"team:read\"]"`
	// The environments in which the user has any permission, oldest first. Other environments do not exist for the user.
	Environments []ownEnvironment `json:"environments"`
	// The session of the request.
	Session currentSession `json:"session"`
}

type currentSession struct {
	// The id of the session.
	ID string `json:"id" example:"ses_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// When the user last entered their password in this session.
	AuthenticatedAt httpapi.Time `json:"authenticated_at" example:"2026-11-02T09:30:00.000Z"`
	// How the user was authenticated (RFC 8176):
	// - `pwd`: with the password.
	// - `otp`: with a code of an authenticator app or a recovery code.
	// - `sso`: by an identity provider.
	Methods []method `json:"methods" example:"[\"pwd\"]"`
	// When the session ends if it is not refreshed before.
	ExpiresAt httpapi.Time `json:"expires_at" example:"2026-11-16T09:30:00.000Z"`
}

type team struct {
	// The id of the team.
	ID string `json:"id" example:"team_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The name of the team.
	Name string `json:"name" example:"Analytical Engines"`
	// When the team was created.
	CreatedAt httpapi.Time `json:"created_at" example:"2026-11-02T09:30:00.000Z"`
}

type teamOutput struct {
	Body team
}

type updateTeamInput struct {
	Body teamPatch
}

type teamPatch struct {
	// The display name of the team; no control characters. Default: unchanged.
	Name httpapi.Optional[string] `json:"name,omitempty" minLength:"1" maxLength:"100" example:"Analytical Engines"`
}

// Resolve adds what the schema cannot say to its validation errors, so that all come in one answer.
func (p *teamPatch) Resolve(_ huma.Context, prefix *huma.PathBuffer) []error {
	if p.Name.Value == "" {
		return nil // the schema says so, or the name stays
	}
	return violationsAt(prefix.String(), teams.NameViolations(p.Name.Value))
}

func (h handler) me(ctx context.Context, _ *struct{}) (*meOutput, error) {
	p, session, err := h.identity.SignIn.Profile(ctx, access.From(ctx))
	if err != nil {
		return nil, err
	}
	return &meOutput{Body: me{
		User: userOf(p), Team: teamOf(p.Team), RoleBindings: bindingsOf(p.Bindings),
		Permissions: convert[permission](append(p.Rights.In(""), access.OwnAccount()...)), Environments: ownEnvironments(p),
		Session: currentSession{
			ID: session.ID, AuthenticatedAt: httpapi.TimeMillis(session.AuthMillis), Methods: convert[method](session.Methods()),
			ExpiresAt: httpapi.TimeMillis(session.EndsMillis()),
		},
	}}, nil
}

func (h handler) getTeam(ctx context.Context, _ *struct{}) (*teamOutput, error) {
	return teamAnswer(h.identity.Team.Get(ctx, access.From(ctx)))
}

func (h handler) updateTeam(ctx context.Context, in *updateTeamInput) (*teamOutput, error) {
	if !in.Body.Name.Set {
		return h.getTeam(ctx, nil)
	}
	return teamAnswer(h.identity.Team.Rename(ctx, access.From(ctx), in.Body.Name.Value))
}

func teamAnswer(t teams.Team, err error) (*teamOutput, error) {
	if err != nil {
		return nil, err
	}
	return &teamOutput{Body: teamOf(t)}, nil
}

func teamOf(t teams.Team) team {
	return team{ID: string(t.ID), Name: t.Name, CreatedAt: httpapi.TimeMillis(t.CreatedMillis)}
}

func userOf(p members.Profile) teamUser {
	return teamUser{ID: p.User.ID, Email: p.User.Email}
}

// violationsAt puts validation errors of a body's fields where the body is, in the form in which Huma collects them.
func violationsAt(prefix string, violations []apperr.Detail) []error {
	var errs []error
	for _, d := range violations {
		d.Location = prefix + "." + d.Location
		errs = append(errs, apperr.Invalid(d))
	}
	return errs
}

// inBody puts the validation errors that a rule found after the schema's where the body is.
func inBody(e *apperr.Error) *apperr.Error {
	details := slices.Clone(e.Details)
	for i := range details {
		details[i].Location = "body." + details[i].Location
	}
	return apperr.Invalid(details...)
}
