package deliveries

import (
	"context"
	"database/sql"
	"log/slog"

	"sallyport/internal/platform/db"
)

// Emitter stores events about the outcome of deliveries, such as the gateway's own events.
type Emitter interface {
	// Deliveries returns the statements that store events about deliveries that have just died, or succeeded after they
	// had died. They belong to the transaction tx, and so does all that Deliveries reads.
	Deliveries(ctx context.Context, tx db.Querier, ended []Delivery) ([]db.Statement, error)
}

// maxEmitted is the maximum number of changes to emit that one transaction stores, because each can add an event.
const maxEmitted = 50

// isEmitted reports whether the gateway emits an event about the move.
func (m *move) isEmitted() bool {
	return m.to.Status == Dead && m.from.Status != Dead || m.to.Status == Succeeded && m.from.Status != Succeeded &&
		m.from.died()
}

// emitEvents stores the events about the moves in their transaction. If an emitter fails, the moves are
// stored nevertheless: no outcome is lost because an event about it could not be created.
func (s *Store) emitEvents(ctx context.Context, tx *sql.Tx, moves []move) error {
	if len(s.emitters) == 0 {
		return nil
	}
	var ended []Delivery
	for i := range moves {
		if moves[i].isEmitted() {
			ended = append(ended, moves[i].to)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	var statements []db.Statement
	for _, a := range s.emitters {
		list, err := a.Deliveries(ctx, tx, ended)
		if db.IsUnavailable(err) {
			return err
		}
		if err != nil {
			s.log.ErrorContext(ctx, "cannot emit events about deliveries that died or recovered", slog.Int("count", len(ended)),
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
