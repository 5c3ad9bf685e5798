package connections_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/id"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/credentials"
)

// An environment with many wrong credentials of a provider does not keep the gateway from believing the provider about
// those of another environment. Three environments do: then it is probably the provider.
func TestCrowdCountsEnvironments(t *testing.T) {
	t.Parallel()
	believes, now := connections.Believes(time.Hour), time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	refuse := func(env id.Environment, uuid string) bool {
		return believes(&connections.Connection{UUID: uuid, Environment: env, EnabledStatus: connections.Active,
			Credentials: &credentials.Set{Hosts: []string{"api.example.com"}}}, now)
	}
	require.True(t, refuse("env_a", "1"))
	require.True(t, refuse("env_a", "2"))
	require.False(t, refuse("env_a", "3"), "most of its own are refused")
	require.True(t, refuse("env_b", "4"))
	require.False(t, refuse("env_c", "5"), "three environments are refused")
}
