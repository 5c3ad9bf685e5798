package members_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/members"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
)

// Enabling a member gives them their roles again. A user who could not grant those roles cannot enable the member,
// though they may have disabled them.
func TestEnablingIsGiving(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		ctx := t.Context()
		owner, p := f.Owner(t)
		clerk, err := f.Members.CreateRole(ctx, owner, members.NewRole{Name: "clerk",
			Permissions: []access.Permission{access.MembersWrite, access.EventsRead}})
		require.NoError(t, err)
		mallory := f.Person(t, p.Team.ID, "mallory@example.test", clerk.ID)
		admin, equal := f.Person(t, p.Team.ID, "admin@example.test", access.Admin), f.Person(t, p.Team.ID,
			"equal@example.test", clerk.ID)
		local := f.Person(t, p.Team.ID, "local@example.test")
		f.Bind(t, p.Team.ID, local.ID, access.Developer, p.Environments[0].ID, nil)
		for _, who := range []access.Principal{admin, equal, local} {
			_, err = f.Members.SetMemberDisabled(ctx, mallory, who.ID, true)
			require.NoError(t, err)
		}
		for _, who := range []access.Principal{admin, local} {
			_, err = f.Members.SetMemberDisabled(ctx, mallory, who.ID, false)
			identitytest.Wants(t, apperr.CodePrivilegeEscalation, err, who.Name)
			m, err := f.Members.GetMember(ctx, owner, who.ID)
			require.NoError(t, err)
			require.NotNil(t, m.DisabledMillis)
		}
		m, err := f.Members.SetMemberDisabled(ctx, mallory, equal.ID, false)
		require.NoError(t, err)
		require.Nil(t, m.DisabledMillis)
	})
}

// A disabled member is out even with a session that began during the disabling, and so was not among those that it
// ended.
func TestDisabledWithASession(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		_, p := f.Owner(t)
		in := f.SignedIn(t)
		f.Bearer(t, in.Token)
		f.Exec(t, "UPDATE memberships SET disabled_ms = 1 WHERE user_id = $1", p.User.ID)
		f.Refused(t, in.Token)
		_, err := f.SignIn.Refresh(t.Context(), identitytest.Client(), in.Refresh)
		identitytest.Wants(t, apperr.CodeUnauthorized, err, "a refresh")
	})
}

// A role from an identity provider has no end that people can set. They can revoke it, and it does not make its holder
// a team's last owner.
func TestManagedBindings(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		ctx := t.Context()
		owner, p := f.Owner(t)
		bob := f.Person(t, p.Team.ID, "bob@example.test", access.Viewer, access.Owner)
		f.Exec(t, "UPDATE role_bindings SET managed_by = 'sso_x' WHERE principal_id = $1", bob.ID)
		viewer := f.BindingOf(t, bob.ID, access.Viewer)
		for _, at := range []*int64{nil, new(clock.Millis(f.Clock.Now().Add(time.Hour)))} {
			_, err := f.Members.UpdateBinding(ctx, owner, viewer, at)
			identitytest.Wants(t, apperr.CodeRoleBindingManaged, err, "its end")
		}
		identitytest.Wants(t, apperr.CodeLastOwner, f.Members.DeleteBinding(ctx, owner,
			f.BindingOf(t, p.User.ID, access.Owner)), "beside a managed owner")
		require.NoError(t, f.Members.DeleteBinding(ctx, owner, viewer))
		_, err := f.Members.GetBinding(ctx, owner, viewer)
		identitytest.Wants(t, apperr.CodeNotFound, err, "a binding that was taken")
	})
}
