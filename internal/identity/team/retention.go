package team

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// Limits of an environment's settings of retention, in days.
const (
	maxPayloadRetentionDays = 365
	maxEventRetentionDays   = 3650
)

// Retention is for how many days an environment keeps data. A nil field means the default of the service.
type Retention struct {
	// PayloadDays is about the bodies and headers of events: 1 to maxPayloadRetentionDays, and no more than the events
	// live.
	PayloadDays *int64
	// EventDays is about events with their history: 1 to maxEventRetentionDays.
	EventDays *int64
}

// RetentionChange changes a setting of Retention where it is Set, to nil where that is nil.
type RetentionChange struct {
	PayloadSet, EventSet bool
	Retention
}

// apply returns r with the change made.
func (c RetentionChange) apply(r Retention) Retention {
	if c.PayloadSet {
		r.PayloadDays = c.PayloadDays
	}
	if c.EventSet {
		r.EventDays = c.EventDays
	}
	return r
}

// effective returns the days that hold: payloads never outlive their events.
func (s *Service) effective(r Retention) (payload, event int64) {
	payload, event = s.defaults.payload, s.defaults.event
	if r.EventDays != nil {
		event = *r.EventDays
	}
	if r.PayloadDays != nil {
		payload = *r.PayloadDays
	}
	return min(payload, event), event
}

// retentionViolations returns the errors of settings, by the names of their fields. A payload time that the
// events' would cut short is refused rather than ignored.
func (s *Service) retentionViolations(r Retention) []apperr.Detail {
	const payload, event = "payload_retention_days", "event_retention_days"
	violations := slices.Concat(outOfRange(r.PayloadDays, maxPayloadRetentionDays, payload),
		outOfRange(r.EventDays, maxEventRetentionDays, event))
	if _, event := s.effective(r); violations == nil && r.PayloadDays != nil && *r.PayloadDays > event {
		violations = append(violations, apperr.Detail{Location: payload, Rule: "order",
			Message: "must not exceed event_retention_days, which is " + strconv.FormatInt(event, 10)})
	}
	return violations
}

func outOfRange(days *int64, most int64, location string) []apperr.Detail {
	if days == nil || *days >= 1 && *days <= most {
		return nil
	}
	return []apperr.Detail{{Location: location, Rule: "range", Message: "must be from 1 to " +
		strconv.FormatInt(most, 10)}}
}

// collection names the cached settings of environments.
const collection = "environments"

// Refresh drops cached settings of environments that another process has changed.
func (s *Service) Refresh(ctx context.Context) error {
	version, err := s.version(ctx)
	if err != nil {
		return fmt.Errorf("refresh environments: %w", err)
	}
	s.retention.DropOthers(version)
	return nil
}

func (s *Service) version(ctx context.Context) (int64, error) {
	versions, err := s.db.Versions(ctx)
	return versions[collection], err
}

// Lifetimes returns how long the environment keeps payloads and events, also after it was deleted. It returns not_found
// if the environment never existed.
func (s *Service) Lifetimes(ctx context.Context, env id.Environment) (payload, event time.Duration, err error) {
	r, err := s.retention.Get(ctx, env, func(ctx context.Context) (Retention, int64, error) {
		version, err := s.version(ctx)
		if err != nil {
			return Retention{}, 0, err
		}
		r, err := readRetention(ctx, s.db.Reserved(), env)
		return r, version, err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, ErrNoEnvironment()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the retention of an environment: %w", err)
	}
	const day = 24 * time.Hour
	p, e := s.effective(r)
	return time.Duration(p) * day, time.Duration(e) * day, nil
}

func readRetention(ctx context.Context, q db.Querier, env id.Environment) (r Retention, err error) {
	c := retentionColumns(&r)
	return r, c.Scan(q.QueryRowContext(ctx, "SELECT "+c.Names()+" "+environmentTable+" WHERE id = $1", env))
}
