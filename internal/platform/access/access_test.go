package access_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
)

// The matrix of roles and permissions, in full: whoever adds a permission says here who has it.
func TestRolePermissions(t *testing.T) {
	t.Parallel()
	const owner, admin, developer, viewer = access.Owner, access.Admin, access.Developer, access.Viewer
	matrix := map[access.Permission][]access.Role{
		access.TeamRead:           {owner, admin, developer, viewer},
		access.TeamWrite:          {owner, admin},
		access.EnvironmentsRead:   {owner, admin, developer},
		access.EnvironmentsWrite:  {owner, admin},
		access.AccountRead:        {owner, admin, developer, viewer},
		access.AccountWrite:       {owner, admin, developer, viewer},
		access.APIKeysRead:        {owner, admin, developer},
		access.APIKeysWrite:       {owner, admin, developer},
		access.ConnectionsRead:    {owner, admin, developer, viewer},
		access.ConnectionsWrite:   {owner, admin, developer},
		access.SubscriptionsRead:  {owner, admin, developer, viewer},
		access.SubscriptionsWrite: {owner, admin, developer},
		access.EventsRead:         {owner, admin, developer, viewer},
		access.EventsReplay:       {owner, admin, developer},
		access.EventsWrite:        {owner, admin, developer},
		access.AuditRead:          {owner, admin},
		access.AuditExport:        {owner},
		access.EventsExpunge:      {owner, admin, developer},
	}
	require.Len(t, matrix, len(access.Permissions()))
	for _, p := range access.Permissions() {
		require.Contains(t, matrix, p)
		for _, r := range access.Roles() {
			user := access.Principal{Kind: access.KindUser, Role: r}
			require.Equal(t, slices.Contains(matrix[p], r), user.Has(p), "%s %s", r, p)
			require.False(t, access.Principal{Kind: access.KindAPIKey, Role: r}.Has(p))
		}
		require.False(t, access.Principal{Kind: access.KindUser, Role: "emperor"}.Has(p))
	}
}
