package connections

import (
	"context"
	"database/sql"
	"maps"
	"reflect"
	"slices"
	"time"

	"sallyport/internal/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
)

// Actions of the audit trail.
const (
	actionCreate     = "connection.create"
	actionUpdate     = "connection.update"
	actionEnable     = "connection.enable"
	actionDisable    = "connection.disable"
	actionRotatePath = "connection.rotate_webhook_path"
	actionDelete     = "connection.delete"

	actionAddSecret     = "connection.add_webhook_secret"
	actionRemoveSecret  = "connection.remove_webhook_secret"
	actionOpenEnrolment = "connection.open_webhook_enrolment"
	actionEndEnrolment  = "connection.end_webhook_enrolment"
	actionCapture       = "connection.capture_webhook_secret"
)

// ChangeKind says what has become of a connection.
type ChangeKind string

// The kinds.
const (
	Created     ChangeKind = "created"
	Updated     ChangeKind = "updated"
	WasDisabled ChangeKind = "disabled"
	WasEnabled  ChangeKind = "enabled"
	Deleted     ChangeKind = "deleted"
)

// kindOf is what an action makes of its connection; empty where that stays as it was.
func kindOf(action string) ChangeKind {
	switch action {
	case actionCreate:
		return Created
	case actionEnable:
		return WasEnabled
	case actionDisable:
		return WasDisabled
	case actionDelete:
		return Deleted
	case actionOpenEnrolment, actionEndEnrolment:
		return ""
	default:
		return Updated
	}
}

// record writes the audit event of a change and tells every process that connections changed, with the change itself.
func (s *Service) record(ctx context.Context, tx *sql.Tx, actor access.Principal, c *Connection, action string, changes map[string]any, now time.Time) error {
	err := audit.Record(ctx, tx, now, audit.Event{
		Team: actor.Team, Environment: c.Environment, Actor: actor, Action: action,
		TargetType: "connection", TargetID: c.UUID, Changes: changes,
	})
	if err != nil {
		return err
	}
	if kind := kindOf(action); s.announce != nil && kind != "" {
		if err := s.announce(ctx, tx, c, kind); err != nil {
			return err
		}
	}
	return db.Bump(ctx, tx, Collection)
}

// difference returns what the change makes different, by field as the API calls it. A field of the caller's own metadata
// is named without its value: it may be about people, and the trail is kept.
func difference(from, to *Connection, ch *Change) map[string]any {
	changes := map[string]any{}
	note := func(field string, before, after any) {
		if !reflect.DeepEqual(before, after) {
			changes[field] = after
		}
	}
	note("webhook.params", from.Webhook.Params, to.Webhook.Params)
	note("webhook.dedupe_window_seconds", from.Webhook.DedupeWindowSeconds, to.Webhook.DedupeWindowSeconds)
	note("webhook.redeliver_on_duplicate", from.Webhook.RedeliverOnDuplicate, to.Webhook.RedeliverOnDuplicate)
	note("webhook.max_body_bytes", from.Webhook.MaxBodyBytes, to.Webhook.MaxBodyBytes)
	note("webhook.same_body_new_id", from.Webhook.SameBodyNewID, to.Webhook.SameBodyNewID)
	note("webhook.scheme", from.Webhook.Scheme, to.Webhook.Scheme)
	note("webhook.url_base", from.Webhook.URLBase, to.Webhook.URLBase)
	note("webhook.source_cidrs", from.Webhook.SourceCIDRs, to.Webhook.SourceCIDRs)
	note("webhook.rate_limit_per_second", from.Webhook.RatePerSecond, to.Webhook.RatePerSecond)
	note("tags", from.Tags, to.Tags)
	if names := changedNames(from.Metadata, to.Metadata); len(names) > 0 {
		changes["metadata"] = names
	}
	if alias := ch.Alias; alias.Set {
		after := &alias.Value
		if alias.Null {
			after = nil
		}
		note("webhook.alias", from.Alias, after)
	}
	switch secret := ch.Secret; {
	case secret.Set && !secret.Null:
		changes["webhook_secret"] = secret.Value // writes itself as redacted
	case secret.Set && from.HasSecret:
		changes["webhook_secret"] = nil
	}
	return changes
}

func changedNames(from, to map[string]any) []string {
	names := map[string]bool{}
	for name, v := range to {
		if before, ok := from[name]; !ok || !reflect.DeepEqual(before, v) {
			names[name] = true
		}
	}
	for name := range from {
		if _, ok := to[name]; !ok {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
