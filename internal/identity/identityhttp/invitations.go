package identityhttp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/identity/invitations"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/secretbox"
)

func mountInvitations(api *httpapi.API, h handler) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-invitation", Method: http.MethodPost, Path: "/team/invitations", Tag: tagTeam, Status: http.StatusCreated,
		Permission: access.MembersWrite, Summary: "Invite a user",
		Description: "Invites a user to the team, with a role in the whole team or in one environment. The response " +
			"contains a link with which the user chooses a password. The link is shown only in this response and works once. " +
			"If a mail server is configured, the link is also mailed to the user.\n\n" +
			"You need `roles:write` too, and you cannot grant permissions that you do not hold there yourself: that is " +
			"`privilege_escalation`. This is checked again when the link is used. A team can have 500 pending invitations, " +
			"one for each address.",
		Errors: []apperr.Code{apperr.CodePrivilegeEscalation, apperr.CodeMemberExists, apperr.CodeInvitationPending,
			apperr.CodeInvitationsLimit},
	}, h.createInvitation)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-invitations", Method: http.MethodGet, Path: "/team/invitations", Tag: tagTeam, Status: http.StatusOK,
		Permission: access.MembersRead, Summary: "List invitations",
		Description: "Returns the invitations of the team, newest first, without their links. An invitation is listed for " +
			"90 days after `expires_at`.",
	}, h.listInvitations)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-invitation", Method: http.MethodGet, Path: "/team/invitations/{id}", Tag: tagTeam, Status: http.StatusOK,
		Permission: access.MembersRead, Summary: "Get an invitation",
		Description: "Returns an invitation without its link.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.getInvitation)
	httpapi.Register(api, httpapi.Operation{
		ID: "revoke-invitation", Method: http.MethodDelete, Path: "/team/invitations/{id}", Tag: tagTeam,
		Status: http.StatusNoContent, Permission: access.MembersWrite, Summary: "Revoke an invitation",
		Description: "Revokes the invitation immediately and permanently. Its link stops working, and a mail that has not " +
			"been sent yet is not sent.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeInvitationEnded},
	}, h.revokeInvitation)
	httpapi.Register(api, httpapi.Operation{
		ID: "resend-invitation", Method: http.MethodPost, Path: "/team/invitations/{id}/resend", Tag: tagTeam,
		Status: http.StatusOK, Permission: access.MembersWrite, Summary: "Create a new link for an invitation",
		Description: "Creates a new link that works for seven days, also for an expired invitation, and mails it if a mail " +
			"server is configured. The previous link stops working. The caller becomes the user who invites; see " +
			"`create-invitation`. The request is rejected within a minute after the previous link.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeInvitationEnded, apperr.CodePrivilegeEscalation,
			apperr.CodeMemberExists, apperr.CodeInvitationPending, apperr.CodeInvitationsLimit, apperr.CodeRateLimited},
	}, h.resendInvitation)
	httpapi.Register(api, httpapi.Operation{
		ID: "accept-invitation", Method: http.MethodPost, Path: "/team/invitations/{token}/accept", Tag: tagTeam,
		Status: http.StatusCreated, Public: true, Summary: "Accept an invitation",
		Description: "Makes the holder of the token a member with the password that they choose. The new member then signs " +
			"in with `POST /team/login`. The token works once, and only while the user who invited can grant the role. A " +
			"token that does not work, for any reason, is `unauthorized`.",
		Errors: []apperr.Code{apperr.CodeUnauthorized, apperr.CodeRateLimited},
	}, h.acceptInvitation)
	api.Handle("GET "+invitations.InvitationPage, passwordPage("Join the team", "/team/invitations/{token}/accept",
		"Welcome. You can sign in."))
}

type newInvitation struct {
	// The e-mail address with which the invited user signs in. Case-insensitive.
	Email string `json:"email" minLength:"3" maxLength:"254" example:"grace@example.test"`
	// The id of the role that the user gets: the name of a system role, or the id of a custom role.
	Role string `json:"role" minLength:"1" example:"developer"`
	// Where the role will apply.
	Scope scope `json:"scope"`
	// When the link stops working; in the future, at most 30 days from now. Default: seven days from now.
	ExpiresAt *httpapi.Time `json:"expires_at,omitempty" example:"2026-11-09T09:30:00.000Z"`
}

// Resolve has the rules look at a body of the wrong shape too.
func (n *newInvitation) Resolve(ctx huma.Context) []error {
	httpapi.OnRefusal(ctx, func(v *apperr.Violations) {
		var violations []apperr.Detail
		if len(n.Email) >= 3 && len(n.Email) <= 254 { // else the schema says so
			violations = invitations.InvitationViolations(n.Email)
		}
		if n.ExpiresAt != nil {
			violations = append(violations, invitations.InvitationExpiryViolations(n.ExpiresAt.Millis(),
				httpapi.RequestTime(ctx.Context()))...)
		}
		v.At("body").AddAll(violations)
	})
	return nil
}

// Invitation asks somebody into the team.
type Invitation struct {
	// The id of the invitation.
	ID string `json:"id" example:"inv_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The e-mail address of the invited user, in lower case.
	Email string `json:"email" example:"grace@example.test"`
	// The id of the role that the user gets: the name of a system role, or the id of a custom role.
	Role string `json:"role" example:"developer"`
	// Where the role will apply.
	Scope scope `json:"scope"`
	// The status of the invitation:
	// - `pending`: its link works.
	// - `accepted`: the user has become a member.
	// - `revoked`: it was revoked.
	// - `expired`: it was not accepted in time. `resend-invitation` creates a new link.
	Status invitationStatus `json:"status" example:"pending"`
	// The id of the user who created the newest link.
	InvitedBy string `json:"invited_by" example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// When the invitation was created.
	CreatedAt httpapi.Time `json:"created_at" example:"2026-11-02T09:30:00.000Z"`
	// When the newest link was created.
	SentAt httpapi.Time `json:"sent_at" example:"2026-11-02T09:30:00.000Z"`
	// When the newest link stops working.
	ExpiresAt httpapi.Time `json:"expires_at" example:"2026-11-09T09:30:00.000Z"`
	// When the invitation was accepted; `null` if it was not.
	AcceptedAt *httpapi.Time `json:"accepted_at" nullable:"true" example:"2026-11-03T09:30:00.000Z"`
	// The id of the user who accepted the invitation; `null` if it was not accepted.
	AcceptedBy *string `json:"accepted_by" nullable:"true" example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9s"`
	// When the invitation was revoked; `null` if it was not.
	RevokedAt *httpapi.Time `json:"revoked_at" nullable:"true" example:"2026-11-03T09:30:00.000Z"`
}

// InvitationCreated is an invitation with its new link, which is shown once.
type InvitationCreated struct {
	Invitation
	// Generated: the link to the page where the invited user chooses a password. It works once and is shown only in this
	// response.
	URL string `json:"url" readOnly:"true" example:"https://gateway.example.com/invitation#spi_3n8fj6k2q9wv5c1z7m4xg0r8bt"`
	// Generated: the token for `accept-invitation`, which is the part of the link after `#`.
	Token string `json:"token" readOnly:"true" example:"spi_3n8fj6k2q9wv5c1z7m4xg0r8bt"`
	// Whether the link is being mailed to the address. `false` if no mail server is configured; then pass the link on
	// yourself.
	Mailed bool `json:"mailed" example:"true"`
}

type joinRequest struct {
	// The password for sign-in: any characters, but not the e-mail address. It replaces the old password of a user who was
	// a member before.
	Password secretbox.Secret `json:"password" minLength:"12" maxLength:"256" format:"password" writeOnly:"true" example:"staple battery horse"`
}

// TransformSchema documents the limits of the body and leaves checking them to the domain.
func (*joinRequest) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return httpapi.DocumentOnly(s)
}

// Resolve checks the limits together with what no schema can say.
func (r *joinRequest) Resolve(_ huma.Context, prefix *huma.PathBuffer) []error {
	return violationsAt(prefix.String(), invitations.JoinViolations(r.Password))
}

type joined struct {
	// The new member.
	User teamUser `json:"user"`
	// The team that the user has joined.
	Team team `json:"team"`
}

type createInvitationInput struct {
	Body newInvitation
}

type createInvitationOutput struct {
	// The path of the new invitation.
	Location string `header:"Location"`
	Body     InvitationCreated
}

type listInvitationsInput struct {
	page.Query
	// Only invitations with one of these statuses.
	Status []invitationStatus `query:"status,explode" maxItems:"50" example:"pending"`
	// Only invitations of one of these e-mail addresses. Case-insensitive.
	Email []string `query:"email,explode" maxItems:"50" minLength:"1" maxLength:"254" pattern:"^[^\\x00-\\x20]+$" example:"grace@example.test"`
	url   url.URL
}

// Resolve keeps the URL for the link to the next page.
func (in *listInvitationsInput) Resolve(ctx huma.Context) []error {
	in.url = ctx.URL()
	return nil
}

type listInvitationsOutput struct {
	page.Headers
	Body []Invitation
}

type invitationInput struct {
	// The id of the invitation.
	ID string `path:"id" example:"inv_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type invitationOutput struct {
	Body Invitation
}

type resendInvitationOutput struct {
	Body InvitationCreated
}

type acceptInvitationInput struct {
	// The token, which is the part of the link after `#`.
	Token string `path:"token" example:"spi_3n8fj6k2q9wv5c1z7m4xg0r8bt"`
	Body  joinRequest
}

type acceptInvitationOutput struct {
	// The path of the new member.
	Location string `header:"Location"`
	Body     joined
}

func (h handler) createInvitation(ctx context.Context, in *createInvitationInput) (*createInvitationOutput, error) {
	sent, err := h.identity.Invitations.Invite(ctx, access.From(ctx), invitations.NewInvitation{
		Email: in.Body.Email, Role: access.Role(in.Body.Role), Environment: id.Environment(in.Body.Scope.EnvironmentID),
		ExpiresMillis: in.Body.ExpiresAt.MillisPtr(),
	})
	if err != nil {
		return nil, bodyViolation(err)
	}
	return &createInvitationOutput{Location: httpapi.Prefix + "/team/invitations/" + sent.ID,
		Body: invitationCreatedOf(sent)}, nil
}

func (h handler) listInvitations(ctx context.Context, in *listInvitationsInput) (*listInvitationsOutput, error) {
	actor := access.From(ctx)
	f := invitations.InvitationFilter{Statuses: convert[invitations.InvitationStatus](sorted(in.Status))}
	for _, e := range sorted(in.Email) {
		f.Emails = append(f.Emails, strings.ToLower(e))
	}
	scope, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	r, err := in.Parse("invitations\x00"+string(actor.Team)+string(scope), func(key string) bool {
		return id.Is(id.PrefixInvitation, key)
	})
	if err != nil {
		return nil, err
	}
	list, err := h.identity.Invitations.ListInvitations(ctx, actor, f, r)
	if err != nil {
		return nil, err
	}
	list, headers := page.Cut(r, list, func(i invitations.Invitation) string { return i.ID }, in.url.Path, in.url.Query())
	out := &listInvitationsOutput{Headers: headers, Body: make([]Invitation, 0, len(list))}
	for i := range list {
		out.Body = append(out.Body, invitationOf(list[i]))
	}
	return out, nil
}

func (h handler) getInvitation(ctx context.Context, in *invitationInput) (*invitationOutput, error) {
	i, err := h.identity.Invitations.GetInvitation(ctx, access.From(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return &invitationOutput{Body: invitationOf(i)}, nil
}

func (h handler) revokeInvitation(ctx context.Context, in *invitationInput) (*struct{}, error) {
	return nil, h.identity.Invitations.RevokeInvitation(ctx, access.From(ctx), in.ID)
}

func (h handler) resendInvitation(ctx context.Context, in *invitationInput) (*resendInvitationOutput, error) {
	sent, err := h.identity.Invitations.ResendInvitation(ctx, access.From(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return &resendInvitationOutput{Body: invitationCreatedOf(sent)}, nil
}

func (h handler) acceptInvitation(ctx context.Context, in *acceptInvitationInput) (*acceptInvitationOutput, error) {
	j, err := h.identity.Invitations.Join(ctx, clientOf(ctx), invitations.InvitationToken(in.Token), in.Body.Password)
	if err != nil {
		return nil, bodyViolation(err)
	}
	return &acceptInvitationOutput{
		Location: httpapi.Prefix + "/team/members/" + j.User.ID,
		Body:     joined{User: teamUser{ID: j.User.ID, Email: j.User.Email}, Team: teamOf(j.Team)},
	}, nil
}

func invitationCreatedOf(s invitations.SentInvitation) InvitationCreated {
	return InvitationCreated{Invitation: invitationOf(s.Invitation), URL: s.Link.Reveal(), Token: s.Token.Reveal(),
		Mailed: s.Mailed}
}

func invitationOf(i invitations.Invitation) Invitation {
	out := Invitation{
		ID: i.ID, Email: i.Email, Role: string(i.Role), Scope: scopeOf(i.Environment), Status: invitationStatus(i.Status),
		InvitedBy: i.InvitedBy, CreatedAt: httpapi.TimeMillis(i.CreatedMillis), SentAt: httpapi.TimeMillis(i.SentMillis),
		ExpiresAt: httpapi.TimeMillis(i.ExpiresMillis), AcceptedAt: httpapi.TimePtr(i.AcceptedMillis),
		RevokedAt: httpapi.TimePtr(i.RevokedMillis),
	}
	if i.AcceptedBy != "" {
		out.AcceptedBy = &i.AcceptedBy
	}
	return out
}
