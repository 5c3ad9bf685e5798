package signinhttp

import (
	"context"
	"net/http"

	"sallyport/internal/identity/members"
	"sallyport/internal/identity/signin"
	"sallyport/internal/identity/team"
	"sallyport/internal/identity/wire"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpapi/oas"
)

func (h *handlers) mountMe(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-me", Method: http.MethodGet, Path: "/team/me", Tag: tag, Status: http.StatusOK,
		Permission: access.AccountRead, Summary: "Get the signed-in user",
		Description: "Returns the user, their team, their roles and permissions, the environments in which they have any " +
			"permission, and the session.",
	}, h.getMe)
}

// method is a way in which a user was authenticated.
type method string

// Schema returns the schema with the methods.
func (method) Schema(oas.Registry) *oas.Schema { return oas.Enum(signin.Methods()) }

type meOutput struct {
	Body me
}

type me struct {
	// The signed-in user.
	User wire.TeamUser `json:"user"`
	// The team of the user.
	Team wire.Team `json:"team"`
	// The present roles of the user, oldest first.
	RoleBindings []wire.RoleBinding `json:"role_bindings"`
	// The permissions of the roles in the whole team, and the permissions that every member has on their own account.
	Permissions []access.Permission `json:"permissions" example:"[\"team:read\"]"`
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

// ownEnvironment is an environment as the signed-in user has it.
type ownEnvironment struct {
	// The id of the environment, as sent in `Environment-Id`.
	ID string `json:"id" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The name of the environment, unique in the team.
	Name string `json:"name" example:"development"`
	// `live`: production. `test`: any other use.
	Type team.EnvironmentType `json:"type" example:"test"`
	// The permissions of the user's roles in the environment.
	Permissions []access.Permission `json:"permissions" example:"[\"connections:read\"]"`
}

func viewOwnEnvironments(p members.Profile) []ownEnvironment {
	out := make([]ownEnvironment, 0, len(p.Environments))
	for _, e := range p.Environments {
		out = append(out, ownEnvironment{
			ID: string(e.ID), Name: e.Name, Type: e.Type,
			Permissions: p.Rights.In(e.ID),
		})
	}
	return out
}

func (h *handlers) getMe(ctx context.Context, _ *struct{}) (*meOutput, error) {
	p, session, err := h.svc.Profile(ctx, access.From(ctx))
	if err != nil {
		return nil, err
	}
	return &meOutput{Body: me{
		User: wire.ViewUser(p.User), Team: wire.ViewTeam(p.Team), RoleBindings: wire.ViewRoleBindings(p.Bindings),
		Permissions:  append(p.Rights.In(""), access.OwnAccount()...),
		Environments: viewOwnEnvironments(p), Session: currentSession{
			ID: session.ID, AuthenticatedAt: httpapi.TimeMillis(session.AuthMillis),
			Methods: httpapi.ConvertAll[method](session.Methods()), ExpiresAt: httpapi.TimeMillis(session.EndsMillis()),
		},
	}}, nil
}
