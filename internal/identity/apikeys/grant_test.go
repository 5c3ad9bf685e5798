package apikeys

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
)

// naive says what one grant after the other makes of one route and one connection at a time: the rules as the guide has
// them, for what is about no connection where the id is empty.
func naive(grants []Grant, route access.Route, connection string, nowMillis int64) bool {
	says := func(effect Effect, r access.Route) bool {
		return slices.ContainsFunc(grants, func(g Grant) bool {
			return g.Effect == effect && slices.Contains(g.Routes, r) &&
				(g.Connections == nil || slices.Contains(g.Connections, connection)) &&
				(g.NotAfterMillis == nil || nowMillis < *g.NotAfterMillis)
		})
	}
	open := func(r access.Route) bool { return says(Allow, r) && !says(Deny, r) }
	webhooks := open(access.RouteWebhooks) && !says(Deny, access.RouteEvents)
	switch route {
	case access.RouteWebhooks:
		return webhooks
	case access.RouteEvents:
		return open(route) || webhooks
	default:
		return open(route)
	}
}

func drawGrant(t *rapid.T) Grant {
	names := []string{"acme", "globex", "initech"}
	g := Grant{Effect: rapid.SampledFrom(effects()).Draw(t, "effect"),
		Routes: rapid.SliceOfN(rapid.SampledFrom(access.Routes()), 1, 3).Draw(t, "routes")}
	if rapid.Bool().Draw(t, "bounded") {
		g.Connections = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID[string]).Draw(t, "connections")
	}
	if rapid.Bool().Draw(t, "ends") {
		g.NotAfterMillis = new(rapid.Int64Range(0, 4).Draw(t, "not after"))
	}
	return g
}

// The compiled rights of a key say what its grants say one by one: for every route, for connections that grants name,
// for one that none does, and for what is about none. They hold exactly as long as they claim.
func TestRightsAreWhatTheGrantsSay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		grants := rapid.SliceOfN(rapid.Custom(drawGrant), 0, 6).Draw(t, "grants")
		rights, until := openGrants(grants, 0)
		for now := range int64(5) {
			if now >= until {
				rights, until = openGrants(grants, now)
				require.Greater(t, until, now)
			}
			for _, route := range access.Routes() {
				for _, connection := range []string{"acme", "globex", "initech", "umbrella", ""} {
					require.Equal(t, naive(grants, route, connection, now), rights.Bound(route).Contains(connection), "%s %q at %d",
						route, connection, now)
				}
			}
		}
	})
}

// A denial opens nothing, and closes what it names.
func TestDenialOnlyCloses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		grants := rapid.SliceOfN(rapid.Custom(drawGrant), 0, 6).Draw(t, "grants")
		denial := drawGrant(t)
		denial.Effect, denial.NotAfterMillis = Deny, nil
		before, _ := openGrants(grants, 0)
		after, _ := openGrants(append(grants, denial), 0)
		for _, route := range access.Routes() {
			require.True(t, after.Bound(route).Minus(before.Bound(route)).Empty(), "a denial opened something")
			if slices.Contains(denial.Routes, route) {
				for _, c := range denial.Connections {
					require.False(t, after.Bound(route).Contains(c))
				}
			}
		}
	})
}

// A text that cannot be the name of a connection cannot be a connection of a grant.
func TestGrantConnections(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		connections []string
		rule        string
	}{
		{[]string{}, "min_items"}, {[]string{""}, "pattern"}, {[]string{"a b"}, "pattern"}, {[]string{"-a"}, "pattern"},
		{[]string{"a*"}, "pattern"}, {[]string{"a", "a"}, "unique"}, {[]string{"a", "*"}, "alone"},
		{make([]string, MaxGrantConnections+1), "max_items"},
	} {
		g := Grant{Effect: Allow, Routes: []access.Route{access.RouteEvents}}
		g.Connections = c.connections
		violations := GrantViolations(g, now)
		require.Len(t, violations, 1, c.connections)
		require.Equal(t, c.rule, violations[0].Rule)
	}
	g := Grant{Effect: Allow, Routes: []access.Route{access.RouteEvents}}
	g.Connections = []string{"acme-production", "A.b_c:d@e", "0"}
	require.Empty(t, GrantViolations(g, now))
}
