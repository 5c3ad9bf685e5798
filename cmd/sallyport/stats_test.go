package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A subscription's statistics are shown as sums and as a table of the times at which something happened; the range is
// given as times or as durations before now.
func TestSubscriptionStats(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		s, r, good, bad := prepare(t, in)
		s.deliver(t, "first")
		s.deliver(t, "second")
		r.eventually(1, "Attempts         2 succeeded, 0 failed, 0 superseded\n", "subscriptions", "stats", good)
		r.eventually(1, "Deliveries    0 succeeded, 2 dead, 0 cancelled\n", "subscriptions", "stats", bad)
		text := r.do("subscriptions", "stats", good, "--bucket", "day", "--from", "48h", "--to", "1ms")
		require.Regexp(t, `(?m)^Attempt time     p50 [\d.]+ ms, p95 [\d.]+ ms, p99 [\d.]+ ms$`, text)
		require.Regexp(t, `(?m)^Open now         0 pending, 0 after a failed attempt, 0 held$`, text)
		require.Regexp(t, `\nBy day, only those with activity\nFROM \(UTC\).*\n`+
			`(\d{4}-\d\d-\d\d 00:00  [012] +0 +0 +0 +[\d.]+ +[\d.]+ +[\d.]+\n)+$`, text)
		require.Contains(t, r.do("subscriptions", "stats", good, "--from=2h", "--to=1h", "--bucket=minute"),
			"\nBy minute, only those with activity: none\n")
		require.Equal(t, int64(2), decode[stats](t, r.do("subscriptions", "stats", good,
			"--json")).Total.Deliveries.Succeeded)

		r.refuse(exitUsage, "--bucket must be one of", "subscriptions", "stats", good, "--bucket", "week")
		r.refuse(exitUsage, "from: ", "subscriptions", "stats", good, "--from", "1h", "--to", "2h")
		r.refuse(exitUsage, "nor a duration such as 48h", "subscriptions", "stats", good, "--from", "yesterday")
		r.refuse(exitFailed, "not_found", "subscriptions", "stats", "sub_none")
	})
}
