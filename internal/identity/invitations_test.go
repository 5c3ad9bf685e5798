package identity

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

const graceEmail = "grace@example.test"

// invited asks somebody in.
func (f fixture) invited(t *testing.T, actor access.Principal, email string, g RoleGrant) SentInvitation {
	t.Helper()
	sent, err := f.Invite(t.Context(), actor, NewInvitation{Email: email, Role: g.Role, Environment: g.Environment})
	require.NoError(t, err)
	return sent
}

// notJoined requires that a token does not work, that nobody is told why, and that nothing is left of the attempt but
// its count.
func (f fixture) notJoined(t *testing.T, c access.Client, token InvitationToken, why string) {
	t.Helper()
	rows := func() string {
		return fmt.Sprint(f.count(t, "users"), f.count(t, "memberships"), f.count(t, "role_bindings"),
			f.count(t, "audit_events"))
	}
	before := rows()
	_, err := f.Join(t.Context(), c, token, testPassword)
	var e *apperr.Error
	require.ErrorAs(t, err, &e, why)
	require.Equal(t, apperr.CodeUnauthorized, e.Code, why)
	require.Equal(t, "The credential is missing or not valid", e.Message, why)
	require.Equal(t, before, rows(), why)
}

func (f fixture) statusOf(t *testing.T, actor access.Principal, invitationID string) InvitationStatus {
	t.Helper()
	i, err := f.GetInvitation(t.Context(), actor, invitationID)
	require.NoError(t, err)
	return i.Status
}

// An invitation brings somebody into the team once, with the role it names and nothing more, under the password that
// they choose; the mail carries the same link as the answer, and the trail says who gave what.
func TestInvitation(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		post := f.withPost()
		owner, p := f.owner(t)
		env := p.Environments[0].ID
		sent := f.invited(t, owner, "Grace@Example.test", RoleGrant{Role: access.Developer, Environment: env})
		require.True(t, sent.Mailed)
		require.Equal(t, testIssuer+"/invitation#"+sent.Token.Reveal(), sent.Link.Reveal())
		require.Len(t, post.letters, 1)
		letter := post.letters[0]
		require.Equal(t, []string{"invitation", sent.ID, graceEmail}, []string{letter.Kind, letter.About, letter.To})
		require.Contains(t, letter.Text, "\n"+sent.Link.Reveal()+"\n")
		require.Equal(t, clock.Millis(f.clk.Now().Add(InvitationLifetime)), clock.Millis(letter.Expires))
		var stored []byte
		require.NoError(t, f.store.DB.Read().QueryRowContext(t.Context(), "SELECT token_mac FROM invitations").Scan(&stored))
		require.NotContains(t, string(stored), sent.Token.Reveal())

		j, err := f.Join(t.Context(), stranger(1), sent.Token, testPassword+" of Grace")
		require.NoError(t, err)
		require.Equal(t, graceEmail, j.User.Email)
		require.Equal(t, p.Team.ID, j.Team.ID)
		in, err := f.signIn(t, graceEmail, testPassword+" of Grace")
		require.NoError(t, err)
		grace := f.bearer(t, in.Token)
		require.True(t, grace.HasIn(env, access.EventsRead))
		require.Empty(t, grace.Rights.In(""))
		require.Empty(t, grace.Rights.In(p.Environments[1].ID))
		f.notJoined(t, stranger(1), sent.Token, "used")

		list, err := f.ListInvitations(t.Context(), owner, InvitationFilter{Statuses: []InvitationStatus{InvitationAccepted},
			Emails: []string{graceEmail}}, page.Request{Limit: 10})
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, j.User.ID, list[0].AcceptedBy)
		var acts []string
		for _, e := range f.trail(t) {
			if strings.HasPrefix(e.action, "invitation.") || strings.HasPrefix(e.action, "role_binding.") ||
				e.actor == j.User.ID && e.action == "user.create" {
				acts = append(acts, e.action+" by "+e.actor)
			}
		}
		require.Equal(t, []string{"invitation.create by " + owner.ID, "user.create by " + j.User.ID,
			"role_binding.create by " + owner.ID, "invitation.accept by " + j.User.ID}, acts)
	})
}

// A token that was never made, is over, was revoked or replaced, or is for another purpose gets one answer and costs no
// Argon2; guesses from one address have to wait; and a password that breaks a rule uses nothing up.
func TestInvitationTokens(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		post := f.withPost()
		owner, _ := f.owner(t)
		viewer := RoleGrant{Role: access.Viewer}
		over := f.invited(t, owner, "over@example.test", viewer)
		f.clk.Advance(InvitationLifetime)
		require.Equal(t, InvitationExpired, f.statusOf(t, owner, over.ID))
		revoked := f.invited(t, owner, "revoked@example.test", viewer)
		require.NoError(t, f.RevokeInvitation(t.Context(), owner, revoked.ID))
		require.Equal(t, InvitationRevoked, f.statusOf(t, owner, revoked.ID))
		require.Equal(t, revoked.ID, post.recalled[len(post.recalled)-1], "a mail that has not left is not sent")
		replaced := f.invited(t, owner, graceEmail, viewer)
		_, err := f.ResendInvitation(t.Context(), owner, replaced.ID)
		wants(t, apperr.CodeRateLimited, err, "another mail at once")
		f.clk.Advance(resendInterval)
		good, err := f.ResendInvitation(t.Context(), owner, replaced.ID)
		require.NoError(t, err)
		reset := f.asked(t, post, stranger(1), testEmail)

		hashes := f.hashes.Load()
		for why, token := range map[string]InvitationToken{
			"never made": InvitationToken(id.NewRandom(id.PrefixInvitationToken)), "over": over.Token, "revoked": revoked.Token,
			"replaced": replaced.Token, "cut": good.Token[:len(good.Token)-1], "longer": good.Token +
				"0", "in capitals": InvitationToken(strings.ToUpper(good.Token.Reveal())), "its id": InvitationToken(good.ID),
			"of a reset": reset, "a reset's as ours": InvitationToken(id.PrefixInvitationToken + reset.Reveal()[4:]), "none": "",
		} {
			f.notJoined(t, stranger(len(why)), token, why)
		}
		require.Equal(t, apperr.Unauthorized(errResetToken), f.CompleteReset(t.Context(), stranger(60),
			ResetToken("spr_"+good.Token.Reveal()[4:]), testPassword))
		for range freeAddressFailures {
			_, _ = f.Join(t.Context(), stranger(70), InvitationToken(id.NewRandom(id.PrefixInvitationToken)), testPassword)
		}
		f.notJoined(t, stranger(70), InvitationToken(id.NewRandom(id.PrefixInvitationToken)), "guessed")
		_, err = f.Join(t.Context(), stranger(70), good.Token, testPassword)
		wants(t, apperr.CodeRateLimited, err, "after many guesses")
		for _, password := range []string{"short", graceEmail} {
			_, err = f.Join(t.Context(), stranger(71), good.Token, InvitationToken(password))
			wants(t, apperr.CodeValidation, err, password)
		}
		require.Equal(t, hashes, f.hashes.Load())
		_, err = f.Join(t.Context(), stranger(71), good.Token, testPassword)
		require.NoError(t, err)
		for _, ended := range []string{good.ID, revoked.ID} {
			_, err = f.ResendInvitation(t.Context(), owner, ended)
			wants(t, apperr.CodeInvitationEnded, err, "resent")
			wants(t, apperr.CodeInvitationEnded, f.RevokeInvitation(t.Context(), owner, ended), "revoked")
		}
	})
}

// Nobody gets more through an invitation than who invited may give at that moment: not when it is made, not when it is
// made again, and not when the link is used.
func TestInvitationGivesWhatItsMakerHolds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		owner, p := f.owner(t)
		team, env := p.Team.ID, p.Environments[0].ID
		role := func(name string, permissions ...access.Permission) access.Role {
			r, err := f.CreateRole(ctx, owner, NewRole{Name: name, Permissions: permissions})
			require.NoError(t, err)
			return r.ID
		}
		door := role("door", access.MembersWrite, access.EventsRead)
		clerk := role("clerk", access.MembersWrite, access.RolesWrite, access.EventsRead)
		reader := role("reader", access.EventsRead)
		spare := role("spare", access.EventsRead)
		admin := f.person(t, team, "admin@example.test", access.Admin)
		mallory := f.person(t, team, "mallory@example.test", clerk)
		porter := f.person(t, team, "porter@example.test", door)
		trail := f.count(t, "audit_events")
		refused := func(code apperr.Code, actor access.Principal, g RoleGrant) {
			t.Helper()
			_, err := f.Invite(ctx, actor, NewInvitation{Email: graceEmail, Role: g.Role, Environment: g.Environment})
			wants(t, code, err, string(g.Role))
		}
		refused(apperr.CodePrivilegeEscalation, admin, RoleGrant{Role: access.Owner})
		refused(apperr.CodePrivilegeEscalation, mallory, RoleGrant{Role: access.Viewer})
		refused(apperr.CodePrivilegeEscalation, mallory, RoleGrant{Role: access.Developer, Environment: env})
		refused(apperr.CodeForbidden, porter, RoleGrant{Role: reader})
		refused(apperr.CodeUnauthorized, access.Principal{Kind: access.KindUser, ID: id.New(id.PrefixUser), Team: team,
			Rights: access.Owner.Rights()}, RoleGrant{Role: reader})
		refused(apperr.CodeValidation, owner, RoleGrant{Role: "rol_nobody"})
		refused(apperr.CodeValidation, owner, RoleGrant{Role: access.Owner, Environment: env})
		refused(apperr.CodeValidation, owner, RoleGrant{Role: reader, Environment: "env_nowhere"})
		require.Zero(t, f.count(t, "invitations"))
		require.Equal(t, trail, f.count(t, "audit_events"))

		sent := f.invited(t, mallory, graceEmail, RoleGrant{Role: reader})
		_, err := f.UpdateRole(ctx, owner, reader, RoleChange{Permissions: []access.Permission{access.EventsRead,
			access.APIKeysWrite}})
		require.NoError(t, err)
		f.notJoined(t, stranger(1), sent.Token, "the role has grown")
		f.clk.Advance(resendInterval)
		_, err = f.ResendInvitation(ctx, mallory, sent.ID)
		wants(t, apperr.CodePrivilegeEscalation, err, "resent by who may not give it")
		again, err := f.ResendInvitation(ctx, admin, sent.ID)
		require.NoError(t, err)
		require.Equal(t, admin.ID, again.InvitedBy)

		_, err = f.SetMemberDisabled(ctx, owner, admin.ID, true)
		require.NoError(t, err)
		f.notJoined(t, stranger(2), again.Token, "who invited is disabled")
		_, err = f.SetMemberDisabled(ctx, owner, admin.ID, false)
		require.NoError(t, err)
		binding := f.bindingOf(t, admin.ID, access.Admin)
		f.bind(t, team, admin.ID, door, "", nil)
		require.NoError(t, f.DeleteBinding(ctx, owner, binding))
		f.notJoined(t, stranger(3), again.Token, "who invited may give no roles")
		require.NoError(t, f.RemoveMember(ctx, owner, admin.ID))
		f.notJoined(t, stranger(4), again.Token, "who invited has left")

		gone := f.invited(t, owner, "gone@example.test", RoleGrant{Role: spare})
		require.NoError(t, f.DeleteRole(ctx, owner, spare))
		f.notJoined(t, stranger(5), gone.Token, "the role is gone")
		f.clk.Advance(resendInterval)
		_, err = f.ResendInvitation(ctx, owner, gone.ID)
		wants(t, apperr.CodeInvitationEnded, err, "the role is gone")
		owned, err := f.ResendInvitation(ctx, owner, sent.ID)
		require.NoError(t, err)
		_, err = f.Join(ctx, stranger(6), owned.Token, testPassword)
		require.NoError(t, err)
	})
}

// A link is no way into an account that there is: who is a member is not invited, and who has become one since keeps
// their password. Who was a member before comes back with what the invitation gives, and with their authenticator app.
func TestInvitationTakesOverNobody(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		owner, _ := f.owner(t)
		_, err := f.Invite(ctx, owner, NewInvitation{Email: strings.ToUpper(testEmail), Role: access.Viewer})
		wants(t, apperr.CodeMemberExists, err, "a member")
		sent := f.invited(t, owner, graceEmail, RoleGrant{Role: access.Viewer})
		grace, err := f.CreateOwner(ctx, access.System("cli"), "", graceEmail, testPassword+" of Grace")
		require.NoError(t, err)
		f.notJoined(t, stranger(1), sent.Token, "a member since")
		in, err := f.signIn(t, graceEmail, testPassword+" of Grace")
		require.NoError(t, err)
		f.clk.Advance(resendInterval)
		_, err = f.ResendInvitation(ctx, owner, sent.ID)
		wants(t, apperr.CodeMemberExists, err, "a member since")

		require.NoError(t, f.RemoveMember(ctx, owner, grace.User.ID))
		again, err := f.ResendInvitation(ctx, owner, sent.ID)
		require.NoError(t, err)
		f.exec(t, "INSERT INTO user_totp (user_id, secret, created_ms, confirmed_ms, last_step, failures, blocked_ms) "+
			"VALUES ($1, $2, 1, 1, 0, 0, 0)", grace.User.ID, []byte("sealed"))
		j, err := f.Join(ctx, stranger(2), again.Token, testPassword+" again")
		require.NoError(t, err)
		require.Equal(t, grace.User.ID, j.User.ID)
		f.refused(t, in.Token)
		_, err = f.signIn(t, graceEmail, testPassword+" of Grace")
		wants(t, apperr.CodeUnauthorized, err, "the password of before")
		require.NoError(t, f.RemoveMember(ctx, owner, grace.User.ID))
		f.notJoined(t, stranger(3), again.Token, "removed, and the link was used")
		_, err = f.Join(ctx, stranger(4), f.invited(t, owner, graceEmail, RoleGrant{Role: access.Viewer}).Token, testPassword+
			" once more")
		require.NoError(t, err)
		require.Equal(t, 1, f.count(t, "user_totp"))
		require.False(t, f.actor(t, owner.Team, grace.User.ID).Has(access.TeamWrite),
			"what they were before they are no more")
	})
}

// Of several uses of one link at a time, on several nodes, one makes a member.
func TestInvitationRace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		owner, _ := f.owner(t)
		sent := f.invited(t, owner, graceEmail, RoleGrant{Role: access.Viewer})
		require.False(t, sent.Mailed, "nothing is promised where no mail is sent")
		other := f.another(t)
		require.NoError(t, other.Init(t.Context(), false))
		var done atomic.Int64
		var all sync.WaitGroup
		for n := range 8 {
			node := []*Service{f.Service, other}[n%2]
			all.Go(func() {
				if _, err := node.Join(t.Context(), stranger(n), sent.Token, testPassword); err == nil {
					done.Add(1)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, done.Load())
		require.Equal(t, 2, f.count(t, "memberships"))
		require.Equal(t, 2, f.count(t, "role_bindings"))
	})
}

// Invitations are bounded: one for an address, some for a team, for 30 days at most; all faults come in one answer;
// what ended long ago goes; and those of another team do not exist.
func TestInvitationsAreBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		owner, _ := f.owner(t)
		in := func(d time.Duration) *int64 { return new(clock.Millis(f.clk.Now().Add(d))) }
		for _, expires := range []*int64{in(0), in(-time.Hour), in(MaxInvitationLifetime + time.Second)} {
			_, err := f.Invite(ctx, owner, NewInvitation{Email: "no address", Role: "nobody", ExpiresMillis: expires})
			var e *apperr.Error
			require.ErrorAs(t, err, &e)
			var at []string
			for _, d := range e.Details {
				at = append(at, d.Location)
			}
			require.Equal(t, []string{"email", "expires_at", "role"}, at)
		}
		first, err := f.Invite(ctx, owner, NewInvitation{Email: graceEmail, Role: access.Viewer,
			ExpiresMillis: in(MaxInvitationLifetime)})
		require.NoError(t, err)
		_, err = f.Invite(ctx, owner, NewInvitation{Email: "GRACE@example.test", Role: access.Viewer})
		wants(t, apperr.CodeInvitationPending, err, "a second one")

		foreigner, _, _ := f.foreign(t)
		_, err = f.GetInvitation(ctx, foreigner, first.ID)
		wants(t, apperr.CodeNotFound, err, "another team's")
		_, err = f.GetInvitation(ctx, owner, "inv_x")
		wants(t, apperr.CodeNotFound, err, "an id that cannot be")
		list, err := f.ListInvitations(ctx, foreigner, InvitationFilter{}, page.Request{Limit: 10})
		require.NoError(t, err)
		require.Empty(t, list)

		require.NoError(t, f.store.DB.Tx(ctx, func(tx *sql.Tx) error {
			for n := range MaxInvitations - 1 {
				i := Invitation{ID: id.New(id.PrefixInvitation), Email: fmt.Sprintf("user%d@example.test", n), Role: access.Viewer,
					InvitedBy: owner.ID, ExpiresMillis: *in(time.Hour)}
				require.NoError(t, f.putInvitation(ctx, tx, owner.Team, i, []byte(i.ID), f.clk.Now()))
			}
			return nil
		}))
		_, err = f.Invite(ctx, owner, NewInvitation{Email: "one-more@example.test", Role: access.Viewer})
		wants(t, apperr.CodeInvitationsLimit, err, "one more")
		f.clk.Advance(time.Hour)
		last := f.invited(t, owner, "one-more@example.test", RoleGrant{Role: access.Viewer})
		require.Equal(t, MaxInvitations+1, f.count(t, "invitations"))
		f.clk.Advance(keepInvitations)
		f.invited(t, owner, "later@example.test", RoleGrant{Role: access.Viewer})
		require.Equal(t, MaxInvitations+1+1-10, f.count(t, "invitations"))
		require.Equal(t, InvitationExpired, f.statusOf(t, owner, last.ID))
	})
}
