package audithttp

import (
	"strconv"
	"strings"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpapi/oas"
)

// auditEvent is the wire form of an event.
type auditEvent struct {
	// The event's id.
	ID string `json:"id" example:"aud_06dprg8dj1v6hckm0sjzmn2m1c"`
	// The event's number in its trail. Numbers count from 1 without gaps.
	Seq int64 `json:"seq" example:"42"`
	// When the action happened.
	Time httpapi.Time `json:"time" example:"2026-11-02T09:30:00.000Z"`
	// The environment that the action concerns; `null` for the team itself.
	EnvironmentID *string `json:"environment_id" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The user, API key or part of the service that acted.
	Actor actor `json:"actor"`
	// The action, as `object.verb`.
	Action string `json:"action" example:"api_key.create"`
	// The outcome of the action:
	// - `success`: the action was performed.
	// - `denied`: the action was refused. Such events are recorded if an attack is likely, for example when a refresh
	//   token is used a second time.
	Outcome audit.Outcome `json:"outcome" example:"success"`
	// The object of the action.
	Target target `json:"target"`
	// The `X-Request-Id` of the request; empty if there was no request.
	RequestID string `json:"request_id" example:"01932b6c-4d2e-7c3a-9f10-5a6b7c8d9e0f"`
	// The changes.
	Changes changes `json:"changes"`
	// Further details of the action, by name. Values of secrets are `[redacted]`.
	Details object `json:"details"`
}

// actor is the principal of an action.
type actor struct {
	// The kind of actor. `system` is the service itself or its command line.
	Type access.Kind `json:"type" example:"user"`
	// The id of the user or key; for `system`, the part of the service that acted.
	ID string `json:"id" example:"usr_06dprg8dj1v6hckm0sjzmn2m1c"`
	// The user's e-mail address or the key's name at that time.
	Name string `json:"name" example:"ada@example.test"`
	// The actor's IP address; empty if there was no request.
	IP string `json:"ip" example:"203.0.113.7"`
}

// target is the object of an action.
type target struct {
	// The kind of object.
	Type string `json:"type" example:"api_key"`
	// The id of the object.
	ID string `json:"id" example:"key_06dprg8dj1v6hckm0sjzmn2m1c"`
}

// changes is a stored JSON object with the members of audit.Changes.
type changes string

// MarshalJSON writes the object.
func (c changes) MarshalJSON() ([]byte, error) { return []byte(c), nil }

// Schema returns the schema of audit.Changes.
func (changes) Schema(oas.Registry) *oas.Schema {
	digest := func(when string) *oas.Schema {
		return &oas.Schema{Type: "string", Nullable: true, Pattern: "^sha256:[0-9a-f]{64}$",
			Description: "Digest of the object " + when +
				": SHA-256 over its fields as JSON without spaces, members sorted, secrets redacted. " +
				"`null` if there was no object or the action changes none."}
	}
	value := func(when string) *oas.Schema {
		return &oas.Schema{Description: "The value " + when + "; absent if there was none."}
	}
	return &oas.Schema{Type: "object", AdditionalProperties: false, Required: []string{"before_digest",
		"after_digest", "diff"}, Properties: map[string]*oas.Schema{
		"before_digest": digest("before"), "after_digest": digest("after"),
		"diff": {Type: "object", Description: "The fields that differ, by name. Values of secrets are `[redacted]`.",
			AdditionalProperties: &oas.Schema{Type: "object", AdditionalProperties: false,
				Properties: map[string]*oas.Schema{"before": value("before"), "after": value("after")}}},
	}}
}

// object is a stored JSON object of any members.
type object string

// MarshalJSON writes the object.
func (o object) MarshalJSON() ([]byte, error) { return []byte(o), nil }

// Schema returns the schema of an object with any values.
func (object) Schema(oas.Registry) *oas.Schema {
	return &oas.Schema{Type: "object", AdditionalProperties: true}
}

func viewEvent(e *audit.Entry) auditEvent {
	out := auditEvent{ID: e.ID, Seq: e.Seq, Time: httpapi.Time(e.Time), Action: e.Action, Outcome: e.Outcome,
		RequestID: e.RequestID, Actor: actor{e.ActorType, e.ActorID, e.ActorName, e.IP}, Target: target{e.TargetType,
			e.TargetID}, Changes: changes(e.Changes), Details: object(e.Details)}
	if e.Environment != "" {
		env := string(e.Environment)
		out.EnvironmentID = &env
	}
	return out
}

// csvColumns returns the header of the CSV form.
func csvColumns() []string {
	return []string{"seq", "id", "time", "environment_id", "actor_type", "actor_id", "actor_name", "actor_ip", "action",
		"outcome", "target_type", "target_id", "request_id", "changes", "details"}
}

// csvRecord returns a row of the CSV form.
func csvRecord(e *audit.Entry) []string {
	row := []string{strconv.FormatInt(e.Seq, 10), e.ID, clock.Wire(e.Time),
		string(e.Environment), string(e.ActorType), e.ActorID, e.ActorName, e.IP, e.Action, string(e.Outcome), e.TargetType,
		e.TargetID, e.RequestID, e.Changes, e.Details}
	for i := range row {
		row[i] = escapeFormula(row[i])
	}
	return row
}

// escapeFormula prevents a spreadsheet from reading a text as a formula (OWASP, "CSV Injection"), because users choose
// names.
func escapeFormula(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
