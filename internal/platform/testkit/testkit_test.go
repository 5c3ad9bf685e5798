package testkit_test

import (
	"flag"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	_ "pgregory.net/rapid" // defines the flag

	"sallyport/internal/platform/testkit"
)

// The tests say on which engines they run, and fail where one is required and missing.
func TestEngines(t *testing.T) {
	t.Parallel()
	words, postgres, err := testkit.Engines()
	require.NoError(t, err)
	t.Log("the tests run on " + words)
	if os.Getenv(testkit.RequireEngines) != "" {
		require.True(t, postgres, words)
	}
}

// Tests of stores run on every engine there is, whether or not the long tests run.
func TestEachRunsOnEveryEngine(t *testing.T) { //nolint:paralleltest // sets a variable of the environment
	_, postgres, err := testkit.Engines()
	require.NoError(t, err)
	for _, long := range []string{"", "1"} { //nolint:paralleltest // each ends before the variable changes
		t.Setenv(testkit.LongTests, long)
		var onSQLite, onPostgres atomic.Bool
		t.Run("long="+long, func(t *testing.T) {
			testkit.Each(t, func(_ *testing.T, s testkit.Store) {
				(map[bool]*atomic.Bool{false: &onSQLite, true: &onPostgres})[s.URL != ""].Store(true)
			})
		})
		require.True(t, onSQLite.Load())
		require.Equal(t, postgres, onPostgres.Load())
	}
}

// The limit on the cases of properties does not apply to long tests.
func TestLimitProperties(t *testing.T) {
	checks := flag.Lookup("rapid.checks").Value
	before := checks.String()
	t.Cleanup(func() { require.NoError(t, checks.Set(before)) })
	long, short := "60", "12"
	if testkit.Race {
		long, short = "8", "8"
	}
	t.Setenv(testkit.LongTests, "1")
	testkit.LimitProperties()
	require.Equal(t, long, checks.String())
	t.Setenv(testkit.LongTests, "")
	testkit.LimitProperties()
	require.Equal(t, short, checks.String())
}
