package members_test

import (
	"database/sql"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/members"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

func wants(t *testing.T, code apperr.Code, err error, what string) {
	t.Helper()
	require.True(t, apperr.Is(err, code), "%s: %v", what, err)
}

// Attacks on rights: no one gets or gives more through a role, a change of one, or a binding, nor through rights that
// they had when the request was let in. Only an owner changes an owner. Nothing is written on the way.
func TestGrantsNoMoreThanHeld(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		ctx := t.Context()
		owner, p := f.Owner(t)
		teamID, env := p.Team.ID, p.Environments[0].ID
		// A user who may create and grant roles and do little else.
		clerk, err := f.Members.CreateRole(ctx, owner, members.NewRole{Name: "clerk",
			Permissions: []access.Permission{access.RolesRead, access.RolesWrite, access.MembersWrite, access.EventsRead}})
		require.NoError(t, err)
		mallory := f.Person(t, teamID, "mallory@example.test", clerk.ID)
		admin := f.Person(t, teamID, "admin@example.test", access.Admin)
		bob := f.Person(t, teamID, "bob@example.test")
		ownerBinding := f.BindingOf(t, p.User.ID, access.Owner)
		before := len(f.Trail(t))
		attempts := map[string]func() error{
			"a role with more": func() error {
				_, err := f.Members.CreateRole(ctx, mallory,
					members.NewRole{Name: "x", Permissions: []access.Permission{access.EventsRead, access.APIKeysWrite}})
				return err
			},
			"their own role, widened": func() error {
				_, err := f.Members.UpdateRole(ctx, mallory, clerk.ID,
					members.RoleChange{Permissions: append(slices.Clone(clerk.Permissions), access.OwnersWrite)})
				return err
			},
			"a stronger role for themselves": func() error {
				_, err := f.Members.CreateBinding(ctx, mallory, mallory.ID, members.RoleGrant{Role: access.Admin})
				return err
			},
			"a stronger role for a friend, in one environment": func() error {
				_, err := f.Members.CreateBinding(ctx, mallory, bob.ID, members.RoleGrant{Role: access.Developer, Environment: env})
				return err
			},
			"an owner, by an admin": func() error {
				_, err := f.Members.CreateBinding(ctx, admin, admin.ID, members.RoleGrant{Role: access.Owner})
				return err
			},
			"an auditor, by an admin": func() error {
				_, err := f.Members.CreateBinding(ctx, admin, bob.ID, members.RoleGrant{Role: access.Auditor})
				return err
			},
			"a role to decide on owners, by an admin": func() error {
				_, err := f.Members.CreateRole(ctx, admin,
					members.NewRole{Name: "x", Permissions: []access.Permission{access.OwnersWrite}})
				return err
			},
			"a name in use": func() error {
				return f.Store.DB.Tx(ctx, func(tx *sql.Tx) error {
					return f.Members.CheckHeld(ctx, tx, mallory, env, access.EventsRead, access.APIKeysWrite)
				})
			},
			"an invitation": func() error {
				return f.Store.DB.Tx(ctx, func(tx *sql.Tx) error {
					c, err := members.ChangeBy(ctx, tx, mallory, teamID, f.Clock.Now())
					require.NoError(t, err)
					return c.CheckGrant(ctx, tx, members.RoleGrant{Role: access.Viewer})
				})
			},
			"an invitation that is accepted": func() error {
				return f.Members.ChangeRights(ctx, mallory, func(tx *sql.Tx, c members.Change) error {
					_, err := f.Members.Give(ctx, tx, c, bob.ID, members.RoleGrant{Role: access.Viewer})
					return err
				})
			},
		}
		for what, attempt := range attempts {
			wants(t, apperr.CodePrivilegeEscalation, attempt(), what)
		}
		for what, attempt := range map[string]func() error{
			"an admin takes an owner's role": func() error { return f.Members.DeleteBinding(ctx, admin, ownerBinding) },
			"an admin lets an owner's role end": func() error {
				_, err := f.Members.UpdateBinding(ctx, admin, ownerBinding, new(clock.Millis(f.Clock.Now().Add(time.Hour))))
				return err
			},
			"an admin removes an owner": func() error { return f.Members.RemoveMember(ctx, admin, p.User.ID) },
			"an admin disables an owner": func() error {
				_, err := f.Members.SetMemberDisabled(ctx, admin, p.User.ID, true)
				return err
			},
			"a system role is changed": func() error {
				_, err := f.Members.UpdateRole(ctx, owner, access.Viewer, members.RoleChange{Name: new("x")})
				return err
			},
			"a system role is deleted": func() error { return f.Members.DeleteRole(ctx, owner, access.Viewer) },
			"a role is made without the right": func() error {
				_, err := f.Members.CreateRole(ctx, bob,
					members.NewRole{Name: "x", Permissions: []access.Permission{access.EventsRead}})
				return err
			},
			"a role is given without the right": func() error {
				_, err := f.Members.CreateBinding(ctx, bob, bob.ID, members.RoleGrant{Role: access.Viewer})
				return err
			},
			"a member is removed without a right": func() error { return f.Members.RemoveMember(ctx, bob, mallory.ID) },
		} {
			wants(t, apperr.CodeForbidden, attempt(), what)
		}
		require.Len(t, f.Trail(t), before, "a refused attempt has changed something")

		// The rights with which the request was let in were taken meanwhile.
		require.NoError(t, f.Members.DeleteBinding(ctx, owner, f.BindingOf(t, admin.ID, access.Admin)))
		_, err = f.Members.CreateBinding(ctx, admin, admin.ID, members.RoleGrant{Role: access.Viewer})
		wants(t, apperr.CodeForbidden, err, "rights of before")
		wants(t, apperr.CodePrivilegeEscalation, f.Store.DB.Tx(ctx, func(tx *sql.Tx) error {
			return f.Members.CheckHeld(ctx, tx, admin, env, access.EventsRead)
		}), "rights of before")
		require.NoError(t, f.Members.RemoveMember(ctx, owner, admin.ID))
		_, err = f.Members.CreateRole(ctx, admin,
			members.NewRole{Name: "x", Permissions: []access.Permission{access.EventsRead}})
		wants(t, apperr.CodeUnauthorized, err, "a removed member")

		// A right held in one environment can be granted there and nowhere else.
		f.Bind(t, teamID, mallory.ID, access.Developer, env, nil)
		_, err = f.Members.CreateBinding(ctx, mallory, bob.ID, members.RoleGrant{Role: access.Developer, Environment: env})
		require.NoError(t, err)
		_, err = f.Members.CreateBinding(ctx, mallory, bob.ID, members.RoleGrant{Role: access.Developer,
			Environment: p.Environments[1].ID})
		wants(t, apperr.CodePrivilegeEscalation, err, "elsewhere")
		_, err = f.Members.CreateBinding(ctx, mallory, bob.ID, members.RoleGrant{Role: access.Developer})
		wants(t, apperr.CodePrivilegeEscalation, err, "everywhere")
		_, err = f.Members.CreateRole(ctx, mallory,
			members.NewRole{Name: "x", Permissions: []access.Permission{access.APIKeysWrite}})
		wants(t, apperr.CodePrivilegeEscalation, err, "a role can be given everywhere")
		require.NoError(t, f.Store.DB.Tx(ctx, func(tx *sql.Tx) error {
			return f.Members.CheckHeld(ctx, tx, access.System("cli"), "", access.Grantable()...)
		}))
	})
}

// A role that ends cannot be made to last by a user who could not grant it, though they may end it earlier.
func TestExpiryIsGivenLikeARole(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		ctx := t.Context()
		owner, p := f.Owner(t)
		at := func(d time.Duration) *int64 { return new(clock.Millis(f.Clock.Now().Add(d))) }
		admin := f.Person(t, p.Team.ID, "admin@example.test", access.Admin)
		bob := f.Person(t, p.Team.ID, "bob@example.test")
		b, err := f.Members.CreateBinding(ctx, owner, bob.ID, members.RoleGrant{Role: access.Auditor,
			ExpiresMillis: at(time.Hour)})
		require.NoError(t, err)
		for _, longer := range []*int64{nil, at(2 * time.Hour)} {
			_, err = f.Members.UpdateBinding(ctx, admin, b.ID, longer)
			wants(t, apperr.CodePrivilegeEscalation, err, "longer")
		}
		got, err := f.Members.UpdateBinding(ctx, admin, b.ID, at(time.Minute))
		require.NoError(t, err)
		require.Equal(t, at(time.Minute), got.ExpiresMillis)
		_, err = f.Members.UpdateBinding(ctx, owner, b.ID, at(0))
		wants(t, apperr.CodeValidation, err, "a time that has come")
		require.True(t, f.Actor(t, p.Team.ID, bob.ID).Has(access.AuditExport))
		f.Clock.Advance(time.Minute)
		require.False(t, f.Actor(t, p.Team.ID, bob.ID).Has(access.AuditExport))
		_, err = f.Members.GetBinding(ctx, owner, b.ID)
		wants(t, apperr.CodeNotFound, err, "an expired binding")
		_, err = f.Members.CreateBinding(ctx, owner, bob.ID, members.RoleGrant{Role: access.Auditor})
		require.NoError(t, err, "an expired binding is in the way")
		_, err = f.Members.CreateBinding(ctx, owner, bob.ID, members.RoleGrant{Role: access.Auditor})
		wants(t, apperr.CodeRoleBindingExists, err, "the same again")
	})
}

// No request by any user leaves a team without an owner whose role is permanent.
func TestLastOwner(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		ctx := t.Context()
		owner, p := f.Owner(t)
		first := f.BindingOf(t, p.User.ID, access.Owner)
		soon := new(clock.Millis(f.Clock.Now().Add(time.Hour)))
		attempts := map[string]func() error{
			"leave":      func() error { return f.Members.RemoveMember(ctx, owner, p.User.ID) },
			"disable":    func() error { _, err := f.Members.SetMemberDisabled(ctx, owner, p.User.ID, true); return err },
			"demote":     func() error { return f.Members.DeleteBinding(ctx, owner, first) },
			"expire":     func() error { _, err := f.Members.UpdateBinding(ctx, owner, first, soon); return err },
			"by command": func() error { return f.Members.DeleteBinding(ctx, access.System("cli"), first) },
		}
		refused := func(when string) {
			t.Helper()
			before := len(f.Trail(t))
			for what, attempt := range attempts {
				wants(t, apperr.CodeLastOwner, attempt(), what+" "+when)
			}
			require.Len(t, f.Trail(t), before)
		}
		refused("alone")
		// Neither an owner for a time nor a disabled one counts.
		brief := f.Person(t, p.Team.ID, "brief@example.test")
		_, err := f.Members.CreateBinding(ctx, owner, brief.ID, members.RoleGrant{Role: access.Owner, ExpiresMillis: soon})
		require.NoError(t, err)
		gone := f.Person(t, p.Team.ID, "gone@example.test", access.Owner)
		_, err = f.Members.SetMemberDisabled(ctx, owner, gone.ID, true)
		require.NoError(t, err)
		refused("beside a brief and a disabled one")
		_, err = f.Members.SetMemberDisabled(ctx, owner, gone.ID, false)
		require.NoError(t, err)
		require.NoError(t, f.Members.RemoveMember(ctx, owner, p.User.ID), "there is another owner")
	})
}

// Two owners who remove each other at the same time leave one.
func TestLastOwnerUnderConcurrency(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		_, p := f.Owner(t)
		var owners []access.Principal
		for _, email := range []string{"b@example.test", "c@example.test", "d@example.test"} {
			owners = append(owners, f.Person(t, p.Team.ID, email, access.Owner))
		}
		owners = append(owners, f.Actor(t, p.Team.ID, p.User.ID))
		other := f.Another(t)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i, actor := range owners {
			for j, victim := range owners {
				wg.Go(func() {
					<-start
					s := []identitytest.World{f, other}[(i+j)%2]
					switch (i + j) % 3 {
					case 0:
						_ = s.Members.RemoveMember(t.Context(), actor, victim.ID)
					case 1:
						_, _ = s.Members.SetMemberDisabled(t.Context(), actor, victim.ID, true)
					default:
						list, _ := s.Members.ListBindings(t.Context(), actor, members.BindingFilter{PrincipalIDs: []string{victim.ID}},
							page.Request{Limit: 5})
						for _, b := range list {
							_ = s.Members.DeleteBinding(t.Context(), actor, b.ID)
						}
					}
				})
			}
		}
		close(start)
		wg.Wait()
		var kept int
		require.NoError(t, f.Store.DB.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM role_bindings b
			JOIN memberships m ON m.team_id = b.team_id AND m.user_id = b.principal_id
			WHERE b.team_id = $1 AND b.role = $2 AND m.disabled_ms IS NULL AND b.expires_ms IS NULL`,
			p.Team.ID, access.Owner).Scan(&kept))
		require.Positive(t, kept, "nobody owns the team any more")
	})
}

// A removed or disabled member loses access immediately, with their sessions. An enabled one has their roles again and
// has to sign in again.
func TestRemovedMembers(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		ctx := t.Context()
		_, err := f.Setup.CreateOwner(ctx, access.System("test"), "", "boss@example.test", identitytest.Password)
		require.NoError(t, err)
		_, p := f.Owner(t)
		boss, err := f.LogIn(t, "boss@example.test", identitytest.Password)
		require.NoError(t, err)
		actor := f.Bearer(t, boss.Token)
		in := f.SignedIn(t)
		m, err := f.Members.SetMemberDisabled(ctx, actor, p.User.ID, true)
		require.NoError(t, err)
		require.NotNil(t, m.DisabledMillis)
		f.Refused(t, in.Token)
		_, err = f.SignIn.Refresh(ctx, identitytest.Client(), in.Refresh)
		wants(t, apperr.CodeUnauthorized, err, "a refresh")
		_, err = f.LogIn(t, identitytest.Email, identitytest.Password)
		wants(t, apperr.CodeUnauthorized, err, "a sign-in")
		_, err = f.Members.SetMemberDisabled(ctx, actor, p.User.ID, false)
		require.NoError(t, err)
		f.Refused(t, in.Token)
		in = f.SignedIn(t)
		require.True(t, f.Bearer(t, in.Token).HasIn("", access.OwnersWrite))
		before := f.Count(t, "audit_events")
		_, err = f.Members.SetMemberDisabled(ctx, actor, p.User.ID, false)
		require.NoError(t, err)
		require.Equal(t, before, f.Count(t, "audit_events"), "nothing has changed")
		require.NoError(t, f.Members.RemoveMember(ctx, actor, p.User.ID))
		f.Refused(t, in.Token)
		_, err = f.LogIn(t, identitytest.Email, identitytest.Password)
		wants(t, apperr.CodeUnauthorized, err, "a sign-in")
		wants(t, apperr.CodeNotFound, f.Members.RemoveMember(ctx, actor, p.User.ID), "again")
		require.Equal(t, "member.delete", f.Trail(t)[len(f.Trail(t))-1].Action)
	})
}

// A team can name a role, distinguish it and delete it: names are unique regardless of case, system roles cannot be
// changed, a role in use cannot be deleted, and another team's role does not exist.
func TestRoles(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		ctx := t.Context()
		owner, p := f.Owner(t)
		stranger, _, _ := f.Foreign(t)
		r, err := f.Members.CreateRole(ctx, owner, members.NewRole{Name: "Support",
			Permissions: []access.Permission{access.EventsReplay, access.EventsRead, access.EventsRead}})
		require.NoError(t, err)
		require.Equal(t, []access.Permission{access.EventsRead, access.EventsReplay}, r.Permissions)
		for _, name := range []string{"support", "OWNER"} {
			_, err = f.Members.CreateRole(ctx, owner, members.NewRole{Name: name, Permissions: r.Permissions})
			wants(t, apperr.CodeRoleExists, err, name)
		}
		_, err = f.Members.CreateRole(ctx, owner, members.NewRole{Name: " ", Description: "a\x00",
			Permissions: []access.Permission{access.AccountRead}})
		var violations *apperr.Error
		require.ErrorAs(t, err, &violations)
		require.Len(t, violations.Details, 3)
		_, err = f.Members.GetRole(ctx, stranger, r.ID)
		wants(t, apperr.CodeNotFound, err, "another team's role")
		wants(t, apperr.CodeNotFound, f.Members.DeleteRole(ctx, stranger, r.ID), "another team's role")
		_, err = f.Members.UpdateRole(ctx, stranger, r.ID, members.RoleChange{Name: new("x")})
		wants(t, apperr.CodeNotFound, err, "another team's role")
		wants(t, apperr.CodeNotFound, f.Members.RemoveMember(ctx, stranger, p.User.ID), "another team's member")
		wants(t, apperr.CodeNotFound, f.Members.DeleteBinding(ctx, stranger, f.BindingOf(t, p.User.ID, access.Owner)),
			"another team's binding")
		_, err = f.Members.CreateBinding(ctx, stranger, p.User.ID,
			members.RoleGrant{Role: r.ID, Environment: p.Environments[0].ID})
		require.ErrorAs(t, err, &violations)
		require.Len(t, violations.Details, 3)
		_, err = f.Members.CreateBinding(ctx, stranger, p.User.ID, members.RoleGrant{Role: access.Viewer})
		wants(t, apperr.CodeValidation, err, "another team's member")

		bob := f.Person(t, p.Team.ID, "bob@example.test")
		_, err = f.Members.CreateBinding(ctx, owner, bob.ID, members.RoleGrant{Role: access.Owner,
			Environment: p.Environments[0].ID})
		wants(t, apperr.CodeValidation, err, "an owner of one environment")
		b, err := f.Members.CreateBinding(ctx, owner, bob.ID,
			members.RoleGrant{Role: r.ID, ExpiresMillis: new(clock.Millis(f.Clock.Now().Add(time.Hour)))})
		require.NoError(t, err)
		wants(t, apperr.CodeRoleInUse, f.Members.DeleteRole(ctx, owner, r.ID), "somebody has it")
		_, err = f.Members.UpdateRole(ctx, owner, r.ID,
			members.RoleChange{Permissions: []access.Permission{access.ConnectionsRead}})
		require.NoError(t, err)
		require.Equal(t, []access.Permission{access.ConnectionsRead}, f.Actor(t, p.Team.ID, bob.ID).Rights.Team,
			"for whoever has it, at once")
		f.Clock.Advance(time.Hour)
		require.NoError(t, f.Members.DeleteRole(ctx, owner, r.ID), "an expired binding is in the way")
		_, err = f.Members.GetBinding(ctx, owner, b.ID)
		wants(t, apperr.CodeNotFound, err, "a binding of a role that is gone")
		teamOnly, err := f.Members.CreateRole(ctx, owner, members.NewRole{Name: "namer",
			Permissions: []access.Permission{access.TeamWrite}})
		require.NoError(t, err)
		_, err = f.Members.CreateBinding(ctx, owner, bob.ID, members.RoleGrant{Role: teamOnly.ID,
			Environment: p.Environments[0].ID})
		wants(t, apperr.CodeValidation, err, "a role that brings nothing there")
	})
}

// Roles given in an environment are removed with it.
func TestBindingsGoWithTheirEnvironment(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		owner, p := f.Owner(t)
		bob := f.Person(t, p.Team.ID, "bob@example.test")
		b, err := f.Members.CreateBinding(t.Context(), owner, bob.ID, members.RoleGrant{Role: access.Viewer,
			Environment: p.Environments[0].ID})
		require.NoError(t, err)
		require.NoError(t, f.Team.DeleteEnvironment(t.Context(), owner, p.Environments[0].ID))
		_, err = f.Members.GetBinding(t.Context(), owner, b.ID)
		wants(t, apperr.CodeNotFound, err, "a role in an environment that is gone")
	})
}

// The limits hold: of roles in a team, and of bindings of one person.
func TestRoleLimits(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		owner, p := f.Owner(t)
		bob := f.Person(t, p.Team.ID, "bob@example.test")
		for i := range members.MaxRoles {
			roleID := id.New(id.PrefixRole)
			f.Exec(t, `INSERT INTO roles (id, team_id, name, description, permissions, created_ms, updated_ms)
				VALUES ($1, $2, $3, '', '["team:read"]', 1, 1)`,
				roleID, p.Team.ID, roleID)
			if i < members.MaxBindings {
				f.Bind(t, p.Team.ID, bob.ID, access.Role(roleID), "", nil)
			}
		}
		_, err := f.Members.CreateRole(t.Context(), owner,
			members.NewRole{Name: "one more", Permissions: []access.Permission{access.TeamRead}})
		wants(t, apperr.CodeRolesLimit, err, "roles")
		_, err = f.Members.CreateBinding(t.Context(), owner, bob.ID, members.RoleGrant{Role: access.Viewer})
		wants(t, apperr.CodeRolesLimit, err, "bindings")
	})
}
