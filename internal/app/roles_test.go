package app_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/app"
	"sallyport/internal/platform/role"
)

// Each service and job is listed by the nodes that run it, so that one that is added is thought about: one that belongs
// to workers and runs everywhere sends from nodes that must not, and one that belongs to every node and runs on workers
// alone stops with them.
func TestPartsOfTheWork(t *testing.T) {
	t.Parallel()
	want := map[role.Part][]string{
		role.EveryNode: {"event-partitions", "follow-keyset", "log-outages", "make-partitions", "measure-deliveries",
			"measure-fanouts", "number-audit-events", "probe-store", "rate-limits", "read-wanted-indexes", "register-node",
			"share-provider-limits", "token-exchanges", "call-log"},
		role.Serving: {"event-commits", "event-stream", "log-filters-not-evaluated", "store-key-use",
			"store-rejections", "store-secret-matches"},
		role.Working: {"connection-checks", "delivery-fanouts", "delivery-workers",
			"enrol-connection-checks", "expire-connect-links", "expire-idempotency-keys", "expire-key-usage",
			"expire-mails", "expire-rate-limits", "expire-rejections", "expire-replays", "follow-config-changes",
			"forget-replaced-secrets", "imports", "measure-imports", "measure-replays", "measure-token-refreshes",
			"remove-expired-events", "replay-worker",
			"expire-calls", "expire-executions", "recover-executions", "reseal-values",
			"send-password-resets", "tidy-imports", "token-refresh", "trim-event-log"},
	}
	got := map[role.Part][]string{}
	for _, m := range app.Declared() {
		for _, s := range m.Services {
			got[s.Part] = append(got[s.Part], s.Name)
		}
		for _, j := range m.Jobs {
			if m.Name != "platform/db" { // those of an engine
				got[j.Part] = append(got[j.Part], j.Name)
			}
		}
	}
	for _, names := range got {
		slices.Sort(names)
	}
	for _, names := range want {
		slices.Sort(names)
	}
	require.Equal(t, want, got)
}
