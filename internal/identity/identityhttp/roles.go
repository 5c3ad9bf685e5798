package identityhttp

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/identity/members"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

const tagRoles = "Roles"

func mountRoles(api *httpapi.API, h handler) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-permissions", Method: http.MethodGet, Path: "/roles/permissions", Tag: tagRoles, Status: http.StatusOK,
		Permission: access.RolesRead, Summary: "List permissions",
		Description: "Returns every permission with its meaning and the level at which it applies.",
	}, h.listPermissions)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-roles", Method: http.MethodGet, Path: "/roles", Tag: tagRoles, Status: http.StatusOK,
		Permission: access.RolesRead, Summary: "List roles",
		Description: "Returns the custom roles of the team, newest first, and then the system roles, strongest first.",
	}, h.listRoles)
	httpapi.Register(api, httpapi.Operation{
		ID: "create-role", Method: http.MethodPost, Path: "/roles", Tag: tagRoles, Status: http.StatusCreated,
		Permission: access.RolesWrite, Summary: "Create a role",
		Description: "Creates a custom role, which is a list of permissions. You need all of them in the whole team, " +
			"otherwise it is `privilege_escalation`. A team can have 100 custom roles.",
		Errors: []apperr.Code{apperr.CodePrivilegeEscalation, apperr.CodeRoleExists, apperr.CodeRolesLimit},
	}, h.createRole)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-role", Method: http.MethodGet, Path: "/roles/{id}", Tag: tagRoles, Status: http.StatusOK,
		Permission: access.RolesRead, Summary: "Get a role",
		Description: "Returns a role.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.getRole)
	httpapi.Register(api, httpapi.Operation{
		ID: "update-role", Method: http.MethodPatch, Path: "/roles/{id}", Tag: tagRoles, Status: http.StatusOK,
		Permission: access.RolesWrite, Summary: "Update a role",
		Description: "Applies a merge patch (RFC 7396): absent fields stay. The update applies to every user with the role " +
			"from their next request on. You need the added permissions in the whole team and without an end, otherwise it is " +
			"`privilege_escalation`. System roles cannot be changed.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodePrivilegeEscalation, apperr.CodeRoleExists},
	}, h.updateRole)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-role", Method: http.MethodDelete, Path: "/roles/{id}", Tag: tagRoles, Status: http.StatusNoContent,
		Permission: access.RolesWrite, Summary: "Delete a role",
		Description: "Deletes a custom role that no one has. System roles cannot be deleted.",
		Errors:      []apperr.Code{apperr.CodeNotFound, apperr.CodeRoleInUse},
	}, h.deleteRole)
}

type permissionInfo struct {
	// The permission.
	Permission permission `json:"permission" example:"connections:write"`
	// The level at which the permission applies:
	// - `team`: in the team, for data that belongs to no environment.
	// - `environment`: in one environment, or in all environments if granted in the team.
	// - `account`: every member's own account, with any role. No role lists it.
	Level level `json:"level" example:"environment"`
	// The actions that the permission allows.
	Description string `json:"description" example:"Create, change and delete connections, with their secrets and webhook enrolments."`
}

type listPermissionsOutput struct {
	Body []permissionInfo
}

type roleView struct {
	// The id of the role. For a system role it is the name.
	ID string `json:"id" example:"rol_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The name of the role.
	Name string `json:"name" example:"support"`
	// The purpose of the role; empty if there is no description.
	Description string `json:"description" example:"Looks events up and replays them."`
	// Whether the role is a system role, which cannot be changed.
	System bool `json:"system" example:"false"`
	// The permissions of the role.
	Permissions []permission `json:"permissions" example:"[\"webhook_events:read\",\"webhook_events:replay\"]"`
	// When the role was created; `null` for a system role.
	CreatedAt *httpapi.Time `json:"created_at" nullable:"true" example:"2026-11-02T09:30:00.000Z"`
	// When the role was last changed; `null` for a system role.
	UpdatedAt *httpapi.Time `json:"updated_at" nullable:"true" example:"2026-11-02T09:30:00.000Z"`
}

type newRole struct {
	// The name of the role, unique in the team and different from system roles, case-insensitively; no control characters.
	Name string `json:"name" minLength:"1" maxLength:"100" example:"support"`
	// The purpose of the role; no control characters. Default: empty.
	Description string `json:"description,omitempty" maxLength:"500" example:"Looks events up and replays them."`
	// The permissions of the role.
	Permissions []grantable `json:"permissions" minItems:"1" maxItems:"100" uniqueItems:"true" example:"[\"webhook_events:read\",\"webhook_events:replay\"]"`
}

// Resolve adds what the schema cannot say to its validation errors, so that all come in one answer.
func (n *newRole) Resolve(_ huma.Context, prefix *huma.PathBuffer) []error {
	return textViolations(prefix, &n.Name, &n.Description)
}

type rolePatch struct {
	// The name of the role, unique in the team and different from system roles, case-insensitively; no control characters.
	// Default: unchanged.
	Name httpapi.Optional[string] `json:"name,omitempty" minLength:"1" maxLength:"100" example:"support"`
	// The purpose of the role; no control characters. Default: unchanged.
	Description httpapi.Optional[string] `json:"description,omitempty" maxLength:"500" example:"Looks events up and replays them."`
	// The permissions of the role. Default: unchanged.
	Permissions httpapi.Optional[[]grantable] `json:"permissions,omitempty" minItems:"1" maxItems:"100" uniqueItems:"true" example:"[\"webhook_events:read\"]"`
}

// Resolve adds what the schema cannot say to its validation errors, so that all come in one answer.
func (p *rolePatch) Resolve(_ huma.Context, prefix *huma.PathBuffer) []error {
	return textViolations(prefix, p.Name.Pointer(), p.Description.Pointer())
}

// textViolations leaves out what the schema says: that a name is empty or a text too long.
func textViolations(prefix *huma.PathBuffer, name, description *string) []error {
	if name != nil && *name == "" {
		name = nil
	}
	violations := slices.DeleteFunc(members.RoleViolations(name, description), func(d apperr.Detail) bool {
		return d.Rule == "max_length"
	})
	return violationsAt(prefix.String(), violations)
}

type listRolesInput struct {
	page.Query
	url url.URL
}

// Resolve keeps the URL for the link to the next page.
func (in *listRolesInput) Resolve(ctx huma.Context) []error {
	in.url = ctx.URL()
	return nil
}

type listRolesOutput struct {
	page.Headers
	Body []roleView
}

type createRoleInput struct {
	Body newRole
}

type createRoleOutput struct {
	// The path of the new role.
	Location string `header:"Location"`
	Body     roleView
}

type roleInput struct {
	// The id of the role.
	ID string `path:"id" example:"rol_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type updateRoleInput struct {
	// The id of the role.
	ID   string `path:"id" example:"rol_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Body rolePatch
}

type roleOutput struct {
	Body roleView
}

func (h handler) listPermissions(context.Context, *struct{}) (*listPermissionsOutput, error) {
	out := &listPermissionsOutput{}
	for _, i := range access.Registry() {
		out.Body = append(out.Body, permissionInfo{Permission: permission(i.Permission), Level: level(i.Level),
			Description: i.Meaning})
	}
	return out, nil
}

func (h handler) listRoles(ctx context.Context, in *listRolesInput) (*listRolesOutput, error) {
	actor := access.From(ctx)
	r, err := in.Parse("roles\x00"+string(actor.Team), func(key string) bool {
		return id.Is(id.PrefixRole, key) || slices.Contains(access.SystemRoles(), access.Role(key))
	})
	if err != nil {
		return nil, err
	}
	list, err := h.identity.Members.ListRoles(ctx, actor, r)
	if err != nil {
		return nil, err
	}
	list, headers := page.Cut(r, list, func(r members.Role) string { return string(r.ID) }, in.url.Path, in.url.Query())
	out := &listRolesOutput{Headers: headers, Body: make([]roleView, 0, len(list))}
	for _, r := range list {
		out.Body = append(out.Body, roleOf(r))
	}
	return out, nil
}

func (h handler) createRole(ctx context.Context, in *createRoleInput) (*createRoleOutput, error) {
	r, err := h.identity.Members.CreateRole(ctx, access.From(ctx), members.NewRole{
		Name: in.Body.Name, Description: in.Body.Description, Permissions: convert[access.Permission](in.Body.Permissions),
	})
	if err != nil {
		return nil, err
	}
	return &createRoleOutput{Location: httpapi.Prefix + "/roles/" + string(r.ID), Body: roleOf(r)}, nil
}

func (h handler) getRole(ctx context.Context, in *roleInput) (*roleOutput, error) {
	return roleAnswer(h.identity.Members.GetRole(ctx, access.From(ctx), access.Role(in.ID)))
}

func (h handler) updateRole(ctx context.Context, in *updateRoleInput) (*roleOutput, error) {
	change := members.RoleChange{Name: in.Body.Name.Pointer(), Description: in.Body.Description.Pointer()}
	if in.Body.Permissions.Set {
		change.Permissions = convert[access.Permission](in.Body.Permissions.Value)
	}
	return roleAnswer(h.identity.Members.UpdateRole(ctx, access.From(ctx), access.Role(in.ID), change))
}

func (h handler) deleteRole(ctx context.Context, in *roleInput) (*struct{}, error) {
	return nil, h.identity.Members.DeleteRole(ctx, access.From(ctx), access.Role(in.ID))
}

func roleAnswer(r members.Role, err error) (*roleOutput, error) {
	if err != nil {
		return nil, err
	}
	return &roleOutput{Body: roleOf(r)}, nil
}

func roleOf(r members.Role) roleView {
	return roleView{
		ID: string(r.ID), Name: r.Name, Description: r.Description, System: r.System,
		Permissions: convert[permission](r.Permissions), CreatedAt: httpapi.TimePtr(r.CreatedMillis),
		UpdatedAt: httpapi.TimePtr(r.UpdatedMillis),
	}
}
