package eventstream

import (
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/events"
)

func (w *world) principal() access.Principal {
	return access.Principal{Kind: access.KindUser, ID: id.New(id.PrefixUser), Name: "ada@example.test",
		Team: id.Team(id.New(id.PrefixTeam)), Session: id.New(id.PrefixSession), Environment: w.env,
		Rights: access.Owner.Rights(), Grants: access.Open(access.Routes()...), IP: "192.0.2.1"}
}

// A ticket opens what it was made for, for who it was made for with the rights that they have then, and nothing of it
// can be found in the database.
func TestTicket(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, clk *clock.Manual) {
		n, p := w.start(), w.principal()
		filter := events.Filter{Providers: []string{"github"}, Duplicate: new(false), ReceivedAfter: new(clk.Now()),
			DeliveryCriteria: events.DeliveryCriteria{HTTPStatuses: []int{503}}}
		ticket, expires, err := n.MakeTicket(w.t.Context(), p, filter)
		require.NoError(w.t, err)
		require.Equal(w.t, clk.Now().Add(time.Minute), expires)
		require.True(w.t, id.Is(id.PrefixStreamTicket, ticket))
		var row string
		require.NoError(w.t, w.db.Read().QueryRowContext(w.t.Context(),
			"SELECT principal || filter || principal_id FROM webhook_stream_tickets").Scan(&row))
		require.NotContains(w.t, row, strings.TrimPrefix(ticket, id.PrefixStreamTicket))
		clk.Advance(time.Minute - time.Millisecond)
		got, held, err := n.UseTicket(w.t.Context(), ticket, "192.0.2.1")
		require.NoError(w.t, err)
		require.Equal(w.t, access.Principal{Kind: p.Kind, ID: p.ID, Name: p.Name, Team: p.Team, Session: p.Session,
			Environment: w.env, Grants: access.Open(access.RouteEvents), IP: "192.0.2.1"}, got, "the rights are those of now")
		require.Equal(w.t, filter, held)
	})
}

// A ticket works once and for a minute. A wrong one gets the response of any bad credential.
func TestTicketIsRefused(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, clk *clock.Manual) {
		n, p := w.start(), w.principal()
		refuse := func(ticket string) {
			w.t.Helper()
			_, _, err := n.UseTicket(w.t.Context(), ticket, "192.0.2.1")
			require.True(w.t, apperr.Is(err, apperr.CodeUnauthorized), "%v", err)
		}
		fresh := func() string {
			ticket, _, err := n.MakeTicket(w.t.Context(), p, events.Filter{})
			require.NoError(w.t, err)
			return ticket
		}
		used, late := fresh(), fresh()
		_, _, err := n.UseTicket(w.t.Context(), used, "192.0.2.1")
		require.NoError(w.t, err)
		clk.Advance(TicketLifetime)
		for _, ticket := range []string{used, late, "", "tkt_", id.NewRandom(id.PrefixStreamTicket), strings.ToUpper(late),
			late + "0", "tkt_\x00"} {
			refuse(ticket)
		}
		// A user who has lost the right since gets nothing, and the ticket is gone.
		for _, reason := range []error{unauthorized(), apperr.NotFound("environment")} {
			lost := fresh()
			w.who.fail(reason)
			refuse(lost)
			w.who.fail(nil)
			refuse(lost)
		}
		down := fresh()
		w.who.fail(errors.New("the store is down"))
		_, _, err = n.UseTicket(w.t.Context(), down, "192.0.2.1")
		require.Error(w.t, err)
		require.False(w.t, apperr.Is(err, apperr.CodeUnauthorized))
	})
}

// Of many simultaneous requests with one ticket, one opens the stream.
func TestTicketWorksOnce(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, _ *clock.Manual) {
		n := w.start()
		for range 5 {
			ticket, _, err := n.MakeTicket(w.t.Context(), w.principal(), events.Filter{})
			require.NoError(w.t, err)
			var in atomic.Int64
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					if _, _, err := n.UseTicket(w.t.Context(), ticket, "192.0.2.1"); err == nil {
						in.Add(1)
					}
				})
			}
			all.Wait()
			require.Equal(w.t, int64(1), in.Load())
		}
	})
}

// No one can fill the table with tickets, and old ones make room.
func TestTicketsAreBounded(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, clk *clock.Manual) {
		n, p := w.start(), w.principal()
		for range maxTickets {
			_, _, err := n.MakeTicket(w.t.Context(), p, events.Filter{})
			require.NoError(w.t, err)
		}
		_, _, err := n.MakeTicket(w.t.Context(), p, events.Filter{})
		require.True(w.t, apperr.Is(err, apperr.CodeRateLimited))
		_, _, err = n.MakeTicket(w.t.Context(), w.principal(), events.Filter{})
		require.NoError(w.t, err, "somebody else")
		clk.Advance(TicketLifetime)
		for range maxTickets / sweptTickets * 2 {
			_, _, err = n.MakeTicket(w.t.Context(), p, events.Filter{})
			require.NoError(w.t, err)
		}
		var rows int
		require.NoError(w.t, w.db.Read().QueryRowContext(w.t.Context(), "SELECT COUNT(*) FROM webhook_stream_tickets").Scan(
			&rows))
		require.Equal(w.t, maxTickets/sweptTickets*2, rows)
	})
}

// Made-up tickets are refused while the database has a writer: they wait for none, and so keep no one waiting.
func TestMadeUpTicketsTakeNoWriter(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, _ *clock.Manual) {
		n := w.start()
		var used error
		require.NoError(w.t, w.db.Tx(w.t.Context(), func(*sql.Tx) error {
			_, _, used = n.UseTicket(w.t.Context(), id.NewRandom(id.PrefixStreamTicket), "192.0.2.1")
			return nil
		}))
		require.True(w.t, apperr.Is(used, apperr.CodeUnauthorized), "%v", used)
	})
}
