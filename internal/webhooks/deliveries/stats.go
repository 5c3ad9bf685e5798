package deliveries

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
)

// StatMinutesKept is how long statistics by minute are kept.
const StatMinutesKept = 24 * time.Hour

// openLimit is the maximum to which open deliveries are counted.
const openLimit = 10_000

// Bucket is the length of the periods of statistics.
type Bucket string

// The buckets. Days are UTC days.
const (
	ByMinute Bucket = "minute"
	ByHour   Bucket = "hour"
	ByDay    Bucket = "day"
)

// buckets returns every bucket.
func buckets() []Bucket { return []Bucket{ByMinute, ByHour, ByDay} }

// Schema returns the schema with the buckets, for the API.
func (Bucket) Schema(oas.Registry) *oas.Schema { return oas.Enum(buckets()) }

// bounds returns the length of a bucket, the longest range, and the default range.
func (b Bucket) bounds() (length, longest, usual time.Duration) {
	const day = 24 * time.Hour
	switch b {
	case ByMinute:
		return time.Minute, StatMinutesKept, time.Hour
	case ByDay:
		return day, 366 * day, 30 * day
	case ByHour:
		return time.Hour, 31 * day, day
	default:
		return time.Hour, 31 * day, day
	}
}

// StatsRequest selects statistics.
type StatsRequest struct {
	// From and To bound the range, From inclusive and To exclusive; both are widened to whole buckets. Without To the
	// range ends now; without From it begins an hour, a day or thirty days before its end, by the bucket.
	From, To *time.Time
	Bucket   Bucket
}

// Check adds the validation errors that do not depend on the time, at the locations of the query.
func (r StatsRequest) Check(v *apperr.Violations) {
	if r.From == nil || r.To == nil {
		return
	}
	_, longest, _ := r.Bucket.bounds()
	switch {
	case !r.From.Before(*r.To):
		v.Add("query.from", "order", "must be before to")
	case r.To.Sub(*r.From) > longest:
		v.Add("query.from", "range", "must be at most "+strconv.Itoa(int(longest/time.Hour))+
			" hours before to with this bucket")
	}
}

// resolve returns the range in whole buckets.
func (r StatsRequest) resolve(now time.Time) (begin, end time.Time, err error) {
	length, longest, usual := r.Bucket.bounds()
	from, to, until := now.Add(-usual), now, now.Add(time.Millisecond) // so that the present millisecond is included
	if r.To != nil {
		from, to, until = r.To.Add(-usual), *r.To, *r.To
	}
	if r.From != nil {
		from = *r.From
	}
	var v apperr.Violations
	StatsRequest{From: &from, To: &to, Bucket: r.Bucket}.Check(&v)
	if r.Bucket == ByMinute && now.Sub(from) > longest {
		v.Add("query.from", "kept", "must be at most 24 hours ago: statistics by minute are kept for 24 hours")
	}
	for _, bound := range []struct {
		location string
		at       *time.Time
	}{{"query.from", r.From}, {"query.to", r.To}} {
		if bound.at != nil && bound.at.Unix() < 0 {
			v.Add(bound.location, "range", "must not be before 1970")
		}
	}
	if to.Sub(now) > longest {
		v.Add("query.to", "range", "must not be that far in the future")
	}
	return from.Truncate(length), until.Add(length - 1).Truncate(length), v.Err()
}

// Percentiles are those of durations, each accurate to a tenth.
type Percentiles struct{ P50, P95, P99 time.Duration }

// Counts holds the counts of a subscription's deliveries in a period.
type Counts struct {
	// Succeeded, Failed and Superseded count attempts by the time when they began. Every success is also the success of a
	// delivery.
	Succeeded, Failed, Superseded int64
	// Dead and Cancelled count deliveries that ended so.
	Dead, Cancelled int64
	// Duration covers attempts that sent something; nil if there were none.
	Duration *Percentiles
	// TimeToSuccess runs from an event's receipt to the success of its delivery, without replayed deliveries; nil if there
	// were none.
	TimeToSuccess *Percentiles
}

// StatBucket holds the counts of one period.
type StatBucket struct {
	Start time.Time
	Counts
}

// Stats holds the statistics of a subscription's deliveries.
type Stats struct {
	// From and To bound the range.
	From, To time.Time
	// Open counts the deliveries that wait now, by state, each up to openLimit.
	Open map[Status]int64
	// Total covers the whole range.
	Total Counts
	// buckets cover the range without gaps, oldest first.
	Buckets []StatBucket
}

// Stats returns the statistics of a subscription that the view shows, and its waiting deliveries. The cost depends on
// the range and not on the number of attempts. It takes turns among the lists of the environment.
//
// Errors: not_found; validation errors at the locations of the query.
func (s *Service) Stats(ctx context.Context, v access.View, subscriptionID string, r StatsRequest) (Stats, error) {
	from, to, err := r.resolve(s.clock.Now())
	if err != nil {
		return Stats{}, err
	}
	if _, err := s.subs.Get(ctx, v, subscriptionID); err != nil {
		return Stats{}, err
	}
	length, _, _ := r.Bucket.bounds()
	out := Stats{From: from, To: to}
	var counted map[int64]histogram
	if err := s.db.List(ctx, string(v.Environment), func(ctx context.Context, q db.Querier) (err error) {
		if counted, err = s.readCounts(ctx, q, v.Environment, subscriptionID, from, to, length); err == nil {
			out.Open, err = s.store.countOpen(ctx, q, v.Environment, subscriptionID)
		}
		return err
	}); err != nil {
		return Stats{}, err
	}
	total := histogram{}
	for start := from; start.Before(to); start = start.Add(length) {
		h := counted[clock.Millis(start)]
		out.Buckets = append(out.Buckets, StatBucket{Start: start, Counts: h.counts()})
		total.merge(h)
	}
	out.Total = total.counts()
	return out, nil
}

// readCounts returns the stored counts together with those that this process has not stored yet.
func (s *Service) readCounts(ctx context.Context, q db.Querier, env id.Environment, subscriptionID string, from,
	to time.Time, length time.Duration) (map[int64]histogram, error) {
	s.recorder.counted.storing.RLock()
	defer s.recorder.counted.storing.RUnlock()
	counted, err := s.store.stats(ctx, q, env, subscriptionID, from, to, length)
	if err == nil {
		s.recorder.counted.addPending(env, subscriptionID, clock.Millis(from), clock.Millis(to), length.Milliseconds(),
			counted)
	}
	return counted, err
}

// histogram counts by measure and class.
type histogram map[measure]map[int64]int64

func (h histogram) add(m measure, class, n int64) {
	if h[m] == nil {
		h[m] = map[int64]int64{}
	}
	h[m][class] += n
}

func (h histogram) merge(other histogram) {
	for m, classes := range other {
		for class, n := range classes {
			h.add(m, class, n)
		}
	}
}

func (h histogram) counts() Counts {
	of := func(m measure) (n int64) {
		for _, v := range h[m] {
			n += v
		}
		return n
	}
	tries := histogram{}
	for _, m := range []measure{measureSucceeded, measureFailed} {
		for class, n := range h[m] {
			tries.add("", class, n)
		}
	}
	return Counts{Succeeded: of(measureSucceeded), Failed: of(measureFailed), Superseded: of(measureSuperseded),
		Dead: of(measureDead), Cancelled: of(measureCancelled), Duration: percentiles(tries[""]),
		TimeToSuccess: percentiles(h[measureSuccess])}
}

// percentiles returns percentiles by the nearest rank.
func percentiles(classes map[int64]int64) *Percentiles {
	order, total := []int64{}, int64(0)
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		if class != noDuration {
			order = append(order, class)
			total += classes[class]
		}
	}
	if total == 0 {
		return nil
	}
	at := func(percent int64) time.Duration {
		rank := (total*percent + 99) / 100
		for _, class := range order {
			if rank -= classes[class]; rank <= 0 {
				return middleOf(class)
			}
		}
		return 0
	}
	return &Percentiles{P50: at(50), P95: at(95), P99: at(99)}
}

// stats returns the counts of each bucket that has any, by its start in Unix milliseconds.
func (s *Store) stats(ctx context.Context, q db.Querier, env id.Environment, subscriptionID string, from, to time.Time,
	length time.Duration) (map[int64]histogram, error) {
	widest := statHour
	if length < time.Hour {
		widest = statMinute // hours that are joined cannot be divided into minutes
	}
	rows, err := q.QueryContext(ctx, `SELECT s.start_ms - s.start_ms % $5, s.measure, s.class,
			CAST(SUM(s.n) AS bigint) FROM delivery_stats s
		WHERE s.subscription_id = $1 AND s.environment_id = $2 AND s.width_ms IN ($6, $7) AND s.start_ms >= $3
		AND s.start_ms < $4
		GROUP BY 1, 2, 3`,
		subscriptionID, string(env), clock.Millis(from), clock.Millis(to), length.Milliseconds(), statMinute, widest)
	if err != nil {
		return nil, fmt.Errorf("read statistics: %w", err)
	}
	out := map[int64]histogram{}
	if err := db.Each(rows, func(r *sql.Rows) error {
		var start, class, n int64
		var m measure
		if err := r.Scan(&start, &m, &class, &n); err != nil {
			return err
		}
		if out[start] == nil {
			out[start] = histogram{}
		}
		out[start].add(m, class, n)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read statistics: %w", err)
	}
	return out, nil
}

// countOpen counts the waiting deliveries of a subscription, by state.
func (s *Store) countOpen(ctx context.Context, q db.Querier, env id.Environment,
	subscriptionID string) (map[Status]int64, error) {
	open := map[Status]int64{}
	for _, status := range []Status{Pending, RetryWait, Held} {
		var n int64
		err := q.QueryRowContext(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM deliveries d WHERE `+whereOpen+
			` AND d.subscription_id = $1 AND d.status = $2 AND d.environment_id = $3 LIMIT `+strconv.Itoa(openLimit)+`) q`,
			subscriptionID, string(status), string(env)).Scan(&n)
		if err != nil {
			return nil, fmt.Errorf("count open deliveries: %w", err)
		}
		open[status] = n
	}
	return open, nil
}
