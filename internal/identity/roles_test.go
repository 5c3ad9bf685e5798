package identity

import (
	"database/sql"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// person adds a member with roles in the whole team and returns them as the actor of a request.
func (f fixture) person(t *testing.T, team id.Team, email string, roles ...access.Role) access.Principal {
	t.Helper()
	user := User{ID: id.New(id.PrefixUser), Email: email}
	require.NoError(t, f.store.DB.Tx(t.Context(), func(tx *sql.Tx) error {
		require.NoError(t, insertUser(t.Context(), tx, user, "x", 1))
		return insertMembership(t.Context(), tx, team, user.ID, 1)
	}))
	for _, r := range roles {
		f.bind(t, team, user.ID, r, "", nil)
	}
	return f.actor(t, team, user.ID)
}

// actor returns a member with the rights that they have now.
func (f fixture) actor(t *testing.T, team id.Team, user string) access.Principal {
	t.Helper()
	m, ok, err := readMember(t.Context(), f.store.DB.Read(), team, user, f.clk.Now())
	require.NoError(t, err)
	require.True(t, ok)
	return m.principal("")
}

func (f fixture) bindingOf(t *testing.T, user string, role access.Role) string {
	t.Helper()
	var bindingID string
	require.NoError(t, f.store.DB.Read().QueryRowContext(t.Context(),
		"SELECT id FROM role_bindings WHERE principal_id = $1 AND role = $2", user, role).
		Scan(&bindingID))
	return bindingID
}

func wants(t *testing.T, code apperr.Code, err error, what string) {
	t.Helper()
	require.True(t, apperr.Is(err, code), "%s: %v", what, err)
}

// The attacks on what one holds: nobody gets or gives more through a role, a change of one, or a binding, nor through
// rights that they had when the request was let in; and nobody but an owner touches an owner. Nothing is written on the
// way.
func TestNobodyGivesMoreThanTheyHold(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		owner, p := f.owner(t)
		team, env := p.Team.ID, p.Environments[0].ID
		// Whoever may make and give roles and do little else.
		clerk, err := f.CreateRole(ctx, owner, NewRole{Name: "clerk", Permissions: []access.Permission{access.RolesRead,
			access.RolesWrite, access.MembersWrite, access.EventsRead}})
		require.NoError(t, err)
		mallory := f.person(t, team, "mallory@example.test", clerk.ID)
		admin := f.person(t, team, "admin@example.test", access.Admin)
		bob := f.person(t, team, "bob@example.test")
		ownerBinding := f.bindingOf(t, p.User.ID, access.Owner)
		before := len(f.trail(t))
		attempts := map[string]func() error{
			"a role with more": func() error {
				_, err := f.CreateRole(ctx, mallory, NewRole{Name: "x", Permissions: []access.Permission{access.EventsRead,
					access.APIKeysWrite}})
				return err
			},
			"their own role, widened": func() error {
				_, err := f.UpdateRole(ctx, mallory, clerk.ID, RoleChange{Permissions: append(slices.Clone(clerk.Permissions),
					access.OwnersWrite)})
				return err
			},
			"a stronger role for themselves": func() error {
				_, err := f.CreateBinding(ctx, mallory, mallory.ID, RoleGrant{Role: access.Admin})
				return err
			},
			"a stronger role for a friend, in one environment": func() error {
				_, err := f.CreateBinding(ctx, mallory, bob.ID, RoleGrant{Role: access.Developer, Environment: env})
				return err
			},
			"an owner, by an admin": func() error {
				_, err := f.CreateBinding(ctx, admin, admin.ID, RoleGrant{Role: access.Owner})
				return err
			},
			"an auditor, by an admin": func() error {
				_, err := f.CreateBinding(ctx, admin, bob.ID, RoleGrant{Role: access.Auditor})
				return err
			},
			"a role to decide on owners, by an admin": func() error {
				_, err := f.CreateRole(ctx, admin, NewRole{Name: "x", Permissions: []access.Permission{access.OwnersWrite}})
				return err
			},
			"what others call": func() error {
				return f.store.DB.Tx(ctx, func(tx *sql.Tx) error {
					return f.CheckHeld(ctx, tx, mallory, env, access.EventsRead, access.APIKeysWrite)
				})
			},
			"an invitation": func() error {
				return f.store.DB.Tx(ctx, func(tx *sql.Tx) error {
					return f.CheckGrant(ctx, tx, mallory, RoleGrant{Role: access.Viewer})
				})
			},
			"an invitation that is accepted": func() error {
				return f.store.DB.Tx(ctx, func(tx *sql.Tx) error {
					_, err := f.Bind(ctx, tx, mallory, bob.ID, RoleGrant{Role: access.Viewer})
					return err
				})
			},
		}
		for what, attempt := range attempts {
			wants(t, apperr.CodePrivilegeEscalation, attempt(), what)
		}
		for what, attempt := range map[string]func() error{
			"an admin takes an owner's role": func() error { return f.DeleteBinding(ctx, admin, ownerBinding) },
			"an admin lets an owner's role end": func() error {
				_, err := f.UpdateBinding(ctx, admin, ownerBinding, new(clock.Millis(f.clk.Now().Add(time.Hour))))
				return err
			},
			"an admin removes an owner": func() error { return f.RemoveMember(ctx, admin, p.User.ID) },
			"an admin disables an owner": func() error {
				_, err := f.SetMemberDisabled(ctx, admin, p.User.ID, true)
				return err
			},
			"a system role is changed": func() error {
				_, err := f.UpdateRole(ctx, owner, access.Viewer, RoleChange{Name: new("x")})
				return err
			},
			"a system role is deleted": func() error { return f.DeleteRole(ctx, owner, access.Viewer) },
			"a role is made without the right": func() error {
				_, err := f.CreateRole(ctx, bob, NewRole{Name: "x", Permissions: []access.Permission{access.EventsRead}})
				return err
			},
			"a role is given without the right": func() error {
				_, err := f.CreateBinding(ctx, bob, bob.ID, RoleGrant{Role: access.Viewer})
				return err
			},
			"a member is removed without a right": func() error { return f.RemoveMember(ctx, bob, mallory.ID) },
		} {
			wants(t, apperr.CodeForbidden, attempt(), what)
		}
		require.Len(t, f.trail(t), before, "a refused attempt has changed something")

		// The rights with which the request was let in were taken meanwhile.
		require.NoError(t, f.DeleteBinding(ctx, owner, f.bindingOf(t, admin.ID, access.Admin)))
		_, err = f.CreateBinding(ctx, admin, admin.ID, RoleGrant{Role: access.Viewer})
		wants(t, apperr.CodeForbidden, err, "rights of before")
		wants(t, apperr.CodePrivilegeEscalation, f.store.DB.Tx(ctx, func(tx *sql.Tx) error {
			return f.CheckHeld(ctx, tx, admin, env, access.EventsRead)
		}), "rights of before")
		require.NoError(t, f.RemoveMember(ctx, owner, admin.ID))
		_, err = f.CreateRole(ctx, admin, NewRole{Name: "x", Permissions: []access.Permission{access.EventsRead}})
		wants(t, apperr.CodeUnauthorized, err, "a removed member")

		// What one holds in one environment can be given there and nowhere else.
		f.bind(t, team, mallory.ID, access.Developer, env, nil)
		_, err = f.CreateBinding(ctx, mallory, bob.ID, RoleGrant{Role: access.Developer, Environment: env})
		require.NoError(t, err)
		_, err = f.CreateBinding(ctx, mallory, bob.ID, RoleGrant{Role: access.Developer, Environment: p.Environments[1].ID})
		wants(t, apperr.CodePrivilegeEscalation, err, "elsewhere")
		_, err = f.CreateBinding(ctx, mallory, bob.ID, RoleGrant{Role: access.Developer})
		wants(t, apperr.CodePrivilegeEscalation, err, "everywhere")
		_, err = f.CreateRole(ctx, mallory, NewRole{Name: "x", Permissions: []access.Permission{access.APIKeysWrite}})
		wants(t, apperr.CodePrivilegeEscalation, err, "a role can be given everywhere")
		require.NoError(t, f.store.DB.Tx(ctx, func(tx *sql.Tx) error {
			return f.CheckHeld(ctx, tx, access.System("cli"), "", access.Grantable()...)
		}))
	})
}

// A role that ends cannot be made to last by somebody who could not give it, though they may end it earlier.
func TestExpiryIsGivenLikeARole(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		owner, p := f.owner(t)
		at := func(d time.Duration) *int64 { return new(clock.Millis(f.clk.Now().Add(d))) }
		admin := f.person(t, p.Team.ID, "admin@example.test", access.Admin)
		bob := f.person(t, p.Team.ID, "bob@example.test")
		b, err := f.CreateBinding(ctx, owner, bob.ID, RoleGrant{Role: access.Auditor, ExpiresMillis: at(time.Hour)})
		require.NoError(t, err)
		for _, longer := range []*int64{nil, at(2 * time.Hour)} {
			_, err = f.UpdateBinding(ctx, admin, b.ID, longer)
			wants(t, apperr.CodePrivilegeEscalation, err, "longer")
		}
		got, err := f.UpdateBinding(ctx, admin, b.ID, at(time.Minute))
		require.NoError(t, err)
		require.Equal(t, at(time.Minute), got.ExpiresMillis)
		_, err = f.UpdateBinding(ctx, owner, b.ID, at(0))
		wants(t, apperr.CodeValidation, err, "a time that has come")
		require.True(t, f.actor(t, p.Team.ID, bob.ID).Has(access.AuditExport))
		f.clk.Advance(time.Minute)
		require.False(t, f.actor(t, p.Team.ID, bob.ID).Has(access.AuditExport))
		_, err = f.GetBinding(ctx, owner, b.ID)
		wants(t, apperr.CodeNotFound, err, "an expired binding")
		_, err = f.CreateBinding(ctx, owner, bob.ID, RoleGrant{Role: access.Auditor})
		require.NoError(t, err, "an expired binding is in the way")
		_, err = f.CreateBinding(ctx, owner, bob.ID, RoleGrant{Role: access.Auditor})
		wants(t, apperr.CodeRoleBindingExists, err, "the same again")
	})
}

// A team keeps an owner whose role does not end by itself, whatever is tried, and by whom.
func TestLastOwner(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		owner, p := f.owner(t)
		first := f.bindingOf(t, p.User.ID, access.Owner)
		soon := new(clock.Millis(f.clk.Now().Add(time.Hour)))
		attempts := map[string]func() error{
			"leave":      func() error { return f.RemoveMember(ctx, owner, p.User.ID) },
			"disable":    func() error { _, err := f.SetMemberDisabled(ctx, owner, p.User.ID, true); return err },
			"demote":     func() error { return f.DeleteBinding(ctx, owner, first) },
			"expire":     func() error { _, err := f.UpdateBinding(ctx, owner, first, soon); return err },
			"by command": func() error { return f.DeleteBinding(ctx, access.System("cli"), first) },
		}
		refused := func(when string) {
			t.Helper()
			before := len(f.trail(t))
			for what, attempt := range attempts {
				wants(t, apperr.CodeLastOwner, attempt(), what+" "+when)
			}
			require.Len(t, f.trail(t), before)
		}
		refused("alone")
		// Neither an owner for a time nor a disabled one counts.
		brief := f.person(t, p.Team.ID, "brief@example.test")
		_, err := f.CreateBinding(ctx, owner, brief.ID, RoleGrant{Role: access.Owner, ExpiresMillis: soon})
		require.NoError(t, err)
		gone := f.person(t, p.Team.ID, "gone@example.test", access.Owner)
		_, err = f.SetMemberDisabled(ctx, owner, gone.ID, true)
		require.NoError(t, err)
		refused("beside a brief and a disabled one")
		_, err = f.SetMemberDisabled(ctx, owner, gone.ID, false)
		require.NoError(t, err)
		require.NoError(t, f.RemoveMember(ctx, owner, p.User.ID), "there is another owner")
	})
}

// Two owners who remove each other at the same time leave one.
func TestLastOwnerUnderConcurrency(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		_, p := f.owner(t)
		var owners []access.Principal
		for _, email := range []string{"b@example.test", "c@example.test", "d@example.test"} {
			owners = append(owners, f.person(t, p.Team.ID, email, access.Owner))
		}
		owners = append(owners, f.actor(t, p.Team.ID, p.User.ID))
		other := f.another(t)
		require.NoError(t, other.Init(t.Context(), false))
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i, actor := range owners {
			for j, victim := range owners {
				wg.Go(func() {
					<-start
					s := []*Service{f.Service, other}[(i+j)%2]
					switch (i + j) % 3 {
					case 0:
						_ = s.RemoveMember(t.Context(), actor, victim.ID)
					case 1:
						_, _ = s.SetMemberDisabled(t.Context(), actor, victim.ID, true)
					default:
						list, _ := s.ListBindings(t.Context(), actor, BindingFilter{PrincipalIDs: []string{victim.ID}},
							page.Request{Limit: 5})
						for _, b := range list {
							_ = s.DeleteBinding(t.Context(), actor, b.ID)
						}
					}
				})
			}
		}
		close(start)
		wg.Wait()
		require.NoError(t, f.store.DB.Tx(t.Context(), func(tx *sql.Tx) error {
			kept, err := hasLastingOwner(t.Context(), tx, p.Team.ID)
			require.True(t, kept, "nobody owns the team any more")
			return err
		}))
	})
}

// A removed or disabled member is out at once, with their sessions; an enabled one has their roles again and signs in
// anew.
func TestRemovedMembers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		_, err := f.CreateOwner(ctx, access.System("test"), "", "boss@example.test", testPassword)
		require.NoError(t, err)
		_, p := f.owner(t)
		boss, err := f.signIn(t, "boss@example.test", testPassword)
		require.NoError(t, err)
		actor := f.bearer(t, boss.Token)
		in := f.signedIn(t)
		m, err := f.SetMemberDisabled(ctx, actor, p.User.ID, true)
		require.NoError(t, err)
		require.NotNil(t, m.DisabledMillis)
		f.refused(t, in.Token)
		_, err = f.Refresh(ctx, testClient(), in.Refresh)
		wants(t, apperr.CodeUnauthorized, err, "a refresh")
		_, err = f.signIn(t, testEmail, testPassword)
		wants(t, apperr.CodeUnauthorized, err, "a sign-in")
		_, err = f.SetMemberDisabled(ctx, actor, p.User.ID, false)
		require.NoError(t, err)
		f.refused(t, in.Token)
		in = f.signedIn(t)
		require.True(t, f.bearer(t, in.Token).HasIn("", access.OwnersWrite))
		before := f.count(t, "audit_events")
		_, err = f.SetMemberDisabled(ctx, actor, p.User.ID, false)
		require.NoError(t, err)
		require.Equal(t, before, f.count(t, "audit_events"), "nothing has changed")
		require.NoError(t, f.RemoveMember(ctx, actor, p.User.ID))
		f.refused(t, in.Token)
		_, err = f.signIn(t, testEmail, testPassword)
		wants(t, apperr.CodeUnauthorized, err, "a sign-in")
		wants(t, apperr.CodeNotFound, f.RemoveMember(ctx, actor, p.User.ID), "again")
		require.Equal(t, "member.delete", f.trail(t)[len(f.trail(t))-1].action)
	})
}

// A role is one that the team can name, keep apart and get rid of: names are unique whatever their case, system roles
// stay theirs, what somebody has cannot be deleted, and another team's role is not there.
func TestRoles(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		owner, p := f.owner(t)
		stranger, _, _ := f.foreign(t)
		r, err := f.CreateRole(ctx, owner, NewRole{Name: "Support", Permissions: []access.Permission{access.EventsReplay,
			access.EventsRead, access.EventsRead}})
		require.NoError(t, err)
		require.Equal(t, []access.Permission{access.EventsRead, access.EventsReplay}, r.Permissions)
		for _, name := range []string{"support", "OWNER"} {
			_, err = f.CreateRole(ctx, owner, NewRole{Name: name, Permissions: r.Permissions})
			wants(t, apperr.CodeRoleExists, err, name)
		}
		_, err = f.CreateRole(ctx, owner, NewRole{Name: " ", Description: "a\x00",
			Permissions: []access.Permission{access.AccountRead}})
		var faults *apperr.Error
		require.ErrorAs(t, err, &faults)
		require.Len(t, faults.Details, 3)
		_, err = f.GetRole(ctx, stranger, r.ID)
		wants(t, apperr.CodeNotFound, err, "another team's role")
		wants(t, apperr.CodeNotFound, f.DeleteRole(ctx, stranger, r.ID), "another team's role")
		_, err = f.UpdateRole(ctx, stranger, r.ID, RoleChange{Name: new("x")})
		wants(t, apperr.CodeNotFound, err, "another team's role")
		wants(t, apperr.CodeNotFound, f.RemoveMember(ctx, stranger, p.User.ID), "another team's member")
		wants(t, apperr.CodeNotFound, f.DeleteBinding(ctx, stranger, f.bindingOf(t, p.User.ID, access.Owner)),
			"another team's binding")
		_, err = f.CreateBinding(ctx, stranger, p.User.ID, RoleGrant{Role: r.ID, Environment: p.Environments[0].ID})
		require.ErrorAs(t, err, &faults)
		require.Len(t, faults.Details, 3)
		_, err = f.CreateBinding(ctx, stranger, p.User.ID, RoleGrant{Role: access.Viewer})
		wants(t, apperr.CodeValidation, err, "another team's member")

		bob := f.person(t, p.Team.ID, "bob@example.test")
		_, err = f.CreateBinding(ctx, owner, bob.ID, RoleGrant{Role: access.Owner, Environment: p.Environments[0].ID})
		wants(t, apperr.CodeValidation, err, "an owner of one environment")
		b, err := f.CreateBinding(ctx, owner, bob.ID,
			RoleGrant{Role: r.ID, ExpiresMillis: new(clock.Millis(f.clk.Now().Add(time.Hour)))})
		require.NoError(t, err)
		wants(t, apperr.CodeRoleInUse, f.DeleteRole(ctx, owner, r.ID), "somebody has it")
		_, err = f.UpdateRole(ctx, owner, r.ID, RoleChange{Permissions: []access.Permission{access.ConnectionsRead}})
		require.NoError(t, err)
		require.Equal(t, []access.Permission{access.ConnectionsRead}, f.actor(t, p.Team.ID, bob.ID).Rights.Team,
			"for whoever has it, at once")
		f.clk.Advance(time.Hour)
		require.NoError(t, f.DeleteRole(ctx, owner, r.ID), "an expired binding is in the way")
		_, err = f.GetBinding(ctx, owner, b.ID)
		wants(t, apperr.CodeNotFound, err, "a binding of a role that is gone")
		teamOnly, err := f.CreateRole(ctx, owner, NewRole{Name: "namer", Permissions: []access.Permission{access.TeamWrite}})
		require.NoError(t, err)
		_, err = f.CreateBinding(ctx, owner, bob.ID, RoleGrant{Role: teamOnly.ID, Environment: p.Environments[0].ID})
		wants(t, apperr.CodeValidation, err, "a role that brings nothing there")
	})
}

// What was given in an environment goes with it.
func TestBindingsGoWithTheirEnvironment(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		owner, p := f.owner(t)
		f.Ask(holding(nil))
		bob := f.person(t, p.Team.ID, "bob@example.test")
		b, err := f.CreateBinding(t.Context(), owner, bob.ID, RoleGrant{Role: access.Viewer,
			Environment: p.Environments[0].ID})
		require.NoError(t, err)
		require.NoError(t, f.DeleteEnvironment(t.Context(), owner, p.Environments[0].ID))
		_, err = f.GetBinding(t.Context(), owner, b.ID)
		wants(t, apperr.CodeNotFound, err, "a role in an environment that is gone")
	})
}

// The limits hold: of roles in a team, and of bindings of one person.
func TestRoleLimits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		owner, p := f.owner(t)
		bob := f.person(t, p.Team.ID, "bob@example.test")
		for i := range MaxRoles {
			roleID := id.New(id.PrefixRole)
			f.exec(t, `INSERT INTO roles (id, team_id, name, description, permissions, created_ms, updated_ms) VALUES ($1, $2, $3, '', '["team:read"]', 1, 1)`,
				roleID, p.Team.ID, roleID)
			if i < MaxBindings {
				f.bind(t, p.Team.ID, bob.ID, access.Role(roleID), "", nil)
			}
		}
		_, err := f.CreateRole(t.Context(), owner,
			NewRole{Name: "one more", Permissions: []access.Permission{access.TeamRead}})
		wants(t, apperr.CodeRolesLimit, err, "roles")
		_, err = f.CreateBinding(t.Context(), owner, bob.ID, RoleGrant{Role: access.Viewer})
		wants(t, apperr.CodeRolesLimit, err, "bindings")
	})
}
