package invitations_test

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/internal/identity/invitations"
	"sallyport/internal/identity/signin"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/members"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// freeAttempts is how many attempts an address has before it has to wait.
const freeAttempts = 20

const graceEmail = "grace@example.test"

// notJoined requires that a token does not work, that no response says why, and that nothing is left of the attempt but
// its count.
func notJoined(t *testing.T, f identitytest.World, c access.Client, token invitations.Token, why string) {
	t.Helper()
	rows := func() string {
		return fmt.Sprint(f.Count(t, "users"), f.Count(t, "memberships"), f.Count(t, "role_bindings"),
			f.Count(t, "audit_events"))
	}
	before := rows()
	_, err := f.Invitations.Join(t.Context(), c, token, identitytest.Password)
	var e *apperr.Error
	require.ErrorAs(t, err, &e, why)
	require.Equal(t, apperr.CodeUnauthorized, e.Code, why)
	require.Equal(t, "The invitation link is not valid: it was used or revoked, or it expired", e.Message, why)
	require.Equal(t, before, rows(), why)
}

func statusOf(t *testing.T, f identitytest.World, actor access.Principal,
	invitationID string) invitations.Status {
	t.Helper()
	i, err := f.Invitations.GetInvitation(t.Context(), actor, invitationID)
	require.NoError(t, err)
	return i.Status
}

// An invitation brings a person into the team once, with the role it names and nothing more, and with the password that
// they choose. The mail carries the same link as the response, and the trail records who gave which role.
func TestInvitation(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		post := f.Post()
		owner, p := f.Owner(t)
		env := p.Environments[0].ID
		sent := f.Invited(t, owner, "Grace@Example.test", members.RoleGrant{Role: access.Developer, Environment: env})
		require.True(t, sent.Mailed)
		require.Equal(t, identitytest.Issuer+"/invitation#"+sent.Token.Reveal(), sent.Link.Reveal())
		require.Len(t, post.Mails, 1)
		letter := post.Mails[0]
		require.Equal(t, []string{"invitation", sent.ID, graceEmail}, []string{letter.Kind, letter.About, letter.To})
		require.Contains(t, letter.Text, "\n"+sent.Link.Reveal()+"\n")
		require.Equal(t, clock.Millis(f.Clock.Now().Add(invitations.Lifetime)), clock.Millis(letter.Expires))
		var stored []byte
		require.NoError(t, f.Store.DB.Read().QueryRowContext(t.Context(), "SELECT token_mac FROM invitations").Scan(&stored))
		require.NotContains(t, string(stored), sent.Token.Reveal())

		j, err := f.Invitations.Join(t.Context(), identitytest.Stranger(1), sent.Token, identitytest.Password+" of Grace")
		require.NoError(t, err)
		require.Equal(t, graceEmail, j.User.Email)
		require.Equal(t, p.Team.ID, j.Team.ID)
		in, err := f.LogIn(t, graceEmail, identitytest.Password+" of Grace")
		require.NoError(t, err)
		grace := f.Bearer(t, in.Token)
		require.True(t, grace.HasIn(env, access.EventsRead))
		require.Empty(t, grace.Rights.In(""))
		require.Empty(t, grace.Rights.In(p.Environments[1].ID))
		notJoined(t, f, identitytest.Stranger(1), sent.Token, "used")

		list, err := f.Invitations.ListInvitations(t.Context(), owner,
			invitations.Filter{Statuses: []invitations.Status{invitations.Accepted},
				Emails: []string{graceEmail}}, page.Request{Limit: 10})
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, j.User.ID, list[0].AcceptedBy)
		var acts []string
		for _, e := range f.Trail(t) {
			if strings.HasPrefix(e.Action, "invitation.") || strings.HasPrefix(e.Action, "role_binding.") ||
				e.Actor == j.User.ID && e.Action == "user.create" {
				acts = append(acts, e.Action+" by "+e.Actor)
			}
		}
		require.Equal(t, []string{"invitation.create by " + owner.ID, "user.create by " + j.User.ID,
			"role_binding.create by " + owner.ID, "invitation.accept by " + j.User.ID}, acts)
	})
}

// A token that never existed, has expired, was revoked or replaced, or has another purpose gets one response and costs
// no Argon2. Guesses from one address have to wait. A password that breaks a rule does not use the token up.
func TestInvitationTokens(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		post := f.Post()
		owner, _ := f.Owner(t)
		viewer := members.RoleGrant{Role: access.Viewer}
		over := f.Invited(t, owner, "over@example.test", viewer)
		f.Clock.Advance(invitations.Lifetime)
		require.Equal(t, invitations.Expired, statusOf(t, f, owner, over.ID))
		revoked := f.Invited(t, owner, "revoked@example.test", viewer)
		require.NoError(t, f.Invitations.RevokeInvitation(t.Context(), owner, revoked.ID))
		require.Equal(t, invitations.Revoked, statusOf(t, f, owner, revoked.ID))
		require.Equal(t, revoked.ID, post.Dropped[len(post.Dropped)-1], "a mail that has not left is not sent")
		replaced := f.Invited(t, owner, graceEmail, viewer)
		_, err := f.Invitations.ResendInvitation(t.Context(), owner, replaced.ID)
		identitytest.Wants(t, apperr.CodeRateLimited, err, "another mail at once")
		f.Clock.Advance(invitations.ResendInterval)
		good, err := f.Invitations.ResendInvitation(t.Context(), owner, replaced.ID)
		require.NoError(t, err)
		reset := f.ResetToken(t, post, identitytest.Stranger(1), identitytest.Email)

		hashes := f.Hashes.Load()
		for why, token := range map[string]invitations.Token{
			"never made": invitations.Token(id.NewRandom(id.PrefixInvitationToken)), "over": over.Token,
			"revoked": revoked.Token, "replaced": replaced.Token, "cut": good.Token[:len(good.Token)-1], "longer": good.Token +
				"0", "in capitals": invitations.Token(strings.ToUpper(good.Token.Reveal())),
			"its id":     invitations.Token(good.ID),
			"of a reset": reset, "a reset's as ours": invitations.Token(id.PrefixInvitationToken + reset.Reveal()[4:]),
			"none": "",
		} {
			notJoined(t, f, identitytest.Stranger(len(why)), token, why)
		}
		err = f.SignIn.CompleteReset(t.Context(), identitytest.Stranger(60),
			signin.ResetToken("spr_"+good.Token.Reveal()[4:]), identitytest.Password)
		identitytest.Wants(t, apperr.CodeUnauthorized, err, "as a reset's")
		require.ErrorContains(t, err, "no such password reset token")
		for range freeAttempts {
			_, _ = f.Invitations.Join(t.Context(), identitytest.Stranger(70),
				invitations.Token(id.NewRandom(id.PrefixInvitationToken)), identitytest.Password)
		}
		notJoined(t, f, identitytest.Stranger(70), invitations.Token(id.NewRandom(id.PrefixInvitationToken)),
			"guessed")
		_, err = f.Invitations.Join(t.Context(), identitytest.Stranger(70), good.Token, identitytest.Password)
		identitytest.Wants(t, apperr.CodeRateLimited, err, "after many guesses")
		for _, password := range []string{"short", graceEmail} {
			_, err = f.Invitations.Join(t.Context(), identitytest.Stranger(71), good.Token,
				invitations.Token(password))
			identitytest.Wants(t, apperr.CodeValidation, err, password)
		}
		require.Equal(t, hashes, f.Hashes.Load())
		_, err = f.Invitations.Join(t.Context(), identitytest.Stranger(71), good.Token, identitytest.Password)
		require.NoError(t, err)
		for _, ended := range []string{good.ID, revoked.ID} {
			_, err = f.Invitations.ResendInvitation(t.Context(), owner, ended)
			identitytest.Wants(t, apperr.CodeInvitationEnded, err, "resent")
			identitytest.Wants(t, apperr.CodeInvitationEnded, f.Invitations.RevokeInvitation(t.Context(), owner, ended),
				"revoked")
		}
	})
}

// An invitation gives no more than its inviter may grant at that moment: not when it is created, not when it is
// renewed, and not when the link is used.
func TestInvitationGivesWhatItsMakerHolds(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		ctx := t.Context()
		owner, p := f.Owner(t)
		team, env := p.Team.ID, p.Environments[0].ID
		role := func(name string, permissions ...access.Permission) access.Role {
			r, err := f.Members.CreateRole(ctx, owner, members.NewRole{Name: name, Permissions: permissions})
			require.NoError(t, err)
			return r.ID
		}
		door := role("door", access.MembersWrite, access.EventsRead)
		clerk := role("clerk", access.MembersWrite, access.RolesWrite, access.EventsRead)
		reader := role("reader", access.EventsRead)
		spare := role("spare", access.EventsRead)
		admin := f.Person(t, team, "admin@example.test", access.Admin)
		mallory := f.Person(t, team, "mallory@example.test", clerk)
		porter := f.Person(t, team, "porter@example.test", door)
		trail := f.Count(t, "audit_events")
		refused := func(code apperr.Code, actor access.Principal, g members.RoleGrant) {
			t.Helper()
			_, err := f.Invitations.Invite(ctx, actor, invitations.NewInvitation{Email: graceEmail, Role: g.Role,
				Environment: g.Environment})
			identitytest.Wants(t, code, err, string(g.Role))
		}
		refused(apperr.CodePrivilegeEscalation, admin, members.RoleGrant{Role: access.Owner})
		refused(apperr.CodePrivilegeEscalation, mallory, members.RoleGrant{Role: access.Viewer})
		refused(apperr.CodePrivilegeEscalation, mallory, members.RoleGrant{Role: access.Developer, Environment: env})
		refused(apperr.CodeForbidden, porter, members.RoleGrant{Role: reader})
		refused(apperr.CodeUnauthorized, access.Principal{Kind: access.KindUser, ID: id.New(id.PrefixUser), Team: team,
			Rights: access.Owner.Rights()}, members.RoleGrant{Role: reader})
		refused(apperr.CodeValidation, owner, members.RoleGrant{Role: "rol_nobody"})
		refused(apperr.CodeValidation, owner, members.RoleGrant{Role: access.Owner, Environment: env})
		refused(apperr.CodeValidation, owner, members.RoleGrant{Role: reader, Environment: "env_nowhere"})
		require.Zero(t, f.Count(t, "invitations"))
		require.Equal(t, trail, f.Count(t, "audit_events"))

		sent := f.Invited(t, mallory, graceEmail, members.RoleGrant{Role: reader})
		_, err := f.Members.UpdateRole(ctx, owner, reader,
			members.RoleChange{Permissions: []access.Permission{access.EventsRead, access.APIKeysWrite}})
		require.NoError(t, err)
		notJoined(t, f, identitytest.Stranger(1), sent.Token, "the role has grown")
		f.Clock.Advance(invitations.ResendInterval)
		_, err = f.Invitations.ResendInvitation(ctx, mallory, sent.ID)
		identitytest.Wants(t, apperr.CodePrivilegeEscalation, err, "resent by who may not give it")
		again, err := f.Invitations.ResendInvitation(ctx, admin, sent.ID)
		require.NoError(t, err)
		require.Equal(t, admin.ID, again.InvitedBy)

		_, err = f.Members.SetMemberDisabled(ctx, owner, admin.ID, true)
		require.NoError(t, err)
		notJoined(t, f, identitytest.Stranger(2), again.Token, "who invited is disabled")
		_, err = f.Members.SetMemberDisabled(ctx, owner, admin.ID, false)
		require.NoError(t, err)
		binding := f.BindingOf(t, admin.ID, access.Admin)
		f.Bind(t, team, admin.ID, door, "", nil)
		require.NoError(t, f.Members.DeleteBinding(ctx, owner, binding))
		notJoined(t, f, identitytest.Stranger(3), again.Token, "who invited may give no roles")
		require.NoError(t, f.Members.RemoveMember(ctx, owner, admin.ID))
		notJoined(t, f, identitytest.Stranger(4), again.Token, "who invited has left")

		gone := f.Invited(t, owner, "gone@example.test", members.RoleGrant{Role: spare})
		require.NoError(t, f.Members.DeleteRole(ctx, owner, spare))
		notJoined(t, f, identitytest.Stranger(5), gone.Token, "the role is gone")
		f.Clock.Advance(invitations.ResendInterval)
		_, err = f.Invitations.ResendInvitation(ctx, owner, gone.ID)
		identitytest.Wants(t, apperr.CodeInvitationEnded, err, "the role is gone")
		owned, err := f.Invitations.ResendInvitation(ctx, owner, sent.ID)
		require.NoError(t, err)
		_, err = f.Invitations.Join(ctx, identitytest.Stranger(6), owned.Token, identitytest.Password)
		require.NoError(t, err)
	})
}

// A link is no way into an existing account. A member cannot be invited, and a person who has become a member since
// keeps their password. A former member comes back with the rights of the invitation, and with their authenticator app.
func TestInvitationTakesOverNoAccount(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		ctx := t.Context()
		owner, _ := f.Owner(t)
		_, err := f.Invitations.Invite(ctx, owner, invitations.NewInvitation{Email: strings.ToUpper(identitytest.Email),
			Role: access.Viewer})
		identitytest.Wants(t, apperr.CodeMemberExists, err, "a member")
		sent := f.Invited(t, owner, graceEmail, members.RoleGrant{Role: access.Viewer})
		grace, err := f.Setup.CreateOwner(ctx, access.System("cli"), "", graceEmail, identitytest.Password+" of Grace")
		require.NoError(t, err)
		notJoined(t, f, identitytest.Stranger(1), sent.Token, "a member since")
		in, err := f.LogIn(t, graceEmail, identitytest.Password+" of Grace")
		require.NoError(t, err)
		f.Clock.Advance(invitations.ResendInterval)
		_, err = f.Invitations.ResendInvitation(ctx, owner, sent.ID)
		identitytest.Wants(t, apperr.CodeMemberExists, err, "a member since")

		require.NoError(t, f.Members.RemoveMember(ctx, owner, grace.User.ID))
		again, err := f.Invitations.ResendInvitation(ctx, owner, sent.ID)
		require.NoError(t, err)
		f.Exec(t, "INSERT INTO user_totp (user_id, secret, created_ms, confirmed_ms, last_step, failures, blocked_ms) "+
			"VALUES ($1, $2, 1, 1, 0, 0, 0)", grace.User.ID, []byte("sealed"))
		j, err := f.Invitations.Join(ctx, identitytest.Stranger(2), again.Token, identitytest.Password+" again")
		require.NoError(t, err)
		require.Equal(t, grace.User.ID, j.User.ID)
		f.Refused(t, in.Token)
		_, err = f.LogIn(t, graceEmail, identitytest.Password+" of Grace")
		identitytest.Wants(t, apperr.CodeUnauthorized, err, "the password of before")
		require.NoError(t, f.Members.RemoveMember(ctx, owner, grace.User.ID))
		notJoined(t, f, identitytest.Stranger(3), again.Token, "removed, and the link was used")
		_, err = f.Invitations.Join(ctx, identitytest.Stranger(4), f.Invited(t, owner, graceEmail,
			members.RoleGrant{Role: access.Viewer}).Token, identitytest.Password+
			" once more")
		require.NoError(t, err)
		require.Equal(t, 1, f.Count(t, "user_totp"))
		require.False(t, f.Actor(t, owner.Team, grace.User.ID).Has(access.TeamWrite),
			"what they were before they are no more")
	})
}

// Of several simultaneous uses of one link, on several nodes, one creates a member.
func TestInvitationRace(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		owner, _ := f.Owner(t)
		sent := f.Invited(t, owner, graceEmail, members.RoleGrant{Role: access.Viewer})
		require.False(t, sent.Mailed, "nothing is promised where no mail is sent")
		other := f.Another(t)
		var done atomic.Int64
		var all sync.WaitGroup
		for n := range 8 {
			node := []identitytest.World{f, other}[n%2]
			all.Go(func() {
				if _, err := node.Invitations.Join(t.Context(), identitytest.Stranger(n), sent.Token,
					identitytest.Password); err == nil {
					done.Add(1)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, done.Load())
		require.Equal(t, 2, f.Count(t, "memberships"))
		require.Equal(t, 2, f.Count(t, "role_bindings"))
	})
}

// Invitations are bounded: one for an address, some for a team, for 30 days at most; all validation errors are in one
// response, old ended ones are removed, and those of another team do not exist.
func TestInvitationsAreBounded(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		ctx := t.Context()
		owner, _ := f.Owner(t)
		in := func(d time.Duration) *int64 { return new(clock.Millis(f.Clock.Now().Add(d))) }
		for _, expires := range []*int64{in(0), in(-time.Hour), in(invitations.MaxLifetime + time.Second)} {
			_, err := f.Invitations.Invite(ctx, owner, invitations.NewInvitation{Email: "no address", Role: "nobody",
				ExpiresMillis: expires})
			var e *apperr.Error
			require.ErrorAs(t, err, &e)
			var at []string
			for _, d := range e.Details {
				at = append(at, d.Location)
			}
			require.Equal(t, []string{"email", "expires_at", "role"}, at)
		}
		first, err := f.Invitations.Invite(ctx, owner, invitations.NewInvitation{Email: graceEmail, Role: access.Viewer,
			ExpiresMillis: in(invitations.MaxLifetime)})
		require.NoError(t, err)
		_, err = f.Invitations.Invite(ctx, owner, invitations.NewInvitation{Email: "GRACE@example.test", Role: access.Viewer})
		identitytest.Wants(t, apperr.CodeInvitationPending, err, "a second one")

		foreigner, _, _ := f.Foreign(t)
		_, err = f.Invitations.GetInvitation(ctx, foreigner, first.ID)
		identitytest.Wants(t, apperr.CodeNotFound, err, "another team's")
		_, err = f.Invitations.GetInvitation(ctx, owner, "inv_x")
		identitytest.Wants(t, apperr.CodeNotFound, err, "an id that cannot be")
		list, err := f.Invitations.ListInvitations(ctx, foreigner, invitations.Filter{}, page.Request{Limit: 10})
		require.NoError(t, err)
		require.Empty(t, list)

		require.NoError(t, f.Store.DB.Tx(ctx, func(tx *sql.Tx) error {
			for n := range invitations.MaxPending - 1 {
				i := invitations.Invitation{ID: id.New(id.PrefixInvitation), Email: fmt.Sprintf("user%d@example.test", n),
					Role: access.Viewer, InvitedBy: owner.ID, ExpiresMillis: *in(time.Hour)}
				require.NoError(t, f.Invitations.Put(ctx, tx, owner.Team, i, []byte(i.ID), f.Clock.Now()))
			}
			return nil
		}))
		_, err = f.Invitations.Invite(ctx, owner, invitations.NewInvitation{Email: "one-more@example.test",
			Role: access.Viewer})
		identitytest.Wants(t, apperr.CodeInvitationsLimit, err, "one more")
		f.Clock.Advance(time.Hour)
		last := f.Invited(t, owner, "one-more@example.test", members.RoleGrant{Role: access.Viewer})
		require.Equal(t, invitations.MaxPending+1, f.Count(t, "invitations"))
		f.Clock.Advance(invitations.KeepInvitations)
		f.Invited(t, owner, "later@example.test", members.RoleGrant{Role: access.Viewer})
		require.Equal(t, invitations.MaxPending+1+1-10, f.Count(t, "invitations"))
		require.Equal(t, invitations.Expired, statusOf(t, f, owner, last.ID))
	})
}
