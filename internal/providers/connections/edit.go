package connections

import (
	"context"
	"database/sql"
	"maps"
	"reflect"
	"slices"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/secretbox"
)

// Actions of the audit trail.
const (
	actionCreate     = "connection.create"
	actionUpdate     = "connection.update"
	actionEnable     = "connection.enable"
	actionDisable    = "connection.disable"
	actionRotatePath = "connection.rotate_webhook_path"
	actionDelete     = "connection.delete"
	actionRefresh    = "connection.refresh"
	actionRevoke     = "connection.revoke"
	actionReconnect  = "connection.reconnect"

	actionAddSecret     = "connection.add_webhook_secret"
	actionRemoveSecret  = "connection.remove_webhook_secret"
	actionOpenEnrolment = "connection.open_webhook_enrolment"
	actionEndEnrolment  = "connection.end_webhook_enrolment"
	actionCapture       = "connection.capture_webhook_secret"
	actionSendSample    = "connection.send_webhook_sample"
)

// ChangeKind is the kind of a connection's change.
type ChangeKind string

// The kinds.
const (
	Created     ChangeKind = "created"
	Updated     ChangeKind = "updated"
	WasDisabled ChangeKind = "disabled"
	WasEnabled  ChangeKind = "enabled"
	Deleted     ChangeKind = "deleted"
	// Connected: credentials were stored in a connection that had none before. Reconnected: in place of others, also of
	// such that were revoked.
	Connected   ChangeKind = "connected"
	Reconnected ChangeKind = "reconnected"
	// LostCredentials: the credentials may not or cannot be used any more; Recovered: they can be used again.
	LostCredentials ChangeKind = "needs_reauth" //nolint:gosec // the name of a change
	Recovered       ChangeKind = "recovered"
	// HasExpired, Fails and WasRevoked: the connection has the status expired, error or revoked.
	HasExpired ChangeKind = "expired"
	Fails      ChangeKind = "error"
	WasRevoked ChangeKind = "revoked"
	// HealthChanged: the outcome of tests is another.
	HealthChanged ChangeKind = "health_changed"
)

// kindOf returns the kind of change that an action makes; empty if the connection stays as it was.
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
	case actionOpenEnrolment, actionEndEnrolment, actionReconnect:
		return ""
	default:
		return Updated
	}
}

// edit is a change in progress: of one connection, which no other request can change meanwhile, in one transaction.
type edit struct {
	s     *Service
	tx    *sql.Tx
	actor access.Principal
	now   time.Time
	// before is the connection before the change; nil for a new one.
	before audit.State
	// kinds are further kinds of the change, besides that of its action.
	kinds []ChangeKind
	// onlyKinds is true for a change of which kinds say everything: that of its action is left out.
	onlyKinds bool
}

// edit begins a change of a connection that is locked.
func (s *Service) edit(ctx context.Context, tx *sql.Tx, actor access.Principal, current *Connection,
	now time.Time) (edit, error) {
	if err := s.auth.describe(ctx, tx, current.Environment, current); err != nil {
		return edit{}, err
	}
	before, err := state(ctx, tx, current)
	return edit{s: s, tx: tx, actor: actor, now: now, before: before}, err
}

// write stores a changed connection and finishes the change.
func (e edit) write(ctx context.Context, c *Connection, action string, details audit.State) (Connection, error) {
	c.UpdatedAt = clock.After(e.now, c.UpdatedAt)
	if err := update(ctx, e.tx, c); err != nil {
		return Connection{}, err
	}
	return e.finish(ctx, c, action, details)
}

// finish records the change and returns the connection as it is stored now.
func (e edit) finish(ctx context.Context, c *Connection, action string, details audit.State) (Connection, error) {
	stored, err := find(ctx, e.tx, c.Environment, c.ProviderConfigKey, c.ConnectionID)
	if err != nil {
		return Connection{}, err
	}
	if err := e.s.auth.describe(ctx, e.tx, c.Environment, &stored); err != nil {
		return Connection{}, err
	}
	after, err := state(ctx, e.tx, &stored)
	if err != nil {
		return Connection{}, err
	}
	return stored, e.record(ctx, &stored, action, after, details)
}

// record writes the audit event of a change, calls the hooks, and raises the version that caches watch, all in the
// transaction of the change.
func (e edit) record(ctx context.Context, c *Connection, action string, after, details audit.State) error {
	err := audit.Record(ctx, e.tx, e.now, audit.Event{
		Team: e.actor.Team, Environment: c.Environment, Actor: e.actor, Action: action,
		TargetType: "connection", TargetID: c.UUID, Before: e.before, After: after, Details: details,
	})
	if err != nil {
		return err
	}
	kinds := e.kinds
	if kind := kindOf(action); kind != "" && !e.onlyKinds {
		kinds = append([]ChangeKind{kind}, kinds...)
	}
	return publish(ctx, e.tx, e.s.onChange, c, kinds)
}

// publish calls the hooks for each kind of a change, and raises the version that caches watch.
func publish(ctx context.Context, tx *sql.Tx, hooks []ChangeHook, c *Connection, kinds []ChangeKind) error {
	for _, kind := range kinds {
		for _, hook := range hooks {
			if err := hook(ctx, tx, c, kind); err != nil {
				return err
			}
		}
	}
	return db.Bump(ctx, tx, Collection, c.UUID)
}

// delete removes the connection with all that belongs to it.
func (e edit) delete(ctx context.Context, c *Connection) error {
	if err := releaseAlias(ctx, e.tx, c.UUID, e.now); err != nil {
		return err
	}
	if err := remove(ctx, e.tx, c.Environment, c.UUID); err != nil {
		return err
	}
	for _, hook := range e.s.onDelete {
		if err := hook(ctx, e.tx, c.UUID); err != nil {
			return err
		}
	}
	return e.record(ctx, c, actionDelete, nil, nil)
}

// state returns the connection as the audit trail shows it, with its secrets by their ids. The caller's own metadata is
// shown by the names of its fields: the values may be about people, and the trail is kept.
func state(ctx context.Context, q querier, c *Connection) (audit.State, error) {
	secrets, err := listSecrets(ctx, q, c.UUID)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(secrets))
	for i := range secrets {
		ids[i] = secrets[i].ID
	}
	w := &c.Webhook
	var fields []string
	var fingerprint any
	if set := c.Credentials; set != nil {
		fields, fingerprint = set.Fields, audit.Hidden{Value: set.Fingerprint, Shown: secretbox.Redacted}
	}
	return audit.State{
		"auth_mode": c.AuthMode, "connection_config": c.Config, "credentials.fields": fields,
		"credentials.values": fingerprint, "account_id": c.Account.ID,
		"provider_config_key": c.ProviderConfigKey, "connection_id": c.ConnectionID, "status": c.Status,
		"owner_user_id": c.OwnerUserID,
		"webhook.path":  audit.Hidden{Value: c.PathToken, Shown: secretbox.Redacted}, "webhook.alias": c.Alias,
		"webhook.params": w.Params, "webhook.dedupe_window_seconds": w.DedupeWindowSeconds,
		"webhook.redeliver_on_duplicate": w.RedeliverOnDuplicate, "webhook.max_body_bytes": w.MaxBodyBytes,
		"webhook.same_body_new_id": w.SameBodyNewID, "webhook.scheme": w.Scheme, "webhook.url_base": w.URLBase,
		"webhook.source_cidrs": w.SourceCIDRs, "webhook.rate_limit_per_second": w.RatePerSecond, "webhook_secret_ids": ids,
		"tags": c.Tags, "metadata": audit.Hidden{Value: c.Metadata, Shown: names(c.Metadata)},
	}, nil
}

// differs reports whether the change makes anything different; a secret that is given is taken for another.
func differs(from, to *Connection, ch *Change, auth *authChange) bool {
	if !auth.equals(from) {
		return true
	}
	alias := from.Alias
	if ch.Alias.Set {
		alias = &ch.Alias.Value
		if ch.Alias.Null {
			alias = nil
		}
	}
	return !reflect.DeepEqual(from.Webhook, to.Webhook) || !reflect.DeepEqual(from.Tags, to.Tags) ||
		!reflect.DeepEqual(from.Metadata, to.Metadata) ||
		!reflect.DeepEqual(from.Alias, alias) || ch.Secret.Set && (!ch.Secret.Null || from.HasSecret)
}

// names are the names of the object's fields, sorted.
func names(object map[string]any) []string {
	return slices.AppendSeq([]string{}, slices.Values(slices.Sorted(maps.Keys(object))))
}
