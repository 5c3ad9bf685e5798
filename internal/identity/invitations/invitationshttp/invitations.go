// Package invitationshttp serves invitations to the team over HTTP, and the page that their links open.
package invitationshttp

import (
	"context"
	"net/http"
	"strings"

	"sallyport/internal/identity/invitations"
	"sallyport/internal/identity/signin/passwordpage"
	"sallyport/internal/identity/wire"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/secretbox"
)

const (
	tag            = "Team"
	collectionPath = "/team/invitations"
	itemPath       = collectionPath + "/{id}"
	acceptPath     = collectionPath + "/{token}/accept"
)

type handlers struct{ svc *invitations.Service }

// mount adds the operations on invitations to the API.
func mount(api *httpapi.API, svc *invitations.Service) {
	h := &handlers{svc: svc}
	httpapi.Register(api, httpapi.Operation{
		ID: "create-invitation", Method: http.MethodPost, Path: collectionPath, Tag: tag, Status: http.StatusCreated,
		Permission: access.MembersWrite, Summary: "Invite a user",
		Example: `{"email": "grace@example.test", "role": "developer", "scope": {"team": true}}`,
		Description: "Invites a user to the team, with a role in the whole team or in one environment. The response " +
			"contains a link with which the user chooses a password. The link is shown only in this response and works once. " +
			"If a mail server is configured, the link is also mailed to the user.\n\n" +
			"You need `roles:write` too, and you cannot grant permissions that you do not hold there yourself: that is " +
			"`privilege_escalation`. This is checked again when the link is used. A team can have 500 pending invitations, " +
			"one for each address.",
		Errors: []apperr.Code{apperr.CodePrivilegeEscalation, apperr.CodeMemberExists, apperr.CodeInvitationPending,
			apperr.CodeInvitationsLimit},
	}, h.create)
	httpapi.RegisterList(api, httpapi.Operation{
		ID: "list-invitations", Method: http.MethodGet, Path: collectionPath, Tag: tag, Status: http.StatusOK,
		Permission: access.MembersRead, Summary: "List invitations",
		Description: "Returns the invitations of the team, newest first, without their links. An invitation is listed for " +
			"90 days after `expires_at`.",
	}, httpapi.List[listInput, invitations.Invitation, Invitation]{Rows: h.list,
		Key: func(i *invitations.Invitation) string { return i.ID }, IsKey: id.Matcher(id.PrefixInvitation),
		View: func(_ context.Context, i *invitations.Invitation) Invitation { return viewInvitation(*i) }})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-invitation", Method: http.MethodGet, Path: itemPath, Tag: tag, Status: http.StatusOK,
		Permission: access.MembersRead, Summary: "Get an invitation",
		Description: "Returns an invitation without its link.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.get)
	httpapi.Register(api, httpapi.Operation{
		ID: "revoke-invitation", Method: http.MethodDelete, Path: itemPath, Tag: tag,
		Status: http.StatusNoContent, Permission: access.MembersWrite, Summary: "Revoke an invitation",
		Description: "Revokes the invitation immediately and permanently. Its link stops working, and a mail that has not " +
			"been sent yet is not sent.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeInvitationEnded},
	}, h.revoke)
	httpapi.Register(api, httpapi.Operation{
		ID: "resend-invitation", Method: http.MethodPost, Path: itemPath + "/resend", Tag: tag,
		Status: http.StatusOK, Permission: access.MembersWrite, Summary: "Create a new link for an invitation",
		Messages: map[apperr.Code][]string{
			apperr.CodeRateLimited: {
				"The link was made just now; try again later",
			},
		},
		Description: "Creates a new link that works for seven days, also for an expired invitation, and mails it if a mail " +
			"server is configured. The previous link stops working. The caller becomes the user who invites; see " +
			"`create-invitation`. The request is rejected within a minute after the previous link.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeInvitationEnded, apperr.CodePrivilegeEscalation,
			apperr.CodeMemberExists, apperr.CodeInvitationPending, apperr.CodeInvitationsLimit, apperr.CodeRateLimited},
	}, h.resend)
	httpapi.Register(api, httpapi.Operation{
		ID: "accept-invitation", Method: http.MethodPost, Path: acceptPath, Tag: tag,
		Status: http.StatusCreated, Public: true, Summary: "Accept an invitation",
		Messages: map[apperr.Code][]string{
			apperr.CodeUnauthorized: {
				"The invitation link is not valid: it was used or revoked, or it expired",
			},
			apperr.CodeRateLimited: {
				"Too many attempts; try again later",
			},
		},
		Description: "Makes the holder of the token a member with the password that they choose. The new member then signs " +
			"in with `POST /team/login`. The token works once, and only while the user who invited can grant the role. A " +
			"token that does not work, for any reason, is `unauthorized`.",
		Errors: []apperr.Code{apperr.CodeUnauthorized, apperr.CodeRateLimited},
	}, h.accept)
	api.Handle("GET "+invitations.Page, passwordpage.Handler("Join the team", acceptPath,
		"Welcome. You can sign in."))
}

type newInvitation struct {
	// The e-mail address with which the invited user signs in. Case-insensitive.
	Email string `json:"email" minLength:"3" maxLength:"254" example:"grace@example.test"`
	// The id of the role that the user gets: the name of a system role, or the id of a custom role.
	Role string `json:"role" minLength:"1" example:"developer"`
	// Where the role will apply.
	Scope wire.Scope `json:"scope"`
	// When the link stops working; in the future, at most 30 days from now. Default: seven days from now.
	ExpiresAt *httpapi.Time `json:"expires_at,omitempty" example:"2026-11-09T09:30:00.000Z"`
}

// Check adds the errors of a scope.
func (n *newInvitation) Check(_ context.Context, v *apperr.Violations) { n.Scope.Check(v.At("scope")) }

// CheckRefused adds the errors that the service would find without the database.
func (n *newInvitation) CheckRefused(ctx context.Context, v *apperr.Violations) {
	if len(n.Email) >= 3 && len(n.Email) <= 254 { // otherwise the schema has the error
		v.AddAll(invitations.InvitationViolations(n.Email))
	}
	if n.ExpiresAt != nil {
		v.AddAll(invitations.InvitationExpiryViolations(n.ExpiresAt.Millis(), httpapi.RequestTime(ctx)))
	}
}

// Invitation is an invitation without its link. It is exported because only exported embedded structs are documented.
type Invitation struct {
	// The id of the invitation.
	ID string `json:"id" example:"inv_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The e-mail address of the invited user, in lower case.
	Email string `json:"email" example:"grace@example.test"`
	// The id of the role that the user gets: the name of a system role, or the id of a custom role.
	Role string `json:"role" example:"developer"`
	// Where the role will apply.
	Scope wire.Scope `json:"scope"`
	// The status of the invitation:
	// - `pending`: its link works.
	// - `accepted`: the user has become a member.
	// - `revoked`: it was revoked.
	// - `expired`: it was not accepted in time. `resend-invitation` creates a new link.
	Status invitations.Status `json:"status" example:"pending"`
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
	httpapi.RuleLimits
	// The password for sign-in: any characters, but not the e-mail address. It replaces the old password of a user who was
	// a member before.
	Password secretbox.Secret `json:"password" minLength:"12" maxLength:"256" format:"password" writeOnly:"true" example:"staple battery horse"`
}

// Check adds the errors of the password.
func (r *joinRequest) Check(_ context.Context, v *apperr.Violations) {
	v.AddAll(invitations.JoinViolations(r.Password))
}

type joined struct {
	// The new member.
	User wire.TeamUser `json:"user"`
	// The team that the user has joined.
	Team wire.Team `json:"team"`
}

type createInput struct {
	Body newInvitation
}

type createOutput struct {
	// The path of the new invitation.
	Location string `header:"Location"`
	Body     InvitationCreated
}

type listInput struct {
	page.Query
	// Only invitations with one of these statuses.
	Status []invitations.Status `query:"status,explode" maxItems:"50" example:"pending"`
	// Only invitations of one of these e-mail addresses. Case-insensitive.
	Email []string `query:"email,explode" maxItems:"50" minLength:"1" maxLength:"254" pattern:"^[^\\x00-\\x20]+$" example:"grace@example.test"`
}

type invitationInput struct {
	// The id of the invitation.
	ID string `path:"id" example:"inv_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type invitationOutput struct {
	Body Invitation
}

type resendOutput struct {
	Body InvitationCreated
}

type acceptInput struct {
	// The token, which is the part of the link after `#`.
	Token string `path:"token" example:"spi_3n8fj6k2q9wv5c1z7m4xg0r8bt"`
	Body  joinRequest
}

type acceptOutput struct {
	// The path of the new member.
	Location string `header:"Location"`
	Body     joined
}

func (h *handlers) create(ctx context.Context, in *createInput) (*createOutput, error) {
	sent, err := h.svc.Invite(ctx, access.From(ctx), invitations.NewInvitation{
		Email: in.Body.Email, Role: access.Role(in.Body.Role), Environment: id.Environment(in.Body.Scope.EnvironmentID),
		ExpiresMillis: in.Body.ExpiresAt.MillisPtr(),
	})
	if err != nil {
		return nil, err
	}
	return &createOutput{Location: httpapi.Prefix + collectionPath + "/" + sent.ID,
		Body: viewCreated(sent)}, nil
}

func (h *handlers) list(ctx context.Context, in *listInput, p page.Request) ([]invitations.Invitation, error) {
	f := invitations.Filter{
		Statuses: httpapi.Distinct(in.Status)}
	for _, e := range httpapi.Distinct(in.Email) {
		f.Emails = append(f.Emails, strings.ToLower(e))
	}
	return h.svc.ListInvitations(ctx, access.From(ctx), f, p)
}

func (h *handlers) get(ctx context.Context, in *invitationInput) (*invitationOutput, error) {
	i, err := h.svc.GetInvitation(ctx, access.From(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return &invitationOutput{Body: viewInvitation(i)}, nil
}

func (h *handlers) revoke(ctx context.Context, in *invitationInput) (*struct{}, error) {
	return nil, h.svc.RevokeInvitation(ctx, access.From(ctx), in.ID)
}

func (h *handlers) resend(ctx context.Context, in *invitationInput) (*resendOutput, error) {
	sent, err := h.svc.ResendInvitation(ctx, access.From(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return &resendOutput{Body: viewCreated(sent)}, nil
}

func (h *handlers) accept(ctx context.Context, in *acceptInput) (*acceptOutput, error) {
	j, err := h.svc.Join(ctx, httpapi.Client(ctx), invitations.Token(in.Token), in.Body.Password)
	if err != nil {
		return nil, err
	}
	return &acceptOutput{
		Location: httpapi.Prefix + "/team/members/" + j.User.ID,
		Body:     joined{User: wire.ViewUser(j.User), Team: wire.ViewTeam(j.Team)},
	}, nil
}

func viewCreated(s invitations.SentInvitation) InvitationCreated {
	return InvitationCreated{Invitation: viewInvitation(s.Invitation), URL: s.Link.Reveal(), Token: s.Token.Reveal(),
		Mailed: s.Mailed}
}

func viewInvitation(i invitations.Invitation) Invitation {
	out := Invitation{
		ID: i.ID, Email: i.Email, Role: string(i.Role), Scope: wire.ViewScope(i.Environment), Status: i.Status,
		InvitedBy: i.InvitedBy, CreatedAt: httpapi.TimeMillis(i.CreatedMillis), SentAt: httpapi.TimeMillis(i.SentMillis),
		ExpiresAt: httpapi.TimeMillis(i.ExpiresMillis), AcceptedAt: httpapi.TimePtr(i.AcceptedMillis),
		RevokedAt: httpapi.TimePtr(i.RevokedMillis),
	}
	if i.AcceptedBy != "" {
		out.AcceptedBy = &i.AcceptedBy
	}
	return out
}
