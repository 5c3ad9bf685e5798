package members_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/invitations"
	"sallyport/internal/identity/members"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
)

// A user with a temporary role cannot grant it for longer, neither to others nor to themselves: not by extending their
// own binding, nor by another binding, another role, an invitation, or a colleague who is enabled again. They can grant
// it for as long as they have it.
func TestRolesThatEndGiveNothingThatLasts(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		ctx := t.Context()
		owner, p := f.Owner(t)
		team, env := p.Team.ID, p.Environments[0].ID
		at := func(d time.Duration) *int64 { return new(clock.Millis(f.Clock.Now().Add(d))) }
		clerk, err := f.Members.CreateRole(ctx, owner, members.NewRole{Name: "clerk",
			Permissions: []access.Permission{access.RolesWrite, access.MembersWrite, access.EventsRead}})
		require.NoError(t, err)
		mallory := f.Person(t, team, "mallory@example.test", clerk.ID)
		own, err := f.Members.CreateBinding(ctx, owner, mallory.ID, members.RoleGrant{Role: access.Admin,
			ExpiresMillis: at(time.Hour)})
		require.NoError(t, err)
		bob := f.Person(t, team, "bob@example.test")
		friend := f.Person(t, team, "friend@example.test", access.Admin)
		_, err = f.Members.SetMemberDisabled(ctx, owner, friend.ID, true)
		require.NoError(t, err)
		copied, err := f.Members.CreateRole(ctx, mallory,
			members.NewRole{Name: "copy", Permissions: access.Admin.Permissions()})
		require.NoError(t, err, "a role that nobody has gives nothing")

		before := len(f.Trail(t))
		for what, attempt := range map[string]func() error{
			"their own, for ever": func() error { _, err := f.Members.UpdateBinding(ctx, mallory, own.ID, nil); return err },
			"their own, for longer": func() error {
				_, err := f.Members.UpdateBinding(ctx, mallory, own.ID, at(time.Hour+time.Millisecond))
				return err
			},
			"a copy of it": func() error {
				_, err := f.Members.CreateBinding(ctx, mallory, mallory.ID, members.RoleGrant{Role: copied.ID})
				return err
			},
			"a part of it, in one environment": func() error {
				_, err := f.Members.CreateBinding(ctx, mallory, mallory.ID, members.RoleGrant{Role: access.Developer,
					Environment: env, ExpiresMillis: at(2 * time.Hour)})
				return err
			},
			"for a friend": func() error {
				_, err := f.Members.CreateBinding(ctx, mallory, bob.ID, members.RoleGrant{Role: access.Admin})
				return err
			},
			"into a role that they have for ever": func() error {
				_, err := f.Members.UpdateRole(ctx, mallory, clerk.ID,
					members.RoleChange{Permissions: append(slices.Clone(clerk.Permissions), access.APIKeysWrite)})
				return err
			},
			"by an invitation": func() error {
				_, err := f.Invitations.Invite(ctx, mallory, invitations.NewInvitation{Email: "sock@example.test",
					Role: access.Admin})
				return err
			},
			"to a disabled member": func() error {
				_, err := f.Members.SetMemberDisabled(ctx, mallory, friend.ID, false)
				return err
			},
		} {
			identitytest.Wants(t, apperr.CodePrivilegeEscalation, attempt(), what)
		}
		require.Len(t, f.Trail(t), before, "something was written")

		_, err = f.Members.CreateBinding(ctx, mallory, bob.ID, members.RoleGrant{Role: access.Admin,
			ExpiresMillis: at(time.Hour)})
		require.NoError(t, err, "for as long")
		_, err = f.Members.CreateBinding(ctx, mallory, bob.ID, members.RoleGrant{Role: clerk.ID})
		require.NoError(t, err, "what they have for ever, for ever")
		_, err = f.Members.UpdateBinding(ctx, mallory, own.ID, at(time.Minute))
		require.NoError(t, err, "their own, for shorter")
		_, err = f.Members.UpdateBinding(ctx, owner, own.ID, nil)
		require.NoError(t, err, "by an owner")
	})
}
