package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/webhooks/events"
)

// result is a try, or a lease to give back, on its way to the store.
type result struct {
	// delivery is what was leased.
	delivery Delivery
	// next is the delivery's state after it.
	next Delivery
	// attempt is stored unless the delivery was given back without a try.
	attempt Attempt
	tried   bool
	// counted says that statistics have the try.
	counted bool
}

// outcomeBatch is how many outcomes one transaction stores: an update, an insert and a counter each.
const outcomeBatch = 256

// recordPace is how far apart outcomes are stored while there are few: nobody waits for them, and fewer commits leave
// the disk and the one writer to the events.
const recordPace = 20 * time.Millisecond

// recordRetry is how long the recorder waits between tries to reach a store that is down.
const recordRetry = 250 * time.Millisecond

// record stores a batch of results. While the store is down dispatch stops, and the batch is tried until it is stored:
// its deliveries stay leased in memory meanwhile, so nobody sends them again. Only the end of the process gives up.
func (s *Service) record(batch []*result) {
	ctx := s.storing
	start := s.clock.Now()
	for {
		err := s.storeResults(ctx, batch)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			s.log.ErrorContext(ctx, "delivery outcomes were not stored before the process ended; they will be sent again",
				slog.Int("count", len(batch)), slog.String("error", err.Error()))
			break
		}
		s.log.ErrorContext(ctx, "delivery outcomes could not be stored; dispatch stops until they are",
			slog.Int("count", len(batch)), slog.String("error", err.Error()))
		s.dispatcher.pause()
		t := s.clock.NewTimer(recordRetry)
		select {
		case <-t.C():
		case <-ctx.Done():
		}
		t.Stop()
	}
	s.dispatcher.resume()
	s.batches.Observe("outcomes", s.clock.Now().Sub(start), len(batch))
	for _, r := range batch {
		if s.dispatcher.done(r.delivery) {
			s.wake.Signal()
		}
	}
}

// storeResults stores the batch, in one transaction unless there is much to tell of it.
func (s *Service) storeResults(ctx context.Context, batch []*result) error {
	for _, part := range parts(batch) {
		if err := s.storePart(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// storePart stores results in one transaction or, when one of their leases was lost or a row cannot be stored, each in
// its own.
func (s *Service) storePart(ctx context.Context, batch []*result) error {
	err := s.db.Tx(ctx, func(tx *sql.Tx) error { return s.storeBatch(ctx, tx, batch) })
	if err == nil {
		for _, r := range batch {
			s.counted.try(r)
		}
		return nil
	}
	if db.IsUnavailable(err) || ctx.Err() != nil {
		return err
	}
	for _, r := range batch {
		if err := s.storeOne(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) storeBatch(ctx context.Context, tx *sql.Tx, batch []*result) error {
	moves := make([]move, len(batch))
	tried := make([]*result, 0, len(batch))
	for i, r := range batch {
		moves[i] = move{from: r.delivery, to: r.next}
		if r.tried {
			moves[i].attempts = 1
			tried = append(tried, r)
		}
	}
	return s.store.apply(ctx, tx, moves, clock.Millis(s.clock.Now()), tried...)
}

// storeOne stores one result. A lease that was lost leaves the delivery to whoever has it now; the try is recorded as
// superseded, because it was made.
func (s *Service) storeOne(ctx context.Context, r *result) error {
	err := s.db.Tx(ctx, func(tx *sql.Tx) error { return s.storeBatch(ctx, tx, []*result{r}) })
	outcome := r.attempt.Outcome
	if errors.Is(err, errStale) {
		if !r.tried {
			return nil
		}
		r.attempt.Outcome = AttemptSuperseded
		err = s.db.Tx(ctx, func(tx *sql.Tx) error {
			log := events.Log{At: s.clock.Now()}
			_, err := s.db.ExecAll(ctx, tx, recordAttempts([]*result{r}, &log), log.Statement())
			return err
		})
	}
	if db.IsUniqueViolation(err) {
		// The try is on record, so the result was stored before, and only the answer to its commit was lost.
		r.attempt.Outcome, err = outcome, nil
	}
	if err == nil {
		s.counted.try(r)
		return nil
	}
	if db.IsUnavailable(err) || ctx.Err() != nil {
		return err
	}
	// What cannot be stored must not stop the rest. The lease ends by itself, and the delivery is tried again.
	s.log.ErrorContext(ctx, "a delivery outcome was refused by the store", slog.String("event_uuid", r.delivery.EventUUID),
		slog.String("subscription_id", r.delivery.SubscriptionID), slog.String("error", err.Error()))
	return nil
}
