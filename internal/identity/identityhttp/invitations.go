package identityhttp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/identity"
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
		Permission: access.MembersWrite, Summary: "Invite somebody",
		Description: "Asks somebody into the team, with a role in the whole team or in one environment. The answer has " +
			"the link that they open to " +
			"choose a password; it is shown this once and works once. Where a mail server is configured it is also mailed to " +
			"them. Whoever invites " +
			"needs `roles:write` too, and holds all that the role permits there, or it is `privilege_escalation`; when the " +
			"link is used that is checked again. " +
			"A team has up to 500 invitations that wait for an answer, an address one.",
		Errors: []apperr.Code{apperr.CodePrivilegeEscalation, apperr.CodeMemberExists, apperr.CodeInvitationPending,
			apperr.CodeInvitationsLimit},
	}, h.createInvitation)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-invitations", Method: http.MethodGet, Path: "/team/invitations", Tag: tagTeam, Status: http.StatusOK,
		Permission: access.MembersRead, Summary: "List invitations",
		Description: "Returns the invitations of the team, newest first, without their links. They stay listed for 90 " +
			"days after `expires_at`.",
	}, h.listInvitations)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-invitation", Method: http.MethodGet, Path: "/team/invitations/{id}", Tag: tagTeam, Status: http.StatusOK,
		Permission: access.MembersRead, Summary: "Show an invitation",
		Description: "Returns the invitation, without its link.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.getInvitation)
	httpapi.Register(api, httpapi.Operation{
		ID: "revoke-invitation", Method: http.MethodDelete, Path: "/team/invitations/{id}", Tag: tagTeam,
		Status: http.StatusNoContent, Permission: access.MembersWrite, Summary: "Revoke an invitation",
		Description: "Makes the invitation's link worth nothing at once, for good. A mail that has not left is not sent.",
		Errors:      []apperr.Code{apperr.CodeNotFound, apperr.CodeInvitationEnded},
	}, h.revokeInvitation)
	httpapi.Register(api, httpapi.Operation{
		ID: "resend-invitation", Method: http.MethodPost, Path: "/team/invitations/{id}/resend", Tag: tagTeam,
		Status: http.StatusOK, Permission: access.MembersWrite, Summary: "Make another link for an invitation",
		Description: "Makes another link, for seven days from now, also for an invitation that has expired, and mails it " +
			"where a mail server is " +
			"configured. The link before works no more. Whoever does this is who invites from then on: see " +
			"create-invitation. It is " +
			"refused within a minute of the link before.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeInvitationEnded, apperr.CodePrivilegeEscalation,
			apperr.CodeMemberExists, apperr.CodeInvitationPending, apperr.CodeInvitationsLimit, apperr.CodeRateLimited},
	}, h.resendInvitation)
	httpapi.Register(api, httpapi.Operation{
		ID: "accept-invitation", Method: http.MethodPost, Path: "/team/invitations/{token}/accept", Tag: tagTeam,
		Status: http.StatusCreated, Public: true, Summary: "Accept an invitation",
		Description: "Makes a member of whoever has the token, with the password that they choose, who then signs in by " +
			"`POST /team/login`. Any token that does not " +
			"work, for whatever reason, is `unauthorized`. It works once, as long as who invited may give the role.",
		Errors: []apperr.Code{apperr.CodeUnauthorized, apperr.CodeRateLimited},
	}, h.acceptInvitation)
	api.Handle("GET "+identity.InvitationPage, passwordPage("Join the team", "/team/invitations/{token}/accept",
		"Welcome. You can sign in."))
}

type newInvitation struct {
	// The e-mail address of who is invited, to sign in with. Case does not matter.
	Email string `json:"email" minLength:"3" maxLength:"254" example:"grace@example.test"`
	// The id of the role that they get: the name of a system role, or the id of a custom one.
	Role string `json:"role" minLength:"1" example:"developer"`
	// Where the role will hold.
	Scope scope `json:"scope"`
	// When the link stops working; in the future, by 30 days at most. Default seven days from now.
	ExpiresAt *httpapi.Time `json:"expires_at,omitempty" example:"2026-11-09T09:30:00.000Z"`
}

// Resolve has the rules look at a body of the wrong shape too.
func (n *newInvitation) Resolve(ctx huma.Context) []error {
	httpapi.OnRefusal(ctx, func(f *apperr.Faults) {
		var faults []apperr.Detail
		if len(n.Email) >= 3 && len(n.Email) <= 254 { // else the schema says so
			faults = identity.InvitationFaults(n.Email)
		}
		if n.ExpiresAt != nil {
			faults = append(faults, identity.InvitationExpiryFaults(n.ExpiresAt.Millis(), httpapi.RequestTime(ctx.Context()))...)
		}
		addInBody(f, faults)
	})
	return nil
}

// Invitation asks somebody into the team.
type Invitation struct {
	// The invitation's id.
	ID string `json:"id" example:"inv_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The e-mail address of who is invited, in lower case.
	Email string `json:"email" example:"grace@example.test"`
	// The id of the role that they get: the name of a system role, or the id of a custom one.
	Role string `json:"role" example:"developer"`
	// Where the role will hold.
	Scope scope `json:"scope"`
	// What has become of it. pending: its link works. accepted: somebody has become a member by it. revoked: it was taken
	// back. expired: nobody came in time; resend-invitation makes another link.
	Status invitationStatus `json:"status" example:"pending"`
	// The id of the user who made the newest link.
	InvitedBy string `json:"invited_by" example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// When the invitation was made.
	CreatedAt httpapi.Time `json:"created_at" example:"2026-11-02T09:30:00.000Z"`
	// When its newest link was made.
	SentAt httpapi.Time `json:"sent_at" example:"2026-11-02T09:30:00.000Z"`
	// When that link stops working.
	ExpiresAt httpapi.Time `json:"expires_at" example:"2026-11-09T09:30:00.000Z"`
	// When it was accepted; null if it was not.
	AcceptedAt *httpapi.Time `json:"accepted_at" nullable:"true" example:"2026-11-03T09:30:00.000Z"`
	// The id of the user who has become a member by it; null if nobody has.
	AcceptedBy *string `json:"accepted_by" nullable:"true" example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9s"`
	// When it was revoked; null if it was not.
	RevokedAt *httpapi.Time `json:"revoked_at" nullable:"true" example:"2026-11-03T09:30:00.000Z"`
}

// InvitationCreated is an invitation with its new link, which is shown once.
type InvitationCreated struct {
	Invitation
	// Generated: the link that opens the page where the invited choose a password. It works once and is shown this once.
	URL string `json:"url" readOnly:"true" example:"https://gateway.example.com/invitation#spi_3n8fj6k2q9wv5c1z7m4xg0r8bt"`
	// Generated: the token of the link, what is behind its #, for accept-invitation.
	Token string `json:"token" readOnly:"true" example:"spi_3n8fj6k2q9wv5c1z7m4xg0r8bt"`
	// Whether a mail with the link is on its way to the address. False where no mail server is configured: hand the link
	// over yourself.
	Mailed bool `json:"mailed" example:"true"`
}

type joinRequest struct {
	// The password to sign in with: any characters, but not the e-mail address. A user who was a member before gets it in
	// place of the one they had.
	Password secretbox.Secret `json:"password" minLength:"12" maxLength:"256" format:"password" writeOnly:"true" example:"staple battery horse"`
}

// TransformSchema documents the limits of the body and leaves checking them to the domain.
func (*joinRequest) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return httpapi.DocumentOnly(s)
}

// Resolve checks the limits together with what no schema can say.
func (r *joinRequest) Resolve(_ huma.Context, prefix *huma.PathBuffer) []error {
	return faultsAt(prefix.String(), identity.JoinFaults(r.Password))
}

type joined struct {
	// The new member.
	User teamUser `json:"user"`
	// The team that they have joined.
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
	// Only invitations in one of these states.
	Status []invitationStatus `query:"status,explode" maxItems:"50" example:"pending"`
	// Only invitations of one of these e-mail addresses. Case does not matter.
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
	// The invitation's id.
	ID string `path:"id" example:"inv_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type invitationOutput struct {
	Body Invitation
}

type resendInvitationOutput struct {
	Body InvitationCreated
}

type acceptInvitationInput struct {
	// The token of the link: what is behind its #.
	Token string `path:"token" example:"spi_3n8fj6k2q9wv5c1z7m4xg0r8bt"`
	Body  joinRequest
}

type acceptInvitationOutput struct {
	// The path of the new member.
	Location string `header:"Location"`
	Body     joined
}

func (h handler) createInvitation(ctx context.Context, in *createInvitationInput) (*createInvitationOutput, error) {
	sent, err := h.identity.Invite(ctx, access.From(ctx), identity.NewInvitation{
		Email: in.Body.Email, Role: access.Role(in.Body.Role), Environment: id.Environment(in.Body.Scope.EnvironmentID),
		ExpiresMillis: in.Body.ExpiresAt.MillisPtr(),
	})
	if err != nil {
		return nil, bodyFault(err)
	}
	return &createInvitationOutput{Location: httpapi.Prefix + "/team/invitations/" + sent.ID,
		Body: invitationCreatedOf(sent)}, nil
}

func (h handler) listInvitations(ctx context.Context, in *listInvitationsInput) (*listInvitationsOutput, error) {
	actor := access.From(ctx)
	f := identity.InvitationFilter{Statuses: convert[identity.InvitationStatus](sorted(in.Status))}
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
	list, err := h.identity.ListInvitations(ctx, actor, f, r)
	if err != nil {
		return nil, err
	}
	list, headers := page.Cut(r, list, func(i identity.Invitation) string { return i.ID }, in.url.Path, in.url.Query())
	out := &listInvitationsOutput{Headers: headers, Body: make([]Invitation, 0, len(list))}
	for i := range list {
		out.Body = append(out.Body, invitationOf(list[i]))
	}
	return out, nil
}

func (h handler) getInvitation(ctx context.Context, in *invitationInput) (*invitationOutput, error) {
	i, err := h.identity.GetInvitation(ctx, access.From(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return &invitationOutput{Body: invitationOf(i)}, nil
}

func (h handler) revokeInvitation(ctx context.Context, in *invitationInput) (*struct{}, error) {
	return nil, h.identity.RevokeInvitation(ctx, access.From(ctx), in.ID)
}

func (h handler) resendInvitation(ctx context.Context, in *invitationInput) (*resendInvitationOutput, error) {
	sent, err := h.identity.ResendInvitation(ctx, access.From(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return &resendInvitationOutput{Body: invitationCreatedOf(sent)}, nil
}

func (h handler) acceptInvitation(ctx context.Context, in *acceptInvitationInput) (*acceptInvitationOutput, error) {
	j, err := h.identity.Join(ctx, clientOf(ctx), identity.InvitationToken(in.Token), in.Body.Password)
	if err != nil {
		return nil, bodyFault(err)
	}
	return &acceptInvitationOutput{
		Location: httpapi.Prefix + "/team/members/" + j.User.ID,
		Body:     joined{User: teamUser{ID: j.User.ID, Email: j.User.Email}, Team: teamOf(j.Team)},
	}, nil
}

func invitationCreatedOf(s identity.SentInvitation) InvitationCreated {
	return InvitationCreated{Invitation: invitationOf(s.Invitation), URL: s.Link.Reveal(), Token: s.Token.Reveal(),
		Mailed: s.Mailed}
}

func invitationOf(i identity.Invitation) Invitation {
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
