package identityhttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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

func mountBindings(api *httpapi.API, h handler) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-role-bindings", Method: http.MethodGet, Path: "/roles/bindings", Tag: tagRoles, Status: http.StatusOK,
		Permission: access.RolesRead, Summary: "List role bindings",
		Description: "Returns the active role bindings of the team, newest first. Expired role bindings are not listed.",
	}, h.listBindings)
	httpapi.Register(api, httpapi.Operation{
		ID: "create-role-binding", Method: http.MethodPost, Path: "/roles/bindings", Tag: tagRoles,
		Status: http.StatusCreated, Permission: access.RolesWrite, Summary: "Grant a role",
		Description: "Grants a member a role in the whole team or in one environment, with or without an end. You cannot " +
			"grant permissions that you do not hold there yourself, or for longer than you hold them: that is " +
			"`privilege_escalation`. The role `owner` applies to the whole team only. A member can have 100 roles.",
		Errors: []apperr.Code{apperr.CodePrivilegeEscalation, apperr.CodeRoleBindingExists, apperr.CodeRolesLimit},
	}, h.createBinding)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-role-binding", Method: http.MethodGet, Path: "/roles/bindings/{id}", Tag: tagRoles, Status: http.StatusOK,
		Permission: access.RolesRead, Summary: "Get a role binding",
		Description: "Returns a role binding.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.getBinding)
	httpapi.Register(api, httpapi.Operation{
		ID: "update-role-binding", Method: http.MethodPatch, Path: "/roles/bindings/{id}", Tag: tagRoles,
		Status: http.StatusOK, Permission: access.RolesWrite, Summary: "Change the end of a role binding",
		Description: "Applies a merge patch (RFC 7396): absent fields stay. Extending a role binding has the same " +
			"conditions as granting the role; see `create-role-binding`. The role binding of the last permanent owner cannot " +
			"get an end. A role binding that an identity provider manages cannot be changed.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodePrivilegeEscalation, apperr.CodeLastOwner,
			apperr.CodeRoleBindingManaged},
	}, h.updateBinding)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-role-binding", Method: http.MethodDelete, Path: "/roles/bindings/{id}", Tag: tagRoles,
		Status: http.StatusNoContent, Permission: access.RolesWrite, Summary: "Revoke a role",
		Description: "Revokes the role from the member's next request on. Streams that depended on it end within five " +
			"seconds. Only owners can revoke the role `owner`, and never from the last permanent owner. A role that an " +
			"identity provider manages is granted again at the member's next sign-in with it, if their groups still include " +
			"it.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeLastOwner},
	}, h.deleteBinding)
}

// scope says where a role holds. It has one of its fields.
type scope struct {
	// `true` for the whole team with all its environments. Either `team` or `environment_id` is present.
	Team bool `json:"team,omitempty" enum:"true" example:"true"`
	// A single environment. Either `team` or `environment_id` is present.
	EnvironmentID string `json:"environment_id,omitempty" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

// Resolve holds the scope to one of its fields.
func (s *scope) Resolve(_ huma.Context, prefix *huma.PathBuffer) []error {
	if s.Team != (s.EnvironmentID != "") {
		return nil
	}
	return []error{apperr.Invalid(apperr.Detail{Location: prefix.String(), Rule: "one_of",
		Message: "must have either team or environment_id"})}
}

func scopeOf(env id.Environment) scope {
	return scope{Team: env == "", EnvironmentID: string(env)}
}

type principal struct {
	// The kind of principal. `user`: a member of the team.
	Type principalType `json:"type" example:"user"`
	// The id of the principal.
	ID string `json:"id" minLength:"1" example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type newBinding struct {
	// The principal that gets the role.
	Principal principal `json:"principal"`
	// The id of the role: the name of a system role, or the id of a custom role.
	Role string `json:"role" minLength:"1" example:"developer"`
	// Where the role applies.
	Scope scope `json:"scope"`
	// When the role ends; in the future. Default: never.
	ExpiresAt *httpapi.Time `json:"expires_at,omitempty" example:"2026-12-02T09:30:00.000Z"`
}

// Resolve has the rules look at a body of the wrong shape too.
func (n *newBinding) Resolve(ctx huma.Context) []error {
	if n.ExpiresAt != nil {
		httpapi.OnRefusal(ctx, func(v *apperr.Violations) {
			v.At("body").AddAll(members.BindingExpiryViolations(n.ExpiresAt.Millis(), httpapi.RequestTime(ctx.Context())))
		})
	}
	return nil
}

type bindingPatch struct {
	// When the role ends; in the future. `null` for never. Default: unchanged.
	ExpiresAt httpapi.Nullable[httpapi.Time] `json:"expires_at,omitempty" example:"2026-12-02T09:30:00.000Z"`
}

type roleBinding struct {
	// The id of the role binding.
	ID string `json:"id" example:"rbd_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The principal that has the role.
	Principal principal `json:"principal"`
	// The id of the role: the name of a system role, or the id of a custom role.
	Role string `json:"role" example:"developer"`
	// The name of the role.
	RoleName string `json:"role_name" example:"developer"`
	// Where the role applies.
	Scope scope `json:"scope"`
	// When the role was granted.
	CreatedAt httpapi.Time `json:"created_at" example:"2026-11-02T09:30:00.000Z"`
	// When the role ends; `null` for never.
	ExpiresAt *httpapi.Time `json:"expires_at" nullable:"true" example:"2026-12-02T09:30:00.000Z"`
	// The id of the identity provider whose groups grant and revoke the role; `null` for a role that a user granted.
	ManagedBy *string `json:"managed_by" nullable:"true" example:"sso_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type listBindingsInput struct {
	page.Query
	// Only role bindings of these principals.
	PrincipalID []string `query:"principal_id,explode" maxItems:"50" pattern:"^[a-z0-9_]{1,64}$" example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// Only role bindings of the roles with these ids.
	Role []string `query:"role,explode" maxItems:"50" pattern:"^[a-z0-9_]{1,64}$" example:"developer"`
	// Only role bindings in one of these environments. Role bindings in the whole team are not listed.
	EnvironmentID []string `query:"environment_id,explode" maxItems:"50" pattern:"^[a-z0-9_]{1,64}$" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	url           url.URL
}

// Resolve keeps the URL for the link to the next page.
func (in *listBindingsInput) Resolve(ctx huma.Context) []error {
	in.url = ctx.URL()
	return nil
}

type listBindingsOutput struct {
	page.Headers
	Body []roleBinding
}

type createBindingInput struct {
	Body newBinding
}

type createBindingOutput struct {
	// The path of the new role binding.
	Location string `header:"Location"`
	Body     roleBinding
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
	Body roleBinding
}

func (h handler) listBindings(ctx context.Context, in *listBindingsInput) (*listBindingsOutput, error) {
	actor := access.From(ctx)
	f := members.BindingFilter{
		PrincipalIDs: sorted(in.PrincipalID), Roles: convert[access.Role](sorted(in.Role)),
		Environments: convert[id.Environment](sorted(in.EnvironmentID)),
	}
	scope, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	r, err := in.Parse("role-bindings\x00"+string(actor.Team)+string(scope), func(key string) bool {
		return id.Is(id.PrefixBinding, key)
	})
	if err != nil {
		return nil, err
	}
	list, err := h.identity.Members.ListBindings(ctx, actor, f, r)
	if err != nil {
		return nil, err
	}
	list, headers := page.Cut(r, list, func(b members.Binding) string { return b.ID }, in.url.Path, in.url.Query())
	return &listBindingsOutput{Headers: headers, Body: bindingsOf(list)}, nil
}

func sorted[T cmp.Ordered](values []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(values)))
}

func (h handler) createBinding(ctx context.Context, in *createBindingInput) (*createBindingOutput, error) {
	b, err := h.identity.Members.CreateBinding(ctx, access.From(ctx), in.Body.Principal.ID, members.RoleGrant{
		Role: access.Role(in.Body.Role), Environment: id.Environment(in.Body.Scope.EnvironmentID),
		ExpiresMillis: in.Body.ExpiresAt.MillisPtr(),
	})
	if err != nil {
		return nil, bodyViolation(err)
	}
	return &createBindingOutput{Location: httpapi.Prefix + "/roles/bindings/" + b.ID, Body: bindingOf(b)}, nil
}

func (h handler) getBinding(ctx context.Context, in *bindingInput) (*bindingOutput, error) {
	return bindingAnswer(h.identity.Members.GetBinding(ctx, access.From(ctx), in.ID))
}

func (h handler) updateBinding(ctx context.Context, in *updateBindingInput) (*bindingOutput, error) {
	if !in.Body.ExpiresAt.Set {
		return h.getBinding(ctx, &bindingInput{ID: in.ID})
	}
	var expires *int64
	if !in.Body.ExpiresAt.Null {
		expires = new(in.Body.ExpiresAt.Value.Millis())
	}
	out, err := bindingAnswer(h.identity.Members.UpdateBinding(ctx, access.From(ctx), in.ID, expires))
	return out, bodyViolation(err)
}

func (h handler) deleteBinding(ctx context.Context, in *bindingInput) (*struct{}, error) {
	return nil, h.identity.Members.DeleteBinding(ctx, access.From(ctx), in.ID)
}

// bodyViolation puts the validation errors that a rule found after the schema's where the body is.
func bodyViolation(err error) error {
	var e *apperr.Error
	if errors.As(err, &e) && e.Code == apperr.CodeValidation {
		return inBody(e)
	}
	return err
}

func bindingAnswer(b members.Binding, err error) (*bindingOutput, error) {
	if err != nil {
		return nil, err
	}
	return &bindingOutput{Body: bindingOf(b)}, nil
}

func bindingOf(b members.Binding) roleBinding {
	out := roleBinding{
		ID: b.ID, Principal: principal{Type: principalType(b.PrincipalKind), ID: b.PrincipalID}, Role: string(b.Role),
		RoleName: b.RoleName, Scope: scopeOf(b.Environment), CreatedAt: httpapi.TimeMillis(b.CreatedMillis),
		ExpiresAt: httpapi.TimePtr(b.ExpiresMillis),
	}
	if b.ManagedBy != "" {
		out.ManagedBy = &b.ManagedBy
	}
	return out
}

func bindingsOf(list []members.Binding) []roleBinding {
	out := make([]roleBinding, 0, len(list))
	for _, b := range list {
		out = append(out, bindingOf(b))
	}
	return out
}
