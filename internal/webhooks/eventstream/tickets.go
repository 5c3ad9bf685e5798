package eventstream

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/events"
)

// TicketLifetime is how long a ticket can be used.
const TicketLifetime = time.Minute

const (
	// maxTickets is how many unused tickets one principal may have.
	maxTickets = 100
	// sweptTickets is how many old tickets each new one removes.
	sweptTickets = 20
)

// holder is the owner of a ticket as it is stored. Its rights are read when the ticket is used.
type holder struct {
	Kind    access.Kind `json:"kind"`
	ID      string      `json:"id"`
	Name    string      `json:"name"`
	Team    id.Team     `json:"team"`
	Session string      `json:"session,omitempty"`
}

// ticketRow is a stored ticket.
type ticketRow struct {
	hash        []byte
	environment id.Environment
	principal   string
	holder      holder
	filter      events.Filter
	expires     time.Time
}

func ticketColumns(r *ticketRow) db.Columns {
	return db.Columns{
		db.Col("ticket_hash", &r.hash),
		db.Col("environment_id", &r.environment),
		db.Col("principal_id", &r.principal),
		db.Col("principal", db.JSON(&r.holder)),
		db.Col("filter", db.JSON(&r.filter)),
		db.Col("expires_ms", db.Millis(&r.expires)),
	}
}

// MakeTicket makes a ticket that opens one stream: in the principal's environment, in its name and with the filter.
// Only a hash of the ticket is stored. Too many unused tickets are rate_limited.
func (s *Service) MakeTicket(ctx context.Context, p access.Principal,
	f events.Filter) (ticket string, expires time.Time, err error) {
	now := s.clock.Now()
	ticket, expires = id.NewRandom(id.PrefixStreamTicket), now.Add(TicketLifetime)
	row := ticketRow{hash: hashTicket(ticket), environment: p.Environment, principal: p.ID, filter: f, expires: expires,
		holder: holder{Kind: p.Kind, ID: p.ID, Name: p.Name, Team: p.Team, Session: p.Session}}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		var unused int
		err := tx.QueryRowContext(ctx,
			"SELECT COUNT(*) FROM webhook_stream_tickets WHERE principal_id = $1 AND expires_ms > $2", p.ID, clock.Millis(now)).
			Scan(&unused)
		if err != nil {
			return err
		}
		if unused >= maxTickets {
			return apperr.New(apperr.CodeRateLimited, "Too many unused tickets").RetryIn(TicketLifetime)
		}
		old := "SELECT ticket_hash FROM webhook_stream_tickets WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT $2" +
			s.db.SkipLocked()
		//nolint:gosec // the text is ours
		if _, err := tx.ExecContext(ctx, "DELETE FROM webhook_stream_tickets WHERE ticket_hash IN ("+old+")",
			clock.Millis(now), sweptTickets); err != nil {
			return err
		}
		_, err = db.Insert(ctx, tx, "INSERT INTO webhook_stream_tickets", ticketColumns(&row), "")
		return err
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("store a ticket: %w", err)
	}
	return ticket, expires, nil
}

// hashTicket returns the stored form of a ticket. Its 128 random bits need no salt and no slow hash.
func hashTicket(ticket string) []byte {
	sum := sha256.Sum256([]byte(ticket))
	return sum[:]
}

// errTicket is the reason for the log; clients get the text of every credential.
var errTicket = errors.New("the ticket is unknown, used or expired")

// UseTicket consumes a ticket that came from an address and returns its holder, with its present rights, and its
// filter. A ticket that is unknown, used or expired, or whose holder has lost access, is unauthorized.
func (s *Service) UseTicket(ctx context.Context, ticket, ip string) (access.Principal, events.Filter, error) {
	unauthorized := func(err error) (access.Principal, events.Filter, error) {
		return access.Principal{}, events.Filter{}, apperr.Unauthorized(err)
	}
	if !id.Is(id.PrefixStreamTicket, ticket) {
		return unauthorized(errTicket)
	}
	// The look-up comes first: it does not wait for the writer, so that made-up tickets delay no one.
	var n int
	found, err := db.Found("a ticket", s.db.Read().QueryRowContext(ctx,
		"SELECT 1 FROM webhook_stream_tickets WHERE ticket_hash = $1", hashTicket(ticket)).Scan(&n))
	var row ticketRow
	if found {
		err = s.db.Tx(ctx, func(tx *sql.Tx) (err error) {
			// One statement: of two readers with the same ticket, one finds it.
			row = ticketRow{} // a transaction can run again
			c := ticketColumns(&row)
			found, err = db.Found("a ticket", c.Scan(tx.QueryRowContext(ctx,
				"DELETE FROM webhook_stream_tickets WHERE ticket_hash = $1 RETURNING "+c.Names(), hashTicket(ticket))))
			return err
		})
	}
	switch {
	case err != nil:
		return access.Principal{}, events.Filter{}, fmt.Errorf("use a ticket: %w", err)
	case !found, !row.expires.After(s.clock.Now()):
		return unauthorized(errTicket)
	}
	h := row.holder
	p, err := s.identity.Current(ctx, access.Principal{Kind: h.Kind, ID: h.ID, Name: h.Name, Team: h.Team,
		Session: h.Session, Environment: row.environment, IP: ip})
	if err != nil && refused(err) {
		return unauthorized(err)
	}
	return p, row.filter, err
}

// Current returns the holder of a ticket with its present rights; see Identity.
func (s *Service) Current(ctx context.Context, p access.Principal) (access.Principal, error) {
	return s.identity.Current(ctx, p)
}
