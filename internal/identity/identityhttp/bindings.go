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

	"sallyport/internal/identity"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

func mountBindings(api *httpapi.API, h handler) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-role-bindings", Method: http.MethodGet, Path: "/roles/bindings", Tag: tagRoles, Status: http.StatusOK,
		Permission: access.RolesRead, Summary: "List who has which role",
		Description: "Returns the role bindings of the team that hold now, newest first. Expired ones are gone.",
	}, h.listBindings)
	httpapi.Register(api, httpapi.Operation{
		ID: "create-role-binding", Method: http.MethodPost, Path: "/roles/bindings", Tag: tagRoles,
		Status: http.StatusCreated, Permission: access.RolesWrite, Summary: "Give a role",
		Description: "Gives a member a role in the whole team or in one environment, for ever or until a time. Whoever " +
			"gives it holds all " +
			"that it permits there, for as long, or it is `privilege_escalation`. Owners are owners of the whole team. A " +
			"member has up to 100 roles.",
		Errors: []apperr.Code{apperr.CodePrivilegeEscalation, apperr.CodeRoleBindingExists, apperr.CodeRolesLimit},
	}, h.createBinding)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-role-binding", Method: http.MethodGet, Path: "/roles/bindings/{id}", Tag: tagRoles, Status: http.StatusOK,
		Permission: access.RolesRead, Summary: "Show a role binding",
		Description: "Returns the role binding.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.getBinding)
	httpapi.Register(api, httpapi.Operation{
		ID: "update-role-binding", Method: http.MethodPatch, Path: "/roles/bindings/{id}", Tag: tagRoles,
		Status: http.StatusOK, Permission: access.RolesWrite, Summary: "Change when a role ends",
		Description: "Changes the fields given and keeps the others (RFC 7396). Making a role last longer is giving it " +
			"again: see " +
			"create-role-binding. That of the last owner who is one for ever cannot be made to end, and one that an identity " +
			"provider gives ends " +
			"when the provider says so.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodePrivilegeEscalation, apperr.CodeLastOwner,
			apperr.CodeRoleBindingManaged},
	}, h.updateBinding)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-role-binding", Method: http.MethodDelete, Path: "/roles/bindings/{id}", Tag: tagRoles,
		Status: http.StatusNoContent, Permission: access.RolesWrite, Summary: "Take a role",
		Description: "Takes the role from the member with their next request; streams that it let them open end within " +
			"five seconds. Of " +
			"owners only owners can, and never of the last one who is an owner for ever. What an identity provider gave it " +
			"gives again with " +
			"the next sign-in through it, if the member's groups still say so.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeLastOwner},
	}, h.deleteBinding)
}

// scope says where a role holds. It has one of its fields.
type scope struct {
	// True for the whole team, with all its environments; else absent.
	Team bool `json:"team,omitempty" enum:"true" example:"true"`
	// The one environment; absent for the whole team.
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
	// What it is. user: a member of the team.
	Type principalType `json:"type" example:"user"`
	// Its id.
	ID string `json:"id" minLength:"1" example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type newBinding struct {
	// Who gets the role.
	Principal principal `json:"principal"`
	// The role's id: the name of a system role, or the id of a custom one.
	Role string `json:"role" minLength:"1" example:"developer"`
	// Where the role is to hold.
	Scope scope `json:"scope"`
	// When the role ends by itself; in the future. Default never.
	ExpiresAt *httpapi.Time `json:"expires_at,omitempty" example:"2026-12-02T09:30:00.000Z"`
}

// Resolve has the rules look at a body of the wrong shape too.
func (n *newBinding) Resolve(ctx huma.Context) []error {
	if n.ExpiresAt != nil {
		httpapi.OnRefusal(ctx, func(f *apperr.Faults) {
			addInBody(f, identity.BindingExpiryFaults(n.ExpiresAt.Millis(), httpapi.RequestTime(ctx.Context())))
		})
	}
	return nil
}

type bindingPatch struct {
	// When the role ends by itself; in the future. null for never. Default: what it is now.
	ExpiresAt httpapi.Nullable[httpapi.Time] `json:"expires_at,omitempty" example:"2026-12-02T09:30:00.000Z"`
}

type roleBinding struct {
	// The binding's id.
	ID string `json:"id" example:"rbd_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// Who has the role.
	Principal principal `json:"principal"`
	// The role's id: the name of a system role, or the id of a custom one.
	Role string `json:"role" example:"developer"`
	// The role's name.
	RoleName string `json:"role_name" example:"developer"`
	// Where the role holds.
	Scope scope `json:"scope"`
	// When the role was given.
	CreatedAt httpapi.Time `json:"created_at" example:"2026-11-02T09:30:00.000Z"`
	// When the role ends by itself; null for never.
	ExpiresAt *httpapi.Time `json:"expires_at" nullable:"true" example:"2026-12-02T09:30:00.000Z"`
	// The id of the identity provider whose groups give the role and take it; null for what people gave.
	ManagedBy *string `json:"managed_by" nullable:"true" example:"sso_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type listBindingsInput struct {
	page.Query
	// Only roles of these principals.
	PrincipalID []string `query:"principal_id,explode" maxItems:"50" pattern:"^[a-z0-9_]{1,64}$" example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// Only these roles, by their ids.
	Role []string `query:"role,explode" maxItems:"50" pattern:"^[a-z0-9_]{1,64}$" example:"developer"`
	// Only roles that hold in one of these environments alone.
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
	// The role binding's id.
	ID string `path:"id" example:"rbd_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type updateBindingInput struct {
	// The role binding's id.
	ID   string `path:"id" example:"rbd_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Body bindingPatch
}

type bindingOutput struct {
	Body roleBinding
}

func (h handler) listBindings(ctx context.Context, in *listBindingsInput) (*listBindingsOutput, error) {
	actor := access.From(ctx)
	f := identity.BindingFilter{
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
	list, err := h.identity.ListBindings(ctx, actor, f, r)
	if err != nil {
		return nil, err
	}
	list, headers := page.Cut(r, list, func(b identity.Binding) string { return b.ID }, in.url.Path, in.url.Query())
	return &listBindingsOutput{Headers: headers, Body: bindingsOf(list)}, nil
}

func sorted[T cmp.Ordered](values []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(values)))
}

func (h handler) createBinding(ctx context.Context, in *createBindingInput) (*createBindingOutput, error) {
	b, err := h.identity.CreateBinding(ctx, access.From(ctx), in.Body.Principal.ID, identity.RoleGrant{
		Role: access.Role(in.Body.Role), Environment: id.Environment(in.Body.Scope.EnvironmentID),
		ExpiresMillis: in.Body.ExpiresAt.MillisPtr(),
	})
	if err != nil {
		return nil, bodyFault(err)
	}
	return &createBindingOutput{Location: httpapi.Prefix + "/roles/bindings/" + b.ID, Body: bindingOf(b)}, nil
}

func (h handler) getBinding(ctx context.Context, in *bindingInput) (*bindingOutput, error) {
	return bindingAnswer(h.identity.GetBinding(ctx, access.From(ctx), in.ID))
}

func (h handler) updateBinding(ctx context.Context, in *updateBindingInput) (*bindingOutput, error) {
	if !in.Body.ExpiresAt.Set {
		return h.getBinding(ctx, &bindingInput{ID: in.ID})
	}
	var expires *int64
	if !in.Body.ExpiresAt.Null {
		expires = new(in.Body.ExpiresAt.Value.Millis())
	}
	out, err := bindingAnswer(h.identity.UpdateBinding(ctx, access.From(ctx), in.ID, expires))
	return out, bodyFault(err)
}

func (h handler) deleteBinding(ctx context.Context, in *bindingInput) (*struct{}, error) {
	return nil, h.identity.DeleteBinding(ctx, access.From(ctx), in.ID)
}

// bodyFault puts the faults that a rule found after the schema's where the body is.
func bodyFault(err error) error {
	var e *apperr.Error
	if errors.As(err, &e) && e.Code == apperr.CodeValidation {
		return inBody(e)
	}
	return err
}

func bindingAnswer(b identity.Binding, err error) (*bindingOutput, error) {
	if err != nil {
		return nil, err
	}
	return &bindingOutput{Body: bindingOf(b)}, nil
}

func bindingOf(b identity.Binding) roleBinding {
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

func bindingsOf(list []identity.Binding) []roleBinding {
	out := make([]roleBinding, 0, len(list))
	for _, b := range list {
		out = append(out, bindingOf(b))
	}
	return out
}
