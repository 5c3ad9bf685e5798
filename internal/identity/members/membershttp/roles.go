package membershttp

import (
	"context"
	"net/http"
	"slices"

	"sallyport/internal/identity/members"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/patch"
)

const (
	tagRoles  = "Roles"
	rolesPath = "/roles"
	rolePath  = rolesPath + "/{id}"
)

func (h *handlers) mountRoles(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-permissions", Method: http.MethodGet, Path: rolesPath + "/permissions", Tag: tagRoles,
		Status: http.StatusOK, Permission: access.RolesRead, Summary: "List permissions",
		Description: "Returns every permission with its meaning and the level at which it applies.",
	}, h.listPermissions)
	httpapi.RegisterList(api, httpapi.Operation{
		ID: "list-roles", Method: http.MethodGet, Path: rolesPath, Tag: tagRoles, Status: http.StatusOK,
		Permission: access.RolesRead, Summary: "List roles",
		Description: "Returns the custom roles of the team, newest first, and then the system roles, strongest first.",
	}, httpapi.List[listRolesInput, members.Role, roleView]{Rows: h.listRoles,
		Key: func(r *members.Role) string { return string(r.ID) }, IsKey: isRoleID,
		View: func(_ context.Context, r *members.Role) roleView { return viewRole(*r) }})
	httpapi.Register(api, httpapi.Operation{
		ID: "create-role", Method: http.MethodPost, Path: rolesPath, Tag: tagRoles, Status: http.StatusCreated,
		Permission: access.RolesWrite, Summary: "Create a role",
		Description: "Creates a custom role, which is a list of permissions. You need all of them in the whole team, " +
			"otherwise it is `privilege_escalation`. A team can have 100 custom roles.",
		Errors: []apperr.Code{apperr.CodePrivilegeEscalation, apperr.CodeRoleExists, apperr.CodeRolesLimit},
	}, h.createRole)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-role", Method: http.MethodGet, Path: rolePath, Tag: tagRoles, Status: http.StatusOK,
		Permission: access.RolesRead, Summary: "Get a role",
		Description: "Returns a role.",
		Errors:      []apperr.Code{apperr.CodeNotFound}, IfNoneMatch: true,
	}, h.getRole)
	httpapi.Register(api, httpapi.Operation{
		ID: "update-role", Method: http.MethodPatch, Path: rolePath, Tag: tagRoles, Status: http.StatusOK,
		Permission: access.RolesWrite, Summary: "Update a role",
		Description: "Applies a merge patch (RFC 7396): absent fields stay. The update applies to every user with the role " +
			"from their next request on. You need the added permissions in the whole team and without an end, otherwise it is " +
			"`privilege_escalation`. System roles cannot be changed.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodePrivilegeEscalation, apperr.CodeRoleExists}, IfMatch: true,
	}, h.updateRole)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-role", Method: http.MethodDelete, Path: rolePath, Tag: tagRoles, Status: http.StatusNoContent,
		Permission: access.RolesWrite, Summary: "Delete a role",
		Description: "Deletes a custom role that no one has. System roles cannot be deleted.",
		Errors:      []apperr.Code{apperr.CodeNotFound, apperr.CodeRoleInUse}, IfMatch: true,
	}, h.deleteRole)
}

// grantable is a permission that a role can list.
type grantable access.Permission

// Schema returns the schema with the permissions that a role can list.
func (grantable) Schema(oas.Registry) *oas.Schema { return oas.Enum(access.Grantable()) }

type permissionInfo struct {
	// The permission.
	Permission access.Permission `json:"permission" example:"connections:write"`
	// The level at which the permission applies:
	// - `team`: in the team, for data that belongs to no environment.
	// - `environment`: in one environment, or in all environments if granted in the team.
	// - `account`: every member's own account, with any role. No role lists it.
	Level access.Level `json:"level" example:"environment"`
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
	Permissions []access.Permission `json:"permissions" example:"[\"webhook_events:read\",\"webhook_events:replay\"]"`
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

// Check adds the errors of texts that the schema accepts.
func (n *newRole) Check(_ context.Context, v *apperr.Violations) {
	checkTexts(v, &n.Name, &n.Description)
}

type rolePatch struct {
	// The name of the role, unique in the team and different from system roles, case-insensitively; no control characters.
	// Default: unchanged.
	Name patch.Optional[string] `json:"name,omitempty" minLength:"1" maxLength:"100" example:"support"`
	// The purpose of the role; no control characters. Default: unchanged.
	Description patch.Optional[string] `json:"description,omitempty" maxLength:"500" example:"Looks events up and replays them."`
	// The permissions of the role. Default: unchanged.
	Permissions patch.Optional[[]grantable] `json:"permissions,omitempty" minItems:"1" maxItems:"100" uniqueItems:"true" example:"[\"webhook_events:read\"]"`
}

// Check adds the errors of texts that the schema accepts.
func (p *rolePatch) Check(_ context.Context, v *apperr.Violations) {
	checkTexts(v, p.Name.Pointer(), p.Description.Pointer())
}

// checkTexts leaves out the errors of the schema: an empty name, and a text that is too long.
func checkTexts(v *apperr.Violations, name, description *string) {
	if name != nil && *name == "" {
		name = nil
	}
	v.AddAll(slices.DeleteFunc(members.RoleViolations(name, description), func(d apperr.Detail) bool {
		return d.Rule == "max_length"
	}))
}

type listRolesInput struct{ page.Query }

type createRoleInput struct {
	Body newRole
}

type createRoleOutput struct {
	httpapi.Versioned
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
	httpapi.Versioned
	Body roleView
}

func (h *handlers) listPermissions(context.Context, *struct{}) (*listPermissionsOutput, error) {
	out := &listPermissionsOutput{}
	for _, i := range access.Registry() {
		out.Body = append(out.Body, permissionInfo{Permission: i.Permission, Level: i.Level,
			Description: i.Meaning})
	}
	return out, nil
}

func (h *handlers) listRoles(ctx context.Context, _ *listRolesInput, p page.Request) ([]members.Role, error) {
	return h.svc.ListRoles(ctx, access.From(ctx), p)
}

// isRoleID reports whether a text can be the id of a role.
func isRoleID(text string) bool {
	return id.Is(id.PrefixRole, text) || slices.Contains(access.SystemRoles(), access.Role(text))
}

func (h *handlers) createRole(ctx context.Context, in *createRoleInput) (*createRoleOutput, error) {
	r, err := h.svc.CreateRole(ctx, access.From(ctx), members.NewRole{
		Name: in.Body.Name, Description: in.Body.Description,
		Permissions: httpapi.ConvertAll[access.Permission](in.Body.Permissions),
	})
	if err != nil {
		return nil, err
	}
	return &createRoleOutput{Versioned: httpapi.Version(r.Version()),
		Location: httpapi.Prefix + rolesPath + "/" + string(r.ID), Body: viewRole(r)}, nil
}

func (h *handlers) getRole(ctx context.Context, in *roleInput) (*roleOutput, error) {
	return respondRole(h.svc.GetRole(ctx, access.From(ctx), access.Role(in.ID)))
}

func (h *handlers) updateRole(ctx context.Context, in *updateRoleInput) (*roleOutput, error) {
	change := members.RoleChange{Name: in.Body.Name.Pointer(), Description: in.Body.Description.Pointer()}
	if in.Body.Permissions.Set {
		change.Permissions = httpapi.ConvertAll[access.Permission](in.Body.Permissions.Value)
	}
	return respondRole(h.svc.UpdateRole(ctx, access.From(ctx), access.Role(in.ID), change))
}

func (h *handlers) deleteRole(ctx context.Context, in *roleInput) (*struct{}, error) {
	return nil, h.svc.DeleteRole(ctx, access.From(ctx), access.Role(in.ID))
}

func respondRole(r members.Role, err error) (*roleOutput, error) {
	if err != nil {
		return nil, err
	}
	return &roleOutput{Versioned: httpapi.Version(r.Version()), Body: viewRole(r)}, nil
}

func viewRole(r members.Role) roleView {
	return roleView{
		ID: string(r.ID), Name: r.Name, Description: r.Description, System: r.System,
		Permissions: r.Permissions, CreatedAt: httpapi.TimePtr(r.CreatedMillis),
		UpdatedAt: httpapi.TimePtr(r.UpdatedMillis),
	}
}
