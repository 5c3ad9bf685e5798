package identity

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
)

// Enabling a member is giving them their roles again: whoever could not give them cannot bring them back, though they
// may have taken them.
func TestEnablingIsGiving(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		owner, p := f.owner(t)
		clerk, err := f.CreateRole(ctx, owner, NewRole{Name: "clerk", Permissions: []access.Permission{access.MembersWrite,
			access.EventsRead}})
		require.NoError(t, err)
		mallory := f.person(t, p.Team.ID, "mallory@example.test", clerk.ID)
		admin, equal := f.person(t, p.Team.ID, "admin@example.test", access.Admin), f.person(t, p.Team.ID,
			"equal@example.test", clerk.ID)
		local := f.person(t, p.Team.ID, "local@example.test")
		f.bind(t, p.Team.ID, local.ID, access.Developer, p.Environments[0].ID, nil)
		for _, who := range []access.Principal{admin, equal, local} {
			_, err = f.SetMemberDisabled(ctx, mallory, who.ID, true)
			require.NoError(t, err)
		}
		for _, who := range []access.Principal{admin, local} {
			_, err = f.SetMemberDisabled(ctx, mallory, who.ID, false)
			wants(t, apperr.CodePrivilegeEscalation, err, who.Name)
			m, err := f.GetMember(ctx, owner, who.ID)
			require.NoError(t, err)
			require.NotNil(t, m.DisabledMillis)
		}
		m, err := f.SetMemberDisabled(ctx, mallory, equal.ID, false)
		require.NoError(t, err)
		require.Nil(t, m.DisabledMillis)
	})
}

// A disabled member is out even with a session that began beside the disabling, and so was not among those that it
// ended.
func TestDisabledWithASession(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		_, p := f.owner(t)
		in := f.signedIn(t)
		f.bearer(t, in.Token)
		f.exec(t, "UPDATE memberships SET disabled_ms = 1 WHERE user_id = $1", p.User.ID)
		f.refused(t, in.Token)
		_, err := f.Refresh(t.Context(), testClient(), in.Refresh)
		wants(t, apperr.CodeUnauthorized, err, "a refresh")
	})
}

// What an identity provider gives has no end that people set; they can take it, and it is not what a team's last owner
// is.
func TestManagedBindings(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		owner, p := f.owner(t)
		bob := f.person(t, p.Team.ID, "bob@example.test", access.Viewer, access.Owner)
		f.exec(t, "UPDATE role_bindings SET managed_by = 'sso_x' WHERE principal_id = $1", bob.ID)
		viewer := f.bindingOf(t, bob.ID, access.Viewer)
		for _, at := range []*int64{nil, new(clock.Millis(f.clk.Now().Add(time.Hour)))} {
			_, err := f.UpdateBinding(ctx, owner, viewer, at)
			wants(t, apperr.CodeRoleBindingManaged, err, "its end")
		}
		wants(t, apperr.CodeLastOwner, f.DeleteBinding(ctx, owner, f.bindingOf(t, p.User.ID, access.Owner)),
			"beside a managed owner")
		require.NoError(t, f.DeleteBinding(ctx, owner, viewer))
		_, err := f.GetBinding(ctx, owner, viewer)
		wants(t, apperr.CodeNotFound, err, "a binding that was taken")
	})
}
