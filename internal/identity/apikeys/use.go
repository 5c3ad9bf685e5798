package apikeys

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"
	"sync"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi/oas"
)

const (
	// usePrecision is how exact a key's last use is: its row is written at most this often.
	usePrecision = time.Minute
	// usageInterval is how often what was counted is stored.
	usageInterval = time.Minute
	// UsageKept is for how long usage is kept.
	UsageKept = 90 * 24 * time.Hour
	// useRows is how many rows one transaction writes, at most.
	useRows = 200
	// hourlyRange and dailyRange bound the range of one response.
	hourlyRange, dailyRange = 31 * 24 * time.Hour, UsageKept
)

// UseOutcome says how a request with a key ended.
type UseOutcome string

// The outcomes.
const (
	UseSucceeded UseOutcome = "succeeded"
	// UseDenied: no grant opens the route, or not for what the request is about.
	UseDenied  UseOutcome = "denied"
	UseLimited UseOutcome = "limited"
	// UseRefused: any other status of 4xx.
	UseRefused UseOutcome = "refused"
	// UseFailed: a status of 5xx.
	UseFailed UseOutcome = "failed"
)

// useOutcomes returns every outcome.
func useOutcomes() []UseOutcome {
	return []UseOutcome{UseSucceeded, UseDenied, UseLimited, UseRefused, UseFailed}
}

// Schema returns the schema with the outcomes, for the API.
func (UseOutcome) Schema(oas.Registry) *oas.Schema { return oas.Enum(useOutcomes()) }

func outcomeOf(status int) UseOutcome {
	switch {
	case status >= 500, status == 0: // the handler ended without a response
		return UseFailed
	case status == 429:
		return UseLimited
	case status == 403:
		return UseDenied
	case status >= 400:
		return UseRefused
	default:
		return UseSucceeded
	}
}

// useCell is the key by which requests are counted.
type useCell struct {
	hourMillis int64
	route      access.Route
	outcome    UseOutcome
}

// keyUses remembers how keys were used, between two writes to the store. Only keys that hold are in it.
type keyUses struct {
	mu    sync.Mutex
	byKey map[string]*keyUsed
	// stored is when counts were last stored, in Unix milliseconds.
	stored int64
}

type keyUsed struct {
	last KeyUse
	// written is when last was last written down.
	written int64
	counts  map[useCell]int64
}

// of returns what is known of a key. The caller holds the lock.
func (u *keyUses) of(keyID string) *keyUsed {
	k := u.byKey[keyID]
	if k == nil {
		if u.byKey == nil {
			u.byKey = map[string]*keyUsed{}
		}
		k = &keyUsed{counts: map[useCell]int64{}}
		u.byKey[keyID] = k
	}
	return k
}

// KeySeen notes that a key was used for an operation, which is named by its method and path. It costs the caller no
// query.
func (s *Service) KeySeen(keyID, ip, userAgent, operation string) {
	use := KeyUse{AtMillis: clock.Millis(s.clock.Now()), IP: ip, UserAgent: access.Client{UserAgent: userAgent}.Agent(),
		Route: operation}
	s.uses.mu.Lock()
	defer s.uses.mu.Unlock()
	s.uses.of(keyID).last = use
}

// KeyAnswered counts the response to a request with a key, by the route that the operation needs. It costs the caller
// no query.
func (s *Service) KeyAnswered(keyID string, route access.Route, status int) {
	cell := useCell{s.clock.Now().UTC().Truncate(time.Hour).UnixMilli(), route, outcomeOf(status)}
	s.uses.mu.Lock()
	defer s.uses.mu.Unlock()
	s.uses.of(keyID).counts[cell]++
}

// useRow is a count to store.
type useRow struct {
	keyID string
	useCell
	requests int64
}

// due takes what is to be stored now: the last uses whose minute is over, and, once a minute or when asked, the counts.
// Keys that were not used for two minutes are forgotten.
func (u *keyUses) due(nowMillis int64, all bool) (lasts map[string]KeyUse, counts []useRow) {
	u.mu.Lock()
	defer u.mu.Unlock()
	lasts = map[string]KeyUse{}
	all = all || nowMillis-u.stored >= usageInterval.Milliseconds()
	if all {
		u.stored = nowMillis
	}
	for keyID, k := range u.byKey {
		// A node writes a key's last use once a minute, and a statement keeps several nodes to that.
		if k.last.AtMillis > k.written && nowMillis-k.written >= usePrecision.Milliseconds() {
			lasts[keyID], k.written = k.last, nowMillis
		}
		if !all {
			continue
		}
		for cell, n := range k.counts {
			counts = append(counts, useRow{keyID, cell, n})
		}
		if len(k.counts) == 0 && k.last.AtMillis <= k.written && nowMillis-k.written >= 2*usePrecision.Milliseconds() {
			delete(u.byKey, keyID)
		}
		clear(k.counts)
	}
	// One order, so that nodes do not wait for each other in a circle.
	slices.SortFunc(counts, func(a, b useRow) int {
		return cmp.Or(strings.Compare(a.keyID, b.keyID), cmp.Compare(a.hourMillis, b.hourMillis),
			cmp.Compare(a.route, b.route), cmp.Compare(a.outcome, b.outcome))
	})
	return lasts, counts
}

// giveBack counts again what could not be stored.
func (u *keyUses) giveBack(counts []useRow) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range counts {
		u.of(r.keyID).counts[r.useCell] += r.requests
	}
}

// StoreKeyUse stores when keys were last used and how requests with them ended: everything that is due or, with all,
// everything. A worker calls it every few seconds. A process that crashes loses at most the last minute.
func (s *Service) StoreKeyUse(ctx context.Context, all bool) error {
	lasts, counts := s.uses.due(clock.Millis(s.clock.Now()), all)
	ids := make([]string, 0, len(lasts))
	for keyID := range lasts {
		ids = append(ids, keyID)
	}
	slices.Sort(ids)
	for chunk := range slices.Chunk(ids, useRows) {
		err := s.db.Tx(ctx, func(tx *sql.Tx) error {
			for _, keyID := range chunk {
				if err := writeLastUse(ctx, tx, keyID, lasts[keyID]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			s.uses.giveBack(counts)
			return err
		}
	}
	for len(counts) > 0 {
		n := min(len(counts), useRows)
		if err := s.db.Tx(ctx, func(tx *sql.Tx) error { return addUsage(ctx, s.db, tx, counts[:n]) }); err != nil {
			s.uses.giveBack(counts)
			return err
		}
		counts = counts[n:]
	}
	return nil
}

// ExpireKeyUse deletes usage that is older than UsageKept, in small transactions.
func (s *Service) ExpireKeyUse(ctx context.Context) error {
	before := clock.Millis(s.clock.Now().Add(-UsageKept))
	for more := true; more; {
		err := s.db.Tx(ctx, func(tx *sql.Tx) (err error) {
			more, err = expireUsage(ctx, tx, before)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// UsageBucket is the length of time by which usage is counted.
type UsageBucket string

// The lengths. Days are those of UTC.
const (
	UsageByHour UsageBucket = "hour"
	UsageByDay  UsageBucket = "day"
)

// usageBuckets returns every length.
func usageBuckets() []UsageBucket { return []UsageBucket{UsageByHour, UsageByDay} }

// Schema returns the schema with the lengths, for the API.
func (UsageBucket) Schema(oas.Registry) *oas.Schema { return oas.Enum(usageBuckets()) }

func (b UsageBucket) bounds() (length, longest, usual time.Duration) {
	if b == UsageByHour {
		return time.Hour, hourlyRange, 24 * time.Hour
	}
	return 24 * time.Hour, dailyRange, 30 * 24 * time.Hour
}

// UsageRequest selects usage. The range is widened to whole buckets. Without To it ends now. Without From it begins a
// day or thirty days before its end, depending on the bucket.
type UsageRequest struct {
	From, To *time.Time
	Bucket   UsageBucket
}

// Violations returns every rule that the request breaks, by the names of its fields.
func (r UsageRequest) Violations(now time.Time) []apperr.Detail {
	var v apperr.Violations
	from, to := r.bounds(now)
	_, longest, _ := r.Bucket.bounds()
	switch {
	case !from.Before(to):
		v.Add("from", "order", "must be before to")
	case to.Sub(from) > longest:
		v.Add("from", "range", "must be within 31 days of the end by the hour, 90 by the day")
	}
	for _, end := range []struct {
		at   string
		time *time.Time
	}{{"from", r.From}, {"to", r.To}} {
		if end.time != nil && end.time.Unix() < 0 {
			v.Add(end.at, "range", "must not be before 1970")
		}
	}
	if to.Sub(now) > longest {
		v.Add("to", "range", "must not be that far in the future")
	}
	return v.Details()
}

func (r UsageRequest) bounds(now time.Time) (from, to time.Time) {
	_, _, usual := r.Bucket.bounds()
	to = now
	if r.To != nil {
		to = *r.To
	}
	from = to.Add(-usual)
	if r.From != nil {
		from = *r.From
	}
	return from, to
}

// UsageCount counts the requests that needed a route and had an outcome.
type UsageCount struct {
	Route    access.Route
	Outcome  UseOutcome
	Requests int64
}

// UsagePart is the usage of one bucket.
type UsagePart struct {
	StartMillis int64
	Counts      []UsageCount
}

// KeyUsage counts the requests with a key. Parts are oldest first; buckets without requests are left out.
type KeyUsage struct {
	FromMillis, ToMillis int64
	Parts                []UsagePart
}

// KeyUsage returns the stored usage of a key of the actor's team, which lags up to a minute behind. It returns
// not_found and validation_error.
func (s *Service) KeyUsage(ctx context.Context, actor access.Principal, keyID string,
	r UsageRequest) (KeyUsage, error) {
	if _, err := s.GetKey(ctx, actor, keyID); err != nil {
		return KeyUsage{}, err
	}
	now := s.clock.Now()
	if violations := r.Violations(now); violations != nil {
		return KeyUsage{}, apperr.Invalid(violations...)
	}
	from, to := r.bounds(now)
	length, _, _ := r.Bucket.bounds()
	out := KeyUsage{FromMillis: from.UTC().Truncate(length).UnixMilli(),
		ToMillis: to.UTC().Add(length - time.Millisecond).Truncate(length).UnixMilli()}
	rows, err := readUsage(ctx, s.db.Read(), keyID, out.FromMillis, out.ToMillis, length.Milliseconds())
	if err != nil {
		return KeyUsage{}, err
	}
	for _, row := range rows {
		if n := len(out.Parts); n == 0 || out.Parts[n-1].StartMillis != row.hourMillis {
			out.Parts = append(out.Parts, UsagePart{StartMillis: row.hourMillis})
		}
		last := &out.Parts[len(out.Parts)-1]
		last.Counts = append(last.Counts, UsageCount{row.route, row.outcome, row.requests})
	}
	return out, nil
}
