package mails

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sallyport/internal/platform/jobs"
)

const (
	// pollInterval is how often the queue is checked for mails that are due.
	pollInterval = time.Second
	// lease is how long a process that is gone keeps a mail. It is longer than any exchange.
	lease = 2 * time.Minute
	// A mail that could not be handed over is retried after firstWait, then after twice that, and so on up to maxWait,
	// until it expires.
	firstWait = 5 * time.Second
	maxWait   = 10 * time.Minute
)

// Outcomes of an attempt to send a mail, as the metric has them: failed is retried, refused is not.
const (
	outcomeSent    = "sent"
	outcomeFailed  = "failed"
	outcomeRefused = "refused"
	outcomeExpired = "expired"
)

// errLeaseEnds keeps a mail from being sent by two processes: this one stood still after it had claimed the mail.
var errLeaseEnds = errors.New("the lease could end before the mail is sent")

// table declares the queue of mails. A row is deleted when its mail was sent or refused permanently.
func table() jobs.Table {
	return jobs.Table{Name: "mails", ID: "id", Due: "due_ms", Attempts: "tries"}
}

// newQueue returns the queue that sends one mail at a time.
func (s *Service) newQueue() *jobs.Queue {
	return jobs.New(jobs.Config{DB: s.cfg.DB, Clock: s.cfg.Clock, Logger: s.cfg.Logger, Table: table(), Handle: s.send,
		Failed: limitWait, Concurrency: 1, Lease: lease, Poll: pollInterval, Backoff: jobs.Backoff{First: firstWait,
			Max: maxWait}})
}

// stop interrupts the exchange in progress: the mail stays due, and the mail server may take a minute to respond.
func (s *Service) stop(ctx context.Context) error {
	over, cancel := context.WithCancel(ctx)
	cancel()
	return s.queue.Stop(over)
}

// send sends a mail that is due.
func (s *Service) send(ctx context.Context, j *jobs.Job) (jobs.Outcome, error) {
	m, err := find(ctx, s.cfg.DB.Read(), j.ID)
	if err != nil {
		return jobs.Outcome{}, jobs.Before(err)
	}
	j.Annotate(slog.String("kind", m.kind))
	if !m.expires.After(s.cfg.Clock.Now()) {
		s.count(m.kind, outcomeExpired)
		return jobs.Done(nil), nil
	}
	if !j.Lasts(exchangeTime) {
		return jobs.Outcome{}, jobs.Before(errLeaseEnds)
	}
	err = s.deliver(ctx, m)
	var refused *refusal
	switch {
	case err == nil:
		s.count(m.kind, outcomeSent)
		return jobs.Done(nil), nil
	case ctx.Err() != nil:
		return jobs.Outcome{}, err
	case errors.As(err, &refused) && refused.permanent:
		s.count(m.kind, outcomeRefused)
		return jobs.Outcome{}, jobs.Permanent(err)
	case refused != nil && refused.code != 0:
		s.count(m.kind, outcomeFailed)
		return jobs.Outcome{}, err
	default:
		s.count(m.kind, outcomeFailed)
		return jobs.Outcome{}, jobs.Systemic(err) // the next mail would fail the same way
	}
}

func (s *Service) deliver(ctx context.Context, m queued) error {
	plain, err := s.cfg.Box.Open(m.sealed, messageAD(m.id))
	if err != nil {
		return fmt.Errorf("open the mail: %w", err)
	}
	var content message
	if err := json.Unmarshal(plain, &content); err != nil {
		return fmt.Errorf("read the mail: %w", err)
	}
	return s.cfg.Server.send(ctx, m.id, s.cfg.Clock.Now(), content)
}

func (s *Service) count(kind, outcome string) {
	s.metrics.attempts.WithLabelValues(kind, outcome).Inc()
}

// expire deletes mails that were not sent in time. Those that are being sent are left to their sender, so that each
// mail has one outcome.
func (s *Service) expire(ctx context.Context) error {
	now := s.cfg.Clock.Now()
	_, expired, err := countQueued(ctx, s.cfg.DB.Read(), now)
	if err != nil || expired == 0 {
		return err
	}
	kinds, err := s.deleteExpired(ctx, now)
	for _, kind := range kinds {
		s.count(kind, outcomeExpired)
	}
	if len(kinds) > 0 {
		s.cfg.Logger.WarnContext(ctx, "deleted mails that could not be sent in time", slog.Int("mails", len(kinds)))
	}
	return err
}
