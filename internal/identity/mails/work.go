package mails

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

const (
	// pollInterval is how often the queue is looked at.
	pollInterval = time.Second
	// lease is how long a try may take before another worker takes the mail over. It is longer than any exchange.
	lease = 2 * time.Minute
	// A mail that could not be handed over is tried again after firstWait, then after twice that, and so on up to maxWait,
	// until it is of no use any more.
	firstWait = 5 * time.Second
	maxWait   = 10 * time.Minute
	// maxRound is how many mails one round sends, at most.
	maxRound = 20
)

// Outcomes of a try to send a mail, as the metric has them: failed is tried again, refused is not.
const (
	outcomeSent    = "sent"
	outcomeFailed  = "failed"
	outcomeRefused = "refused"
	outcomeExpired = "expired"
)

// Work sends the mails that are due, one after the other, and returns when to call it again. Where the server itself is
// the trouble the round ends: the next mail would fare no better.
func (s *Service) Work(ctx context.Context) time.Duration {
	for range maxRound {
		more, err := s.next(ctx)
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.ErrorContext(ctx, "mails could not be looked for", slog.String("error", err.Error()))
		}
		if err != nil || !more || ctx.Err() != nil {
			break
		}
	}
	return pollInterval
}

// next sends the mail that has waited longest, and reports whether it is worth while to go on.
func (s *Service) next(ctx context.Context) (more bool, err error) {
	now := s.cfg.Clock.Now()
	waiting, due, err := count(ctx, s.cfg.DB.Read(), now)
	if err != nil {
		return false, err
	}
	s.metrics.queued.Set(float64(waiting))
	if due == 0 {
		return false, nil
	}
	expired, err := s.expire(ctx, now)
	if err != nil || expired > 0 || !s.Enabled() {
		return expired > 0, err
	}
	m, ok, err := s.claim(ctx, now)
	if err != nil || !ok {
		return false, err
	}
	// What has been claimed is noted also when the process is stopping.
	whole := context.WithoutCancel(ctx)
	err = s.deliver(ctx, m)
	var refused *refusal
	switch {
	case err == nil:
		s.outcome(m, outcomeSent)
		return true, s.finish(whole, m)
	case ctx.Err() != nil:
		return false, s.postpone(whole, m, now)
	case errors.As(err, &refused) && refused.permanent:
		s.outcome(m, outcomeRefused)
		s.cfg.Logger.ErrorContext(ctx, "a mail was refused for good", slog.String("mail", m.id), slog.String("kind", m.kind),
			slog.String("error", err.Error()))
		return true, s.finish(whole, m)
	default:
		s.outcome(m, outcomeFailed)
		wait := min(maxWait, firstWait<<min(m.tries-1, 10))
		s.cfg.Logger.WarnContext(ctx, "a mail could not be sent; it is tried again", slog.String("mail", m.id),
			slog.String("kind", m.kind), slog.Int64("tries", m.tries), slog.Duration("wait", wait), slog.String("error",
				err.Error()))
		return refused != nil && refused.code != 0, s.postpone(whole, m, s.cfg.Clock.Now().Add(wait))
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

func (s *Service) outcome(m queued, outcome string) {
	s.metrics.attempts.WithLabelValues(m.kind, outcome).Inc()
}

// expire removes mails that nobody could use any more.
func (s *Service) expire(ctx context.Context, now time.Time) (int, error) {
	kinds, err := s.removeExpired(ctx, now)
	for _, kind := range kinds {
		s.outcome(queued{kind: kind}, outcomeExpired)
	}
	if len(kinds) > 0 {
		s.cfg.Logger.WarnContext(ctx, "mails were not sent in time and were removed", slog.Int("mails", len(kinds)))
	}
	return len(kinds), err
}
