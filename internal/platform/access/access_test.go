package access_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/id"
)

// The matrix of system roles and permissions, in full: each new permission is added here.
func TestSystemRoles(t *testing.T) {
	t.Parallel()
	const owner, admin, developer, approver, auditor, viewer = access.Owner, access.Admin, access.Developer,
		access.Approver, access.Auditor, access.Viewer
	everybody := []access.Role{owner, admin, developer, approver, auditor, viewer}
	building := []access.Role{owner, admin, developer}
	matrix := map[access.Permission][]access.Role{
		access.TeamRead:           {owner, admin, auditor},
		access.TeamWrite:          {owner, admin},
		access.MembersRead:        {owner, admin, auditor},
		access.MembersWrite:       {owner, admin},
		access.RolesRead:          {owner, admin, auditor},
		access.RolesWrite:         {owner, admin},
		access.OwnersWrite:        {owner},
		access.EnvironmentsRead:   {owner, admin, developer, auditor},
		access.EnvironmentsWrite:  {owner, admin},
		access.APIKeysRead:        {owner, admin, developer, auditor},
		access.APIKeysWrite:       building,
		access.ConnectionsRead:    everybody,
		access.ConnectionsWrite:   building,
		access.ConfigsRead:        everybody,
		access.ConfigsWrite:       building,
		access.SubscriptionsRead:  everybody,
		access.SubscriptionsWrite: building,
		access.EventsRead:         everybody,
		access.CatalogRead:        everybody,
		access.CatalogWrite:       building,
		access.CatalogRisk:        {owner, admin},
		access.ActionsExecute:     building,
		access.ExecutionsRead:     {owner, admin, developer, approver, auditor},
		access.CallsRead:          {owner, admin, developer, approver, auditor},
		access.EventsReplay:       building,
		access.EventsWrite:        building,
		access.EventsExpunge:      building,
		access.AuditRead:          {owner, admin, approver, auditor},
		access.AuditExport:        {owner, auditor},
		access.SSORead:            {owner, admin, auditor},
		access.SSOWrite:           {owner, admin},
	}
	require.ElementsMatch(t, everybody, access.SystemRoles())
	require.Equal(t, access.Grantable(), access.Owner.Permissions(), "an owner may do everything")
	require.Len(t, matrix, len(access.Grantable()))
	for _, p := range access.Grantable() {
		require.Contains(t, matrix, p)
		for _, r := range everybody {
			user := access.Principal{Kind: access.KindUser, Rights: r.Rights()}
			require.Equal(t, slices.Contains(matrix[p], r), user.Has(p), "%s %s", r, p)
			require.False(t, access.Principal{Kind: access.KindAPIKey, Rights: r.Rights()}.Has(p), "rights are of users")
		}
		require.False(t, access.Principal{Kind: access.KindUser, Rights: access.Role("emperor").Rights()}.Has(p))
	}
}

// The API lists the permissions of a role in an order that does not change: a client may compare lists.
func TestOrderOfPermissions(t *testing.T) {
	t.Parallel()
	require.Equal(t, []access.Permission{access.ConnectionsRead, access.ConfigsRead, access.CatalogRead,
		access.SubscriptionsRead,
		access.EventsRead, access.TeamRead, access.MembersRead, access.RolesRead, access.EnvironmentsRead, access.APIKeysRead,
		access.ExecutionsRead, access.CallsRead, access.AuditRead, access.AuditExport,
		access.SSORead}, access.Auditor.Permissions())
	for _, r := range access.SystemRoles() {
		if r == access.Auditor {
			continue
		}
		require.Equal(t, slices.DeleteFunc(access.Grantable(), func(p access.Permission) bool {
			return !slices.Contains(r.Permissions(), p)
		}), r.Permissions(), r)
	}
}

// Each permission is described once and is of one form.
func TestRegistry(t *testing.T) {
	t.Parallel()
	seen := map[access.Permission]bool{}
	for _, i := range access.Registry() {
		require.False(t, seen[i.Permission], i.Permission)
		seen[i.Permission] = true
		require.Regexp(t, `^[a-z_]+:[a-z_]+$`, string(i.Permission))
		require.Contains(t, access.Levels(), i.Level)
		require.Regexp(t, `^[A-Z].*\.$`, i.Meaning)
	}
}

// A member's own account is theirs without any role. No one else's is, and no key has one.
func TestOwnAccount(t *testing.T) {
	t.Parallel()
	for _, p := range access.OwnAccount() {
		require.True(t, access.Principal{Kind: access.KindUser}.Has(p))
		require.False(t, access.Principal{Kind: access.KindAPIKey}.Has(p))
		require.False(t, access.Principal{}.Has(p))
		require.NotContains(t, access.Grantable(), p)
	}
}

// For any set of roles, a permission applies in an environment if one of them brings it in the team or there, and in
// the team only if one brings it in the team. A right in the team never comes from a role in an environment.
func TestRights(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		scopes := []id.Environment{"", "env_a", "env_b"}
		var rights access.Rights
		want := map[id.Environment]map[access.Permission]bool{"": {}, "env_a": {}, "env_b": {}}
		for range rapid.IntRange(0, 6).Draw(t, "roles") {
			scope := rapid.SampledFrom(scopes).Draw(t, "scope")
			list := rapid.SliceOf(rapid.SampledFrom(access.Grantable())).Draw(t, "permissions")
			rights.Add(scope, list)
			for _, p := range list {
				switch {
				case scope == "":
					for _, s := range scopes {
						want[s][p] = true
					}
				case slices.Contains(access.InEnvironments(), p):
					want[scope][p] = true
				}
			}
		}
		user := access.Principal{Kind: access.KindUser, Rights: rights}
		for _, s := range scopes {
			enters := false
			for _, p := range access.Grantable() {
				require.Equal(t, want[s][p], user.HasIn(s, p), "%s in %q", p, s)
				inside := slices.Contains(access.InEnvironments(), p)
				require.Equal(t, want[s][p] && (s == "" || inside), slices.Contains(rights.In(s), p), "%s in %q", p, s)
				enters = enters || s != "" && inside && want[s][p]
				missing, lacks := rights.Missing(s, []access.Permission{p})
				require.Equal(t, !want[s][p], lacks)
				require.Equal(t, lacks, missing == p)
			}
			require.Equal(t, enters, user.Enters(s), s)
		}
		require.Equal(t, want["env_a"][access.EventsRead], access.Principal{Kind: access.KindUser, Rights: rights,
			Environment: "env_a"}.Has(access.EventsRead))
	})
}
