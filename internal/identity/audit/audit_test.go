package audit_test

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
)

func event() audit.Event {
	return audit.Event{
		Team: "team_1", Environment: "env_1", Action: "thing.change", TargetType: "thing", TargetID: "thing_1",
		Actor: access.Principal{Kind: access.KindUser, ID: "usr_1", Name: "ada@example.test", IP: "192.0.2.1",
			RequestID: "req_1"},
	}
}

// An event keeps who, what, where and when, and what became different; a secret is written redacted.
func TestRecord(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		e := event()
		e.Before = audit.State{"name": "a", "routes": []string{"x"}, "secret": secretbox.Secret("hunter1hunter1")}
		e.After = audit.State{"name": "b", "routes": []string{"x"}, "secret": secretbox.Secret("hunter2hunter2")}
		e.Details = audit.State{"password": secretbox.Secret("hunter2hunter2"), "ended": 2}
		require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
			return audit.Record(t.Context(), tx, time.UnixMilli(1234), e)
		}))
		var got [12]string
		var at int64
		require.NoError(t, s.DB.Read().QueryRowContext(t.Context(), `SELECT id, team_id, environment_id, time_ms, actor_type,
			actor_id,
			actor_name, ip, action, outcome, target_type, target_id, request_id FROM audit_events`).
			Scan(&got[0], &got[1], &got[2], &at, &got[3], &got[4], &got[5], &got[6], &got[7], &got[8], &got[9], &got[10],
				&got[11]))
		require.True(t, id.Is(id.PrefixAuditEvent, got[0]))
		require.EqualValues(t, 1234, at)
		require.Equal(t, []string{"team_1", "env_1", "user", "usr_1", "ada@example.test", "192.0.2.1", "thing.change",
			"success", "thing", "thing_1", "req_1"}, got[1:])
		var changes, details string
		require.NoError(t, s.DB.Read().QueryRowContext(t.Context(), "SELECT changes, details FROM audit_events").Scan(
			&changes, &details))
		require.JSONEq(t, `{"before_digest":"`+sha(`{"name":"a","routes":["x"],"secret":"[redacted]"}`)+`",
			"after_digest":"`+sha(`{"name":"b","routes":["x"],"secret":"[redacted]"}`)+`",
			"diff":{"name":{"before":"a","after":"b"},"secret":{"before":"[redacted]","after":"[redacted]"}}}`, changes)
		require.JSONEq(t, `{"password":"[redacted]","ended":2}`, details)
	})
}

func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Differences are recorded field by field, regardless of the order of a Go struct or map. A creation has no state
// before and a deletion none after. A hidden field is compared by its hidden value. Times have the form that the API
// gives them.
func TestCompare(t *testing.T) {
	t.Parallel()
	type pair struct {
		Z int    `json:"z"`
		A string `json:"a"`
	}
	digest := func(text string) *string { s := sha(text); return &s }
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	hidden := func(v any) audit.Hidden { return audit.Hidden{Value: v, Shown: "…"} }
	for name, c := range map[string]struct {
		before, after audit.State
		want          audit.Changes
	}{
		"nothing": {nil, nil, audit.Changes{Diff: map[string]audit.Difference{}}},
		"created": {nil, audit.State{"b": pair{1, "<&>"}, "a": nil},
			audit.Changes{AfterDigest: digest(`{"a":null,"b":{"a":"<&>","z":1}}`),
				Diff: map[string]audit.Difference{"a": {After: raw("null")}, "b": {After: raw(`{"a":"<&>","z":1}`)}}}},
		"deleted": {audit.State{"n": uint64(math.MaxUint64)}, nil,
			audit.Changes{BeforeDigest: digest(`{"n":18446744073709551615}`),
				Diff: map[string]audit.Difference{"n": {Before: raw("18446744073709551615")}}}},
		"the same": {audit.State{"p": pair{1, "x"}}, audit.State{"p": map[string]any{"a": "x", "z": 1}}, audit.Changes{
			BeforeDigest: digest(`{"p":{"a":"x","z":1}}`), AfterDigest: digest(`{"p":{"a":"x","z":1}}`),
			Diff: map[string]audit.Difference{}}},
		"time": {audit.State{"t": time.Date(2026, 3, 4, 6, 6, 7, 120e6, time.FixedZone("", 3600))}, nil, audit.Changes{
			BeforeDigest: digest(`{"t":"2026-03-04T05:06:07.120Z"}`),
			Diff:         map[string]audit.Difference{"t": {Before: raw(`"2026-03-04T05:06:07.120Z"`)}}}},
		"hidden": {audit.State{"h": hidden(1), "same": hidden([]string{"x"})},
			audit.State{"h": hidden(2), "same": hidden([]string{"x"})}, audit.Changes{
				BeforeDigest: digest(`{"h":"…","same":"…"}`), AfterDigest: digest(`{"h":"…","same":"…"}`),
				Diff: map[string]audit.Difference{"h": {Before: raw(`"…"`), After: raw(`"…"`)}}}},
	} {
		got, err := audit.Compare(c.before, c.after)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
}

// An event of the whole installation belongs to no team and no environment, rather than to one with an empty id.
func TestRecordWithoutScope(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		e := event()
		e.Team, e.Environment, e.Outcome = "", "", audit.Denied
		require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
			return audit.Record(t.Context(), tx, time.UnixMilli(1), e)
		}))
		var n int
		require.NoError(t, s.DB.Read().QueryRowContext(t.Context(), `SELECT count(*) FROM audit_events
			WHERE team_id IS NULL AND environment_id IS NULL AND outcome = 'denied' AND changes = '{"before_digest":null,`+
			`"after_digest":null,"diff":{}}' AND details = '{}'`).Scan(&n))
		require.Equal(t, 1, n)
	})
}

// An event lives and dies with the transaction of its change.
func TestRecordIsPartOfTheTransaction(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		boom := errors.New("boom")
		require.ErrorIs(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
			require.NoError(t, audit.Record(t.Context(), tx, time.UnixMilli(1), event()))
			return boom
		}), boom)
		var n int
		require.NoError(t, s.DB.Read().QueryRowContext(t.Context(), "SELECT count(*) FROM audit_events").Scan(&n))
		require.Zero(t, n)
	})
}

// An event that no search could find, or that could hold a secret unseen, fails the change instead.
func TestRecordRefuses(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		for name, spoil := range map[string]func(*audit.Event){
			"no actor":      func(e *audit.Event) { e.Actor = access.Principal{} },
			"no action":     func(e *audit.Event) { e.Action = "" },
			"no target":     func(e *audit.Event) { e.TargetID = "" },
			"bytes":         func(e *audit.Event) { e.After = audit.State{"x": []byte("s")} },
			"raw JSON":      func(e *audit.Event) { e.Before = audit.State{"x": json.RawMessage(`"s"`)} },
			"not encodable": func(e *audit.Event) { e.Details = audit.State{"x": make(chan int)} },
		} {
			e := event()
			spoil(&e)
			err := s.DB.Tx(t.Context(), func(tx *sql.Tx) error { return audit.Record(t.Context(), tx, time.UnixMilli(1), e) })
			require.ErrorContains(t, err, "record ", name)
		}
	})
}
