package audit_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
)

func event() audit.Event {
	return audit.Event{
		Team: "team_1", Environment: "env_1", Action: "thing.change", TargetType: "thing", TargetID: "thing_1",
		Actor: access.Principal{Kind: access.KindUser, ID: "usr_1", Name: "ada@example.test", IP: "192.0.2.1", RequestID: "req_1"},
	}
}

// An event keeps who, what, where and when; a secret among its changes is written redacted.
func TestRecord(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		e := event()
		e.Changes = map[string]any{"name": "b", "routes": []string{"x"}, "secret": secretbox.Secret("hunter2hunter2")}
		require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
			return audit.Record(t.Context(), tx, time.UnixMilli(1234), e)
		}))
		var got [12]string
		var at int64
		require.NoError(t, s.DB.Read().QueryRowContext(t.Context(), `SELECT id, team_id, environment_id, time_ms, actor_type, actor_id,
			actor_name, ip, action, outcome, target_type, target_id, request_id FROM audit_events`).
			Scan(&got[0], &got[1], &got[2], &at, &got[3], &got[4], &got[5], &got[6], &got[7], &got[8], &got[9], &got[10], &got[11]))
		require.True(t, id.Is(id.PrefixAuditEvent, got[0]))
		require.EqualValues(t, 1234, at)
		require.Equal(t, []string{"team_1", "env_1", "user", "usr_1", "ada@example.test", "192.0.2.1", "thing.change", "success", "thing",
			"thing_1", "req_1"}, got[1:])
		var changes string
		require.NoError(t, s.DB.Read().QueryRowContext(t.Context(), "SELECT changes FROM audit_events").Scan(&changes))
		require.JSONEq(t, `{"name":"b","routes":["x"],"secret":"[redacted]"}`, changes)
	})
}

// What concerns the whole installation belongs to no team and no environment, rather than to one with an empty id.
func TestRecordWithoutScope(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		e := event()
		e.Team, e.Environment, e.Outcome = "", "", audit.Denied
		require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error { return audit.Record(t.Context(), tx, time.UnixMilli(1), e) }))
		var n int
		require.NoError(t, s.DB.Read().QueryRowContext(t.Context(), `SELECT count(*) FROM audit_events
			WHERE team_id IS NULL AND environment_id IS NULL AND outcome = 'denied' AND changes = '{}'`).Scan(&n))
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

// An event that nobody could find again, or that could hold a secret unseen, fails the change instead.
func TestRecordRefuses(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		for name, spoil := range map[string]func(*audit.Event){
			"no actor":      func(e *audit.Event) { e.Actor = access.Principal{} },
			"no action":     func(e *audit.Event) { e.Action = "" },
			"no target":     func(e *audit.Event) { e.TargetID = "" },
			"bytes":         func(e *audit.Event) { e.Changes = map[string]any{"x": []byte("s")} },
			"raw JSON":      func(e *audit.Event) { e.Changes = map[string]any{"x": json.RawMessage(`"s"`)} },
			"not encodable": func(e *audit.Event) { e.Changes = map[string]any{"x": make(chan int)} },
		} {
			e := event()
			spoil(&e)
			err := s.DB.Tx(t.Context(), func(tx *sql.Tx) error { return audit.Record(t.Context(), tx, time.UnixMilli(1), e) })
			require.ErrorContains(t, err, "record ", name)
		}
	})
}
