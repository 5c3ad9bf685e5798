// Package membershttp serves the members of the team, their roles and the roles themselves over HTTP.
package membershttp

import (
	"context"
	"net/http"
	"strings"

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
	tagTeam     = "Team"
	membersPath = "/team/members"
	memberPath  = membersPath + "/{id}"
)

type handlers struct{ svc *members.Service }

// mount adds the operations on members, roles and role bindings to the API.
func mount(api *httpapi.API, svc *members.Service) {
	h := &handlers{svc: svc}
	h.mountMembers(api)
	h.mountRoles(api)
	h.mountBindings(api)
}

func (h *handlers) mountMembers(api *httpapi.API) {
	httpapi.RegisterList(api, httpapi.Operation{
		ID: "list-members", Method: http.MethodGet, Path: membersPath, Tag: tagTeam, Status: http.StatusOK,
		Permission: access.MembersRead, Summary: "List members",
		Description: "Returns the members of the team with their present roles, newest user first.",
	}, httpapi.List[listMembersInput, members.Member, member]{Rows: h.listMembers,
		Key: func(m *members.Member) string { return m.User.ID }, IsKey: id.Matcher(id.PrefixUser),
		View: func(_ context.Context, m *members.Member) member { return viewMember(*m) }})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-member", Method: http.MethodGet, Path: memberPath, Tag: tagTeam, Status: http.StatusOK,
		Permission: access.MembersRead, Summary: "Get a member",
		Description: "Returns a member with their present roles.",
		Errors:      []apperr.Code{apperr.CodeNotFound}, IfNoneMatch: true,
	}, h.getMember)
	httpapi.Register(api, httpapi.Operation{
		ID: "update-member", Method: http.MethodPatch, Path: memberPath, Tag: tagTeam, Status: http.StatusOK,
		Permission: access.MembersWrite, Summary: "Disable or enable a member",
		Description: "Applies a merge patch (RFC 7396): absent fields stay. Disabling ends the member's sessions " +
			"immediately. Their roles are kept until they are enabled again. Enabling has the same conditions as granting " +
			"these roles; see `create-role-binding`. Only owners can disable an owner, and never the last permanent owner.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodePrivilegeEscalation, apperr.CodeLastOwner}, IfMatch: true,
	}, h.updateMember)
	httpapi.Register(api, httpapi.Operation{
		ID: "remove-member", Method: http.MethodDelete, Path: memberPath, Tag: tagTeam,
		Status: http.StatusNoContent, Permission: access.MembersWrite, Summary: "Remove a member",
		Description: "Removes the user from the team with all their roles and ends their sessions immediately. Everything " +
			"that they created is kept. Only owners can remove an owner, and never the last permanent owner.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeLastOwner}, IfMatch: true,
	}, h.removeMember)
}

type member struct {
	// The id of the user.
	ID string `json:"id" example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The user's e-mail address, in lower case.
	Email string `json:"email" example:"ada@example.test"`
	// The present roles of the member, oldest first.
	RoleBindings []wire.RoleBinding `json:"role_bindings"`
	// Whether the member is disabled and cannot sign in.
	Disabled bool `json:"disabled" example:"false"`
	// When the member was disabled; `null` if they are not disabled.
	DisabledAt *httpapi.Time `json:"disabled_at" nullable:"true" example:"2026-12-24T18:00:00.000Z"`
	// When the user joined the team.
	JoinedAt httpapi.Time `json:"joined_at" example:"2026-11-02T09:30:00.000Z"`
}

type memberPatch struct {
	// Whether the member is disabled and cannot sign in. Default: unchanged.
	Disabled patch.Optional[bool] `json:"disabled,omitempty" example:"true"`
}

type listMembersInput struct {
	page.Query
	// Only members with one of these e-mail addresses. Case-insensitive.
	Email []string `query:"email,explode" maxItems:"50" minLength:"1" maxLength:"254" pattern:"^[^\\x00-\\x20]+$" example:"ada@example.test"`
	// Only members who have one of the roles with these ids now, in any scope.
	Role []string `query:"role,explode" maxItems:"50" pattern:"^[a-z0-9_]{1,64}$" example:"developer"`
	// `true`: only disabled members. `false`: only members who are not disabled.
	Disabled []string `query:"disabled,explode" enum:"true,false" maxItems:"50" example:"false"`
}

type memberInput struct {
	// The id of the user.
	ID string `path:"id" example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type updateMemberInput struct {
	// The id of the user.
	ID   string `path:"id" example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Body memberPatch
}

type memberOutput struct {
	httpapi.Versioned
	Body member
}

func (h *handlers) listMembers(ctx context.Context, in *listMembersInput, p page.Request) ([]members.Member, error) {
	f := members.MemberFilter{Roles: httpapi.ConvertAll[access.Role](httpapi.Distinct(in.Role))}
	if values := httpapi.Distinct(in.Disabled); len(values) == 1 { // both restrict nothing
		f.Disabled = new(values[0] == "true")
	}
	for _, e := range httpapi.Distinct(in.Email) {
		f.Emails = append(f.Emails, strings.ToLower(e))
	}
	return h.svc.ListMembers(ctx, access.From(ctx), f, p)
}

func (h *handlers) getMember(ctx context.Context, in *memberInput) (*memberOutput, error) {
	return respondMember(h.svc.GetMember(ctx, access.From(ctx), in.ID))
}

func (h *handlers) updateMember(ctx context.Context, in *updateMemberInput) (*memberOutput, error) {
	if !in.Body.Disabled.Set {
		out, err := h.getMember(ctx, &memberInput{ID: in.ID})
		return httpapi.Unchanged(ctx, out, err)
	}
	return respondMember(h.svc.SetMemberDisabled(ctx, access.From(ctx), in.ID, in.Body.Disabled.Value))
}

func (h *handlers) removeMember(ctx context.Context, in *memberInput) (*struct{}, error) {
	return nil, h.svc.RemoveMember(ctx, access.From(ctx), in.ID)
}

func respondMember(m members.Member, err error) (*memberOutput, error) {
	if err != nil {
		return nil, err
	}
	return &memberOutput{Versioned: httpapi.Version(m.Version()), Body: viewMember(m)}, nil
}

func viewMember(m members.Member) member {
	return member{
		ID: m.User.ID, Email: m.User.Email, RoleBindings: wire.ViewRoleBindings(m.Bindings),
		Disabled: m.DisabledMillis != nil, DisabledAt: httpapi.TimePtr(m.DisabledMillis),
		JoinedAt: httpapi.TimeMillis(m.JoinedMillis),
	}
}
