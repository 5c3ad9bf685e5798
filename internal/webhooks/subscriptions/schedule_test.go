package subscriptions

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every page that names the default retry schedule names the one that applies.
func TestDocumentsNameTheDefaultSchedule(t *testing.T) {
	t.Parallel()
	var steps []string
	for _, seconds := range defaultRetrySchedule() {
		step := time.Duration(seconds * float64(time.Second))
		switch {
		case step < time.Minute:
			steps = append(steps, fmt.Sprintf("%d s", step/time.Second))
		case step < time.Hour:
			steps = append(steps, fmt.Sprintf("%d min", step/time.Minute))
		default:
			steps = append(steps, fmt.Sprintf("%d h", step/time.Hour))
		}
	}
	last := len(steps) - 1
	list, err := json.Marshal(defaultRetrySchedule())
	require.NoError(t, err)
	for page, want := range map[string]string{
		"docs/arch/states.md":                    "schedule is " + strings.Join(steps, ", ") + ".",
		"docs/guides/verify-what-we-send-you.md": "after " + strings.Join(steps[:last], ", ") + " and " + steps[last] + ".",
		"openapi/openapi.json":                   "Default `" + strings.ReplaceAll(string(list), ",", ", ") + "`.",
	} {
		text, err := os.ReadFile("../../../" + page)
		require.NoError(t, err)
		require.Contains(t, strings.Join(strings.Fields(string(text)), " "), want, page)
	}
}
