package deliveries

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// openSubscription is a subscription that has open deliveries.
type openSubscription struct {
	ID          string
	Environment id.Environment
	// HeldDue is when the first of those is due that are held; nil if there are none.
	HeldDue *time.Time
	// Due is when the first of those is due that are pending or wait for a retry; nil if there are none.
	Due *time.Time
}

// openPage is the maximum number of subscriptions that one query finds.
const openPage = 500

// withOpen returns the subscriptions after the one given that have open deliveries, in the order of their ids, and at
// most openPage. It hops through the index from one subscription to the next, so its cost follows their number and not
// that of the deliveries.
func (s *Store) withOpen(ctx context.Context, after string) ([]openSubscription, error) {
	return readOpen(ctx, s.db, `RECURSIVE hop (subscription_id) AS (
		SELECT (SELECT d.subscription_id FROM deliveries d WHERE `+whereOpen+` AND d.subscription_id > $1
			ORDER BY d.subscription_id LIMIT 1)
		UNION ALL
		SELECT (SELECT d.subscription_id FROM deliveries d WHERE `+whereOpen+` AND d.subscription_id > hop.subscription_id
			ORDER BY d.subscription_id LIMIT 1) FROM hop WHERE hop.subscription_id IS NOT NULL)`, after)
}

// openOf returns those of the subscriptions that have open deliveries.
func openOf(ctx context.Context, d *db.DB, subscriptionIDs []string) (list []openSubscription, err error) {
	for some := range slices.Chunk(subscriptionIDs, leastChunk) {
		args := make([]any, 0, leastChunk)
		for _, sub := range some {
			args = append(args, sub)
		}
		// A power of two of them, so that few texts are planned.
		for n := len(args); n&(n-1) != 0; n++ {
			args = append(args, args[0])
		}
		selects := make([]string, len(args))
		for i := range selects {
			selects[i] = "SELECT CAST($" + strconv.Itoa(i+1) + " AS text)"
		}
		found, err := readOpen(ctx, d, "hop (subscription_id) AS ("+strings.Join(selects, " UNION ")+")", args...)
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	return slices.DeleteFunc(list, func(o openSubscription) bool { return o.Due == nil && o.HeldDue == nil }), nil
}

// readOpen returns what is open of the subscriptions of an expression named hop, at most openPage.
func readOpen(ctx context.Context, d *db.DB, hop string, args ...any) ([]openSubscription, error) {
	first := func(status Status) string {
		return `(SELECT d.due_ms FROM deliveries d WHERE ` + whereOpen + ` AND d.subscription_id = hop.subscription_id
		AND d.status = '` + string(status) + `' ORDER BY d.due_ms LIMIT 1)`
	}
	rows, err := d.Reserved().QueryContext(ctx, `WITH `+hop+`
		SELECT hop.subscription_id, (SELECT d.environment_id FROM deliveries d WHERE `+whereOpen+`
		AND d.subscription_id = hop.subscription_id LIMIT 1), `+first(Pending)+`, `+first(RetryWait)+`, `+first(Held)+`
		FROM hop WHERE hop.subscription_id IS NOT NULL LIMIT `+strconv.Itoa(openPage), args...)
	if err != nil {
		return nil, fmt.Errorf("find subscriptions with open deliveries: %w", err)
	}
	var list []openSubscription
	if err := db.Each(rows, func(r *sql.Rows) error {
		var o openSubscription
		var env sql.NullString
		var pending, retry, held *int64
		if err := r.Scan(&o.ID, &env, &pending, &retry, &held); err != nil {
			return err
		}
		if held != nil {
			at := clock.FromMillis(*held)
			o.HeldDue = &at
		}
		o.Environment = id.Environment(env.String)
		for _, ms := range []*int64{pending, retry} {
			if ms == nil {
				continue
			}
			if at := clock.FromMillis(*ms); o.Due == nil || at.Before(*o.Due) {
				o.Due = &at
			}
		}
		list = append(list, o)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("find subscriptions with open deliveries: %w", err)
	}
	return list, nil
}
