package membershttp

import (
	"context"
	"net/http"

	"sallyport/internal/identity/members"
	"sallyport/internal/identity/wire"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/patch"
)

const (
	bindingsPath = "/roles/bindings"
	bindingPath  = bindingsPath + "/{id}"
)

func (h *handlers) mountBindings(api *httpapi.API) {
	httpapi.RegisterList(api, httpapi.Operation{
		ID: "list-role-bindings", Method: http.MethodGet, Path: bindingsPath, Tag: tagRoles, Status: http.StatusOK,
		Permission: access.RolesRead, Summary: "List role bindings",
		Description: "Returns the active role bindings of the team, newest first. Expired role bindings are not listed.",
	}, httpapi.List[listBindingsInput, members.Binding, wire.RoleBinding]{Rows: h.listBindings,
		Key: func(b *members.Binding) string { return b.ID }, IsKey: id.Matcher(id.PrefixBinding),
		View: func(_ context.Context, b *members.Binding) wire.RoleBinding { return wire.ViewRoleBinding(*b) }})
	httpapi.Register(api, httpapi.Operation{
		ID: "create-role-binding", Method: http.MethodPost, Path: bindingsPath, Tag: tagRoles,
		Status: http.StatusCreated, Permission: access.RolesWrite, Summary: "Grant a role",
		Example: `{"principal": {"type": "user", "id": "usr_06dyxk8z3pk6n5q1v7wc4t2m9r"}, ` +
			`"role": "developer", "scope": {"team": true}}`,
		Description: "Grants a member a role in the whole team or in one environment, with or without an end. You cannot " +
			"grant permissions that you do not hold there yourself, or for longer than you hold them: that is " +
			"`privilege_escalation`. The role `owner` applies to the whole team only. A member can have 100 roles.",
		Errors: []apperr.Code{apperr.CodePrivilegeEscalation, apperr.CodeRoleBindingExists, apperr.CodeRolesLimit},
	}, h.createBinding)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-role-binding", Method: http.MethodGet, Path: bindingPath, Tag: tagRoles, Status: http.StatusOK,
		Permission: access.RolesRead, Summary: "Get a role binding",
		Description: "Returns a role binding.",
		Errors:      []apperr.Code{apperr.CodeNotFound}, IfNoneMatch: true,
	}, h.getBinding)
	httpapi.Register(api, httpapi.Operation{
		ID: "update-role-binding", Method: http.MethodPatch, Path: bindingPath, Tag: tagRoles,
		Status: http.StatusOK, Permission: access.RolesWrite, Summary: "Change the end of a role binding",
		Description: "Applies a merge patch (RFC 7396): absent fields stay. Extending a role binding has the same " +
			"conditions as granting the role; see `create-role-binding`. The role binding of the last permanent owner cannot " +
			"get an end. A role binding that an identity provider manages cannot be changed.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodePrivilegeEscalation, apperr.CodeLastOwner,
			apperr.CodeRoleBindingManaged}, IfMatch: true,
	}, h.updateBinding)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-role-binding", Method: http.MethodDelete, Path: bindingPath, Tag: tagRoles,
		Status: http.StatusNoContent, Permission: access.RolesWrite, Summary: "Revoke a role",
		Description: "Revokes the role from the member's next request on. Streams that depended on it end within five " +
			"seconds. Only owners can revoke the role `owner`, and never from the last permanent owner. A role that an " +
			"identity provider manages is granted again at the member's next sign-in with it, if their groups still include " +
			"it.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeLastOwner}, IfMatch: true,
	}, h.deleteBinding)
}

type newBinding struct {
	// The principal that gets the role.
	Principal wire.Principal `json:"principal"`
	// The id of the role: the name of a system role, or the id of a custom role.
	Role string `json:"role" minLength:"1" example:"developer"`
	// Where the role applies.
	Scope wire.Scope `json:"scope"`
	// When the role ends; in the future. Default: never.
	ExpiresAt *httpapi.Time `json:"expires_at,omitempty" example:"2026-12-02T09:30:00.000Z"`
}

// Check adds the errors of a scope.
func (n *newBinding) Check(_ context.Context, v *apperr.Violations) { n.Scope.Check(v.At("scope")) }

// CheckRefused adds the errors that the service would find without the database.
func (n *newBinding) CheckRefused(ctx context.Context, v *apperr.Violations) {
	if n.ExpiresAt != nil {
		v.AddAll(members.BindingExpiryViolations(n.ExpiresAt.Millis(), httpapi.RequestTime(ctx)))
	}
}

type bindingPatch struct {
	// When the role ends; in the future. `null` for never. Default: unchanged.
	ExpiresAt patch.Field[httpapi.Time] `json:"expires_at,omitempty" example:"2026-12-02T09:30:00.000Z"`
}

type listBindingsInput struct {
	page.Query
	// Only role bindings of these principals.
	PrincipalID []string `query:"principal_id,explode" maxItems:"50" pattern:"^[a-z0-9_]{1,64}$" example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// Only role bindings of the roles with these ids.
	Role []string `query:"role,explode" maxItems:"50" pattern:"^[a-z0-9_]{1,64}$" example:"developer"`
	// Only role bindings in one of these environments. Role bindings in the whole team are not listed.
	EnvironmentID []string `query:"environment_id,explode" maxItems:"50" pattern:"^[a-z0-9_]{1,64}$" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type createBindingInput struct {
	Body newBinding
}

type createBindingOutput struct {
	httpapi.Versioned
	// The path of the new role binding.
	Location string `header:"Location"`
	Body     wire.RoleBinding
}

type bindingInput struct {
	// The id of the role binding.
	ID string `path:"id" example:"rbd_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type updateBindingInput struct {
	// The id of the role binding.
	ID   string `path:"id" example:"rbd_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Body bindingPatch
}

type bindingOutput struct {
	httpapi.Versioned
	Body wire.RoleBinding
}

func (h *handlers) listBindings(ctx context.Context, in *listBindingsInput,
	p page.Request) ([]members.Binding, error) {
	return h.svc.ListBindings(ctx, access.From(ctx), members.BindingFilter{
		PrincipalIDs: httpapi.Distinct(in.PrincipalID), Roles: httpapi.ConvertAll[access.Role](httpapi.Distinct(in.Role)),
		Environments: httpapi.ConvertAll[id.Environment](httpapi.Distinct(in.EnvironmentID)),
	}, p)
}

func (h *handlers) createBinding(ctx context.Context, in *createBindingInput) (*createBindingOutput, error) {
	b, err := h.svc.CreateBinding(ctx, access.From(ctx), in.Body.Principal.ID, members.RoleGrant{
		Role: access.Role(in.Body.Role), Environment: id.Environment(in.Body.Scope.EnvironmentID),
		ExpiresMillis: in.Body.ExpiresAt.MillisPtr(),
	})
	if err != nil {
		return nil, err
	}
	return &createBindingOutput{Versioned: httpapi.Version(b.Version()),
		Location: httpapi.Prefix + bindingsPath + "/" + b.ID, Body: wire.ViewRoleBinding(b)}, nil
}

func (h *handlers) getBinding(ctx context.Context, in *bindingInput) (*bindingOutput, error) {
	return respondBinding(h.svc.GetBinding(ctx, access.From(ctx), in.ID))
}

func (h *handlers) updateBinding(ctx context.Context, in *updateBindingInput) (*bindingOutput, error) {
	if !in.Body.ExpiresAt.Set {
		out, err := h.getBinding(ctx, &bindingInput{ID: in.ID})
		return httpapi.Unchanged(ctx, out, err)
	}
	var expires *int64
	if !in.Body.ExpiresAt.Null {
		expires = new(in.Body.ExpiresAt.Value.Millis())
	}
	return respondBinding(h.svc.UpdateBinding(ctx, access.From(ctx), in.ID, expires))
}

func (h *handlers) deleteBinding(ctx context.Context, in *bindingInput) (*struct{}, error) {
	return nil, h.svc.DeleteBinding(ctx, access.From(ctx), in.ID)
}

func respondBinding(b members.Binding, err error) (*bindingOutput, error) {
	if err != nil {
		return nil, err
	}
	return &bindingOutput{Versioned: httpapi.Version(b.Version()), Body: wire.ViewRoleBinding(b)}, nil
}
