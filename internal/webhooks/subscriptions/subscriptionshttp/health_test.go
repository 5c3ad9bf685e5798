package subscriptionshttp

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/webhooks/subscriptions"
)

// Health is shown with all that is known. A rate of 1 means that no attempt failed.
func TestHealthOnTheWire(t *testing.T) {
	t.Parallel()
	since, p95 := time.UnixMilli(1_750_000_000_123), 45_300*time.Microsecond
	text, err := json.Marshal(viewHealth(subscriptions.Health{FailingSince: &since, NextProbe: since.Add(30 * time.Second),
		ConsecutiveFailures: 12, SuccessRate: new(99_999.0 / 100_000), P95: &p95}))
	require.NoError(t, err)
	require.JSONEq(t, `{"state":"failing","failing_since":"2025-06-15T15:06:40.123Z",
		"next_probe_at":"2025-06-15T15:07:10.123Z","consecutive_failures":12,"success_rate_1h":0.9999,"p95_ms":45.3}`,
		string(text))
	require.InDelta(t, 1.0, *viewHealth(subscriptions.Health{SuccessRate: new(1.0)}).SuccessRate, 0)
}
