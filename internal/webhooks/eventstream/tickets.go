package eventstream

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
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

// holder is who a ticket was made for, as it is stored. What they may do is read when the ticket is used.
type holder struct {
	Kind    access.Kind `json:"kind"`
	ID      string      `json:"id"`
	Name    string      `json:"name"`
	Team    id.Team     `json:"team"`
	Session string      `json:"session,omitempty"`
}

// MakeTicket makes a ticket with which one stream can be opened once: in the principal's environment, in their name and
// with the filter. Of the ticket only a hash is stored. Too many unused tickets are rate_limited.
func (s *Service) MakeTicket(ctx context.Context, p access.Principal,
	f events.Filter) (ticket string, expires time.Time, err error) {
	now := s.clock.Now()
	ticket, expires = id.NewRandom(id.PrefixStreamTicket), now.Add(TicketLifetime)
	who, err := json.Marshal(holder{Kind: p.Kind, ID: p.ID, Name: p.Name, Team: p.Team, Session: p.Session})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("encode a ticket's holder: %w", err)
	}
	filter, err := json.Marshal(f)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("encode a ticket's filter: %w", err)
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		var unused int
		err := tx.QueryRowContext(ctx,
			"SELECT COUNT(*) FROM webhook_stream_tickets WHERE principal_id = $1 AND expires_ms > $2", p.ID, clock.Millis(now)).
			Scan(&unused)
		if err != nil {
			return err
		}
		if unused >= maxTickets {
			return &apperr.Error{Code: apperr.CodeRateLimited, Message: "Too many unused tickets", RetryAfter: TicketLifetime}
		}
		old := "SELECT ticket_hash FROM webhook_stream_tickets WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT $2" +
			s.db.SkipLocked()
		//nolint:gosec // the text is ours
		if _, err := tx.ExecContext(ctx, "DELETE FROM webhook_stream_tickets WHERE ticket_hash IN ("+old+")",
			clock.Millis(now), sweptTickets); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO webhook_stream_tickets (ticket_hash, environment_id, principal_id,
				principal, filter, expires_ms)
			VALUES ($1, $2, $3, $4, $5, $6)`,
			hashTicket(ticket), string(p.Environment), p.ID, string(who), string(filter), clock.Millis(expires))
		return err
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("store a ticket: %w", err)
	}
	return ticket, expires, nil
}

// hashTicket returns what is stored of a ticket. Its 128 random bits need no salt and no slow hash.
func hashTicket(ticket string) []byte {
	sum := sha256.Sum256([]byte(ticket))
	return sum[:]
}

// errTicket is the reason for the log; clients get the text of every credential.
var errTicket = errors.New("the ticket is unknown, used or expired")

// UseTicket consumes a ticket that came from an address and returns its holder, with the rights that they have now, and
// its filter. A ticket that is unknown, used or expired, or whose holder may no longer work there, is unauthorized.
func (s *Service) UseTicket(ctx context.Context, ticket, ip string) (access.Principal, events.Filter, error) {
	var f events.Filter
	unauthorized := func(err error) (access.Principal, events.Filter, error) {
		return access.Principal{}, f, apperr.Unauthorized(err)
	}
	if !id.Is(id.PrefixStreamTicket, ticket) {
		return unauthorized(errTicket)
	}
	// Looking comes first: it waits for no writer, and whoever makes tickets up keeps none waiting.
	var n int
	err := s.db.Read().QueryRowContext(ctx, "SELECT 1 FROM webhook_stream_tickets WHERE ticket_hash = $1",
		hashTicket(ticket)).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return unauthorized(errTicket)
	}
	if err != nil {
		return access.Principal{}, f, fmt.Errorf("look for a ticket: %w", err)
	}
	var env id.Environment
	var who, filter string
	var expires int64
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		// One statement: of two who bring the same ticket, one finds it.
		return tx.QueryRowContext(ctx, `DELETE FROM webhook_stream_tickets WHERE ticket_hash = $1
			RETURNING environment_id, principal, filter, expires_ms`, hashTicket(ticket)).Scan(&env, &who, &filter, &expires)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return unauthorized(errTicket)
	case err != nil:
		return access.Principal{}, f, fmt.Errorf("use a ticket: %w", err)
	case expires <= clock.Millis(s.clock.Now()):
		return unauthorized(errTicket)
	}
	var h holder
	if err := errors.Join(json.Unmarshal([]byte(who), &h), json.Unmarshal([]byte(filter), &f)); err != nil {
		return access.Principal{}, f, fmt.Errorf("read a ticket: %w", err)
	}
	p, err := s.identity.Current(ctx, access.Principal{Kind: h.Kind, ID: h.ID, Name: h.Name, Team: h.Team,
		Session: h.Session, Environment: env, IP: ip})
	if err != nil && refused(err) {
		return unauthorized(err)
	}
	return p, f, err
}

// Current returns the holder of a ticket as they are now: see Identity.
func (s *Service) Current(ctx context.Context, p access.Principal) (access.Principal, error) {
	return s.identity.Current(ctx, p)
}
