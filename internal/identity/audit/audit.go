// Package audit writes one audit event for each administrative change, in the transaction of that change, and reads and
// exports the events.
package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
)

// Outcome says how the action ended.
type Outcome string

// The outcomes. An Event without an outcome gets Success.
const (
	Success Outcome = "success"
	Denied  Outcome = "denied"
)

// outcomes returns every outcome.
func outcomes() []Outcome { return []Outcome{Success, Denied} }

// Schema returns the schema with the outcomes, for the API.
func (Outcome) Schema(oas.Registry) *oas.Schema { return oas.Enum(outcomes()) }

// Event is one action on one target.
type Event struct {
	// Team and Environment say whose trail the event belongs to. Both are empty for what concerns the whole installation,
	// Environment alone for what concerns the whole team.
	Team        id.Team
	Environment id.Environment
	// Actor is who acted; its IP and RequestID are kept too.
	Actor access.Principal
	// Action is object.verb, e.g. "api_key.create".
	Action string
	// Outcome is Success when empty.
	Outcome Outcome
	// TargetType and TargetID name what was acted on, e.g. "api_key" and its id.
	TargetType string
	TargetID   string
	// Before and After are the target as it was and as it is now: nil for what did not exist, and both nil where the
	// action changes no resource of its own (a replay, the end of a session).
	Before, After State
	// Details are facts about the action that are no part of the target's state, by name; the rules of a State hold for
	// them.
	Details State
}

// errIncomplete reports a caller that leaves out a part by which events are searched.
var errIncomplete = errors.New("an audit event needs an actor, an action and a target")

// Record writes the event in tx. The change and its event are committed together or not at all: a caller whose Record
// fails returns the error, so that the transaction is rolled back.
func Record(ctx context.Context, tx *sql.Tx, now time.Time, e Event) error {
	if e.Actor.Kind == "" || e.Actor.ID == "" || e.Action == "" || e.TargetType == "" || e.TargetID == "" {
		return fmt.Errorf("record %q: %w", e.Action, errIncomplete)
	}
	if e.Outcome == "" {
		e.Outcome = Success
	}
	changes, details, err := e.encode()
	if err != nil {
		return fmt.Errorf("record %s: %w", e.Action, err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO audit_events (id, team_id, environment_id, time_ms, actor_type, actor_id,
			actor_name, ip, action, outcome, target_type, target_id, request_id, changes,
			details)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
		id.New(id.PrefixAuditEvent), nullable(string(e.Team)), nullable(string(e.Environment)), clock.Millis(now),
		string(e.Actor.Kind), e.Actor.ID, e.Actor.Name, e.Actor.IP, e.Action, string(e.Outcome), e.TargetType, e.TargetID,
		e.Actor.RequestID, changes, details)
	if err != nil {
		return fmt.Errorf("record %s: %w", e.Action, err)
	}
	return nil
}

func nullable(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

// encode returns the changes and the details as JSON objects.
func (e *Event) encode() (changes, details string, err error) {
	c, err := Compare(e.Before, e.After)
	if err != nil {
		return "", "", err
	}
	facts := e.Details
	if facts == nil {
		facts = State{}
	}
	encoded, err := facts.encode()
	if err != nil {
		return "", "", err
	}
	b, err := marshal(c)
	if err != nil {
		return "", "", err
	}
	d, err := marshal(encoded)
	if err != nil {
		return "", "", err
	}
	return string(b), string(d), nil
}
