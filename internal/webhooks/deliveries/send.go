package deliveries

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/masking"
	"sallyport/internal/platform/obs"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// maxHops is the number of gateways that an event may pass. Beyond it the event is assumed to run in a circle.
const maxHops = 5

// maxResponseBody is the part of a response's body that is stored, in bytes.
const maxResponseBody = 16 << 10

// sendDelivery makes one attempt of a leased delivery and submits its result. It never fails: an error becomes an
// outcome, or releases the lease. If the host is busy, or the body does not fit into memory, it does nothing, and the
// dispatcher calls it again.
func (s *Service) sendDelivery(j *job) {
	ctx := s.hard
	target, err := s.subs.Target(ctx, j.delivery.Environment, j.delivery.SubscriptionID)
	now := s.clock.Now()
	switch {
	case apperr.Is(err, apperr.CodeNotFound) || err == nil && target.Deleted:
		s.recorder.submit(&result{delivery: j.delivery, next: j.delivery.cancelled(now)})
		return
	case err != nil:
		s.releaseLease(ctx, j, "cannot read the subscription", err)
		return
	case !target.Enabled || !j.probe && s.breakers.isOpen(j.delivery.SubscriptionID):
		s.recorder.submit(&result{delivery: j.delivery, next: j.delivery.returned(j.due).held()})
		return
	}
	if target.URL != nil && (!s.dispatcher.goesTo(j, egress.HostKey(target.URL)) || s.isPostponed(j, target.Timeout)) {
		return
	}
	if j.event != nil && !s.epochs.isFresh(&j.content, now) {
		j.content = content{}
	}
	if j.event == nil {
		epoch := s.epochs.now()
		e, err := s.events.Get(ctx, access.Whole(j.delivery.Environment), j.delivery.EventUUID)
		if err != nil {
			s.releaseLease(ctx, j, "cannot read the event", err)
			return
		}
		j.content = content{event: &e, since: now, epoch: epoch}
	}
	if j.event.PayloadExpired {
		s.recorder.submit(&result{delivery: j.delivery, next: j.delivery.withoutPayload(j.event, now)})
		return
	}
	if !s.dispatcher.memory.hasMemory(j, j.event.BodySize) {
		return
	}
	eventType := typeFor(target, j.event)
	f, err := s.form(ctx, j, target.PayloadMode, eventType)
	if err != nil {
		s.releaseLease(ctx, j, "cannot make the body", err)
		return
	}
	s.attemptDelivery(ctx, j, target, eventType, &f)
}

func (s *Service) loadPayload(ctx context.Context, j *job) error {
	if j.payload != nil {
		return nil
	}
	payloads, err := s.events.Payloads(ctx, j.delivery.Environment, []events.Event{*j.event})
	if err != nil {
		return err
	}
	p, ok := payloads[j.event.UUID]
	if !ok {
		return errors.New("the event has no payload")
	}
	j.payload = &p
	return nil
}

// attemptDelivery sends the request and submits the outcome.
func (s *Service) attemptDelivery(ctx context.Context, j *job, target *subscriptions.Target, eventType string,
	f *form) {
	if target.URL != nil && s.isPostponed(j, target.Timeout) {
		return
	}
	started := s.clock.Now()
	if j.delivery.AttemptCount == 0 && !j.replay() {
		s.metrics.firstAttempt.Observe(started.Sub(j.event.ReceivedAt).Seconds())
	}
	h := buildHeaders(target, &j.delivery, j.event, eventType, f, started)
	a := Attempt{EventUUID: j.delivery.EventUUID, SubscriptionID: j.delivery.SubscriptionID,
		Generation: j.delivery.Generation, Number: j.delivery.GenerationAttempts + 1, StartedAt: started,
		RequestHeaders: storedRequestHeaders(h, target.Headers, f.headers), ResponseHeaders: "{}"}
	var o outcome
	switch {
	case j.event.Hops >= maxHops:
		o = refused(codeForwardLoop, "The event has passed more than five gateways; it seems to run in a circle",
			s.clock.Now())
	case target.URL == nil:
		o = refused(target.Refused.Code, target.Refused.Message, s.clock.Now())
	default:
		var withdrawn atomic.Bool
		s.metrics.inFlight.Inc()
		resp, sendErr := s.client.Do(ctx, egress.Request{Method: "POST", URL: target.URL, Header: h, Head: f.head,
			Body: f.body, Timeout: target.Timeout, MaxResponseBytes: maxResponseBody,
			Begun: func(interrupt func()) { s.dispatcher.attempting(j, interrupt) },
			Permit: func() bool {
				withdrawn.Store(!s.leases.permits(j, 0))
				return !withdrawn.Load()
			}})
		s.metrics.inFlight.Dec()
		lost := s.dispatcher.attempted(j)
		switch {
		case sendErr == nil:
		case withdrawn.Load():
			s.postpone(j)
			return
		case ctx.Err() != nil:
			// Interrupted by the end of the process: the request may have arrived, and is sent again.
			s.recorder.submit(&result{delivery: j.delivery, next: j.delivery.returned(s.clock.Now())})
			return
		case lost:
			s.superseded(j, target, a)
			return
		}
		o = judgeResponse(resp, sendErr, s.clock.Now())
		fillAttempt(&a, target, resp, sendErr)
	}
	j.payload = nil // the record of the attempt needs no body
	s.finishAttempt(ctx, j, target, a, o)
}

// superseded submits the record of an attempt that ended because its lease was lost. Its request may have arrived, and
// the process that has the lease now sends it again.
func (s *Service) superseded(j *job, target *subscriptions.Target, a Attempt) {
	o := outcome{At: s.clock.Now()}
	o.Failure = &Failure{Code: codeLeaseLost, Message: "Another process took the delivery over during the attempt",
		At: o.At}
	a.Outcome, a.ErrorCode, a.ErrorMessage = AttemptFailed, &o.Failure.Code, &o.Failure.Message
	s.recorder.submit(&result{delivery: j.delivery, next: j.delivery.attempted(o, target.Schedule, jobs.Random()),
		attempt: a, attempted: true})
}

// isPostponed reports whether an attempt that can take this long must not start, because the lease could end before
// it. Then the job waits for the renewal of its lease.
func (s *Service) isPostponed(j *job, timeout time.Duration) bool {
	if s.leases.permits(j, timeout) {
		return false
	}
	s.postpone(j)
	return true
}

// postpone lets a job of which nothing was sent wait for the renewal of its lease. If the lease was lost, it ends.
func (s *Service) postpone(j *job) {
	if !s.leases.postpone(j) {
		s.recorder.submit(&result{delivery: j.delivery, next: j.delivery.returned(j.due)})
		return
	}
	s.metrics.postponed.Inc()
}

// refused returns the outcome of a delivery that must not be sent, now or later.
func refused(code, message string, now time.Time) outcome {
	return outcome{At: now, Permanent: true, Refused: true, Failure: &Failure{Code: code, Message: message, At: now}}
}

// fillAttempt copies the response into the record of the attempt, without what a receiver quotes of the subscription's
// secrets: they are stored sealed alone.
func fillAttempt(a *Attempt, target *subscriptions.Target, resp egress.Response, err *egress.Error) {
	a.Timings = resp.Timings
	if err != nil {
		a.Timings = err.Timings
	}
	if resp.Status != 0 {
		status := resp.Status
		a.HTTPStatus = &status
		m := secretsOf(target)
		a.ResponseHeaders = storedResponseHeaders(m.Header(resp.Header))
		a.ResponseBody, a.Truncated = m.Bytes(resp.Body, resp.Truncated), resp.Truncated
	}
}

// The lengths from which values are taken for secrets: of a subscription's own headers, and of parts of its URL.
const minHeaderSecret, minURLSecret = 8, 16

// secretsOf returns a masker of what a request to the target carries that may be a secret.
func secretsOf(target *subscriptions.Target) *masking.Masker {
	m := new(masking.Masker)
	add := func(value string, least int) {
		if len(value) >= least {
			m.Add(value)
		}
	}
	for _, h := range target.Headers {
		_, token, _ := strings.Cut(h.Value, " ") // of a scheme and its credentials
		add(h.Value, minHeaderSecret)
		add(token, minHeaderSecret)
	}
	if target.URL == nil {
		return m
	}
	for part := range strings.SplitSeq(target.URL.Path, "/") {
		add(part, minURLSecret)
	}
	for part := range strings.FieldsFuncSeq(target.URL.RawQuery, func(r rune) bool { return r == '&' || r == '=' }) {
		if text, err := url.QueryUnescape(part); err == nil {
			add(text, minURLSecret)
		}
	}
	return m
}

func (s *Service) finishAttempt(ctx context.Context, j *job, target *subscriptions.Target, a Attempt, o outcome) {
	next := j.delivery.attempted(o, target.Schedule, jobs.Random())
	a.Outcome = AttemptSucceeded
	if o.Failure != nil {
		a.Outcome, a.ErrorCode, a.ErrorMessage = AttemptFailed, &o.Failure.Code, &o.Failure.Message
	}
	s.metrics.attempts.WithLabelValues(outcomeLabel(next.Status)).Inc()
	s.logAttempt(ctx, j, &a, next)
	s.recorder.submit(&result{delivery: j.delivery, next: next, attempt: a, attempted: true, sent: !o.Refused,
		probe: j.probe})
	if o.DisableSubscription {
		if err := s.subs.Disable(ctx, j.delivery.Environment, j.delivery.SubscriptionID,
			"The receiver responded with 410 Gone"); err != nil {
			s.log.ErrorContext(ctx, "cannot disable a subscription whose receiver is gone",
				slog.String("subscription_id", j.delivery.SubscriptionID), slog.String("error", err.Error()))
		}
	}
}

func outcomeLabel(s Status) string {
	switch s {
	case Succeeded:
		return "succeeded"
	case Dead:
		return "dead"
	case Pending, Sending, RetryWait, Held, Cancelled:
		return "failed"
	default:
		return "failed"
	}
}

// logAttempt writes the canonical line of the attempt. It contains no URL, because a URL can carry a secret.
func (s *Service) logAttempt(ctx context.Context, j *job, a *Attempt, next Delivery) {
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs, slog.String("event_uuid", a.EventUUID), slog.String("subscription_id", a.SubscriptionID),
		slog.String("environment_id", string(j.delivery.Environment)), slog.Int64("generation", a.Generation),
		slog.Int64("attempt", a.Number), slog.String("outcome", string(a.Outcome)), slog.String("delivery_status",
			string(next.Status)),
		slog.Float64("seconds", a.Timings.Total.Seconds()))
	if a.HTTPStatus != nil {
		attrs = append(attrs, slog.Int("http_status", *a.HTTPStatus))
	}
	if a.ErrorCode != nil {
		attrs = append(attrs, slog.String("error_code", *a.ErrorCode))
	}
	if next.Status == RetryWait {
		attrs = append(attrs, slog.Time("next_attempt_at", next.Due))
	}
	obs.WriteLine(ctx, s.log, slog.LevelInfo, "attempt", attrs...)
}

// releaseDelay keeps a delivery for which no attempt could begin from being claimed again immediately.
const releaseDelay = time.Second

// releaseLease ends a lease without an attempt.
func (s *Service) releaseLease(ctx context.Context, j *job, why string, err error) {
	if ctx.Err() == nil {
		s.log.ErrorContext(ctx, "released a delivery without an attempt", slog.String("reason", why),
			slog.String("event_uuid", j.delivery.EventUUID), slog.String("subscription_id", j.delivery.SubscriptionID),
			slog.String("error", err.Error()), obs.Outage("release: "+why))
	}
	s.recorder.submit(&result{delivery: j.delivery, next: j.delivery.returned(s.clock.Now().Add(releaseDelay))})
}
