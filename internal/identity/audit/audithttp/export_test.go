package audithttp

import (
	"bytes"
	"context"
	"database/sql"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
)

// identities returns the user's present state.
type identities struct {
	now access.Principal
	err error
}

func (*identities) HadEnvironment(context.Context, id.Team, id.Environment) error { return nil }

func (i *identities) Current(context.Context, access.Principal) (access.Principal, error) {
	return i.now, i.err
}

// reader is a client; read is called with each chunk.
type reader struct {
	bytes.Buffer
	read func()
}

func (*reader) Header() http.Header              { return http.Header{} }
func (*reader) WriteHeader(int)                  {}
func (*reader) Flush()                           {}
func (*reader) SetWriteDeadline(time.Time) error { return nil }

func (r *reader) Write(b []byte) (int, error) {
	r.read()
	return r.Buffer.Write(b)
}

// An export breaks off when the user's session ends, or their right in the trail's environment is revoked, while they
// read it. They do not get the part that they have not asked for yet, however slowly they ask. An undisturbed export is
// complete.
func TestExportEndsWithTheRight(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		trail := audit.Trail{Team: "team_1", Environment: "env_1"}
		allowed := access.Principal{Kind: access.KindUser, ID: "usr_1", Team: trail.Team, Rights: access.Rights{
			Environments: map[id.Environment][]access.Permission{"env_1": {access.AuditExport}},
		}}
		elsewhere := allowed
		elsewhere.Rights = access.Rights{Environments: map[id.Environment][]access.Permission{"env_2": {access.AuditExport},
			"env_1": {access.AuditRead}}}
		require.NoError(t, store.DB.Tx(t.Context(), func(tx *sql.Tx) error {
			for range 2*exportChunk + 1 {
				e := audit.Event{Team: trail.Team, Environment: trail.Environment, Actor: allowed, Action: "thing.change",
					TargetType: "thing", TargetID: "1"}
				if err := audit.Record(t.Context(), tx, clock.FromMillis(1), e); err != nil {
					return err
				}
			}
			return nil
		}))
		events := audit.New(audit.Config{DB: store.DB})
		require.NoError(t, events.Seal(t.Context()))
		for what, c := range map[string]struct {
			then identities
			want apperr.Code
			rows int
		}{
			"the session ends": {identities{err: apperr.New(apperr.CodeUnauthorized, "ended")}, apperr.CodeUnauthorized,
				exportChunk},
			"the right is taken": {identities{now: elsewhere}, apperr.CodeForbidden, exportChunk},
			"everything stays":   {identities{now: allowed}, "", 2*exportChunk + 1},
			"unknown":            {identities{err: context.Canceled}, "", exportChunk},
		} {
			who := &identities{now: allowed}
			h := &handlers{store: events, principals: who}
			first, err := events.ReadAfter(t.Context(), trail, audit.Filter{}, 0, exportChunk)
			require.NoError(t, err)
			client := &reader{read: func() { *who = c.then }}
			err = h.writeExport(t.Context(), client, trail, audit.Filter{}, first, encodeLines, h.checkExport(allowed, trail))
			switch {
			case c.want != "":
				require.True(t, apperr.Is(err, c.want), "%s: %v", what, err)
			default:
				require.ErrorIs(t, err, c.then.err, what)
			}
			require.Equal(t, c.rows, bytes.Count(client.Bytes(), []byte("\n")), what)
		}
	})
}
