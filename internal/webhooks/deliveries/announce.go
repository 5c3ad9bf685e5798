package deliveries

import (
	"context"
	"database/sql"
	"log/slog"

	"sallyport/internal/platform/db"
)

// Announcer tells of what deliveries come to, by the gateway's own events.
type Announcer interface {
	// Deliveries returns the statements that store what is to be told of deliveries that have just died, or succeeded
	// after they had died.
	Deliveries(ctx context.Context, ended []Delivery) ([]db.Statement, error)
}

// Announce names who tells of what deliveries come to; without it nobody does. It is called once, while the process is
// put together.
func (s *Service) Announce(a Announcer) { s.store.announcer = a }

// maxAnnounced is how many outcomes that may be told of one transaction stores: each can bring an event of its own.
const maxAnnounced = 50

// tells reports whether the move is one to tell of.
func (m *move) tells() bool {
	return m.to.Status == Dead && m.from.Status != Dead || m.to.Status == Succeeded && m.from.Status != Succeeded &&
		m.from.died()
}

// announce stores what is to be told of the moves, in their transaction. Where it cannot be worked out the moves are
// made all the same: an outcome must not be lost for want of an event about it.
func (s *Store) announce(ctx context.Context, tx *sql.Tx, moves []move) error {
	if s.announcer == nil {
		return nil
	}
	var ended []Delivery
	for i := range moves {
		if moves[i].tells() {
			ended = append(ended, moves[i].to)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	statements, err := s.announcer.Deliveries(ctx, ended)
	switch {
	case db.IsUnavailable(err):
		return err
	case err != nil:
		s.log.ErrorContext(ctx, "nothing could be told of deliveries that died or recovered", slog.Int("count", len(ended)),
			slog.String("error", err.Error()))
		return nil
	case len(statements) == 0:
		return nil
	}
	_, err = s.db.ExecAll(ctx, tx, statements...)
	return err
}

// parts splits a batch so that no transaction tells of more than maxAnnounced outcomes.
func parts(batch []*result) [][]*result {
	var out [][]*result
	from, telling := 0, 0
	for i, r := range batch {
		if m := (move{from: r.delivery, to: r.next}); m.tells() {
			telling++
		}
		if telling == maxAnnounced || i == len(batch)-1 {
			out = append(out, batch[from:i+1])
			from, telling = i+1, 0
		}
	}
	return out
}
