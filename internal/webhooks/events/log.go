package events

import (
	"encoding/json"
	"slices"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// LogRecord lists what one transaction did to the events of one environment. Readers of the live stream get it in this
// order: received events, recorded attempts, changed events.
type LogRecord struct {
	// Position orders the records of all environments; LogStore sets it.
	Position    int64
	Environment id.Environment
	At          time.Time
	Received    []string
	Attempts    []LogAttempt
	Updated     []string
}

// LogAttempt identifies a recorded attempt.
type LogAttempt struct {
	EventUUID string
	ID        string
}

// Messages returns the number of messages in the record.
func (r *LogRecord) Messages() int { return len(r.Received) + len(r.Attempts) + len(r.Updated) }

// logEntries is the stored form of a record's lists.
type logEntries struct {
	Received []string    `json:"r,omitempty"`
	Attempts [][2]string `json:"a,omitempty"` // event and attempt
	Updated  []string    `json:"u,omitempty"`
}

func (r *LogRecord) encode() string {
	e := logEntries{Received: r.Received, Updated: r.Updated}
	for _, a := range r.Attempts {
		e.Attempts = append(e.Attempts, [2]string{a.EventUUID, a.ID})
	}
	b, err := json.Marshal(e)
	if err != nil {
		return "{}" // texts always marshal
	}
	return string(b)
}

func (r *LogRecord) decode(text []byte) error {
	var e logEntries
	if err := json.Unmarshal(text, &e); err != nil {
		return err
	}
	r.Received, r.Updated = e.Received, e.Updated
	for _, a := range e.Attempts {
		r.Attempts = append(r.Attempts, LogAttempt{EventUUID: a[0], ID: a[1]})
	}
	return nil
}

var insertLog = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: "INSERT INTO webhook_event_log (environment_id, at_ms, messages, entries)",
	Types:  []string{"text", "bigint", "bigint", "text"},
}

// Log collects what a transaction does, by environment.
type Log struct {
	At      time.Time
	records []LogRecord
}

// of returns the environment's record.
func (l *Log) of(env id.Environment) *LogRecord {
	i := slices.IndexFunc(l.records, func(r LogRecord) bool { return r.Environment == env })
	if i < 0 {
		i = len(l.records)
		l.records = append(l.records, LogRecord{Environment: env})
	}
	return &l.records[i]
}

// Received adds a stored event.
func (l *Log) Received(env id.Environment, eventUUID string) {
	r := l.of(env)
	r.Received = append(r.Received, eventUUID)
}

// Attempted adds a recorded attempt.
func (l *Log) Attempted(env id.Environment, eventUUID, attemptID string) {
	r := l.of(env)
	r.Attempts = append(r.Attempts, LogAttempt{EventUUID: eventUUID, ID: attemptID})
}

// Updated adds an event whose row changes. Consecutive calls for one event count once.
func (l *Log) Updated(env id.Environment, eventUUID string) {
	r := l.of(env)
	if n := len(r.Updated); n > 0 && r.Updated[n-1] == eventUUID {
		return
	}
	r.Updated = append(r.Updated, eventUUID)
}

// Statement returns the statement that stores the records. It belongs in the transaction that they describe.
func (l *Log) Statement() db.Statement {
	args := make([]any, 0, len(l.records)*insertLog.Columns())
	for i := range l.records {
		r := &l.records[i]
		args = append(args, string(r.Environment), clock.Millis(l.At), int64(r.Messages()), r.encode())
	}
	return db.Statement{Rows: insertLog, Args: args}
}
