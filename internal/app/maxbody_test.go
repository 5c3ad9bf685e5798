package app_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/config"
	"sallyport/internal/providers/connections"
)

// The configuration, the rules of a connection and the API's description give the same maximum size of a webhook's
// body: otherwise one of them would accept a limit that another refuses.
func TestMaxBodyIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	require.Equal(t, connections.MaxBodyBytes, config.Default().WebhookMaxBodyBytes)
	load := func(size int64) error {
		_, err := config.Load([]string{fmt.Sprintf("--webhook-max-body-bytes=%d", size)}, nil, os.ReadFile)
		return err
	}
	require.NoError(t, load(connections.MaxBodyBytes))
	require.ErrorContains(t, load(connections.MaxBodyBytes+1), fmt.Sprint("between 1 and ", connections.MaxBodyBytes))

	document, err := os.ReadFile("../../openapi/openapi.json")
	require.NoError(t, err)
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`"max_body_bytes": \{[^}]*"maximum": (\d+)`).FindAllSubmatch(document, -1) {
		found[string(m[1])] = true
	}
	require.Equal(t, []string{strconv.FormatInt(connections.MaxBodyBytes, 10)}, slices.Collect(maps.Keys(found)))
	require.Contains(t, string(document), fmt.Sprintf("in bytes: 1 to %d.", connections.MaxBodyBytes))
}
