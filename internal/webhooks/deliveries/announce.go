package deliveries

import (
	"context"
	"database/sql"
	"log/slog"

	"sallyport/internal/platform/db"
)

// Announcer announces the outcome of deliveries, by the gateway's own events for example.
type Announcer interface {
	// Deliveries returns the statements that store the announcements of deliveries that have just died, or succeeded after
	// they had died.
	Deliveries(ctx context.Context, ended []Delivery) ([]db.Statement, error)
}

// maxAnnounced is how many outcomes that may be told of one transaction stores: each can bring an event of its own.
const maxAnnounced = 50

// tells reports whether the move is one to tell of.
func (m *move) tells() bool {
	return m.to.Status == Dead && m.from.Status != Dead || m.to.Status == Succeeded && m.from.Status != Succeeded &&
		m.from.died()
}

// announce stores the announcements of the moves in their transaction. When an announcer fails the moves are stored all
// the same: no outcome is lost because an event about it could not be made.
func (s *Store) announce(ctx context.Context, tx *sql.Tx, moves []move) error {
	if len(s.announcers) == 0 {
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
	var statements []db.Statement
	for _, a := range s.announcers {
		list, err := a.Deliveries(ctx, ended)
		if db.IsUnavailable(err) {
			return err
		}
		if err != nil {
			s.log.ErrorContext(ctx, "cannot announce deliveries that died or recovered", slog.Int("count", len(ended)),
				slog.String("error", err.Error()))
			continue
		}
		statements = append(statements, list...)
	}
	if len(statements) == 0 {
		return nil
	}
	_, err := s.db.ExecAll(ctx, tx, statements...)
	return err
}

// parts splits a batch so that no transaction tells of more than maxAnnounced outcomes.
func splitByEmitted(batch []*result) [][]*result {
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
