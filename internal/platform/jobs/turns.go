package jobs

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// turn is how many places a key gets in one claim.
type turn struct {
	key    string
	places int
}

// turns decides how many of the free places each key gets: one each in turn, beginning after the key that was served
// last. Where nothing is due, wait is when to look again. A table without keys has a single one.
func (q *Queue) turns(ctx context.Context, now time.Time, free int) (list []turn, wait time.Duration, err error) {
	var due []string
	var next time.Time
	if q.cfg.Table.Key == "" {
		due, next, err = q.dueAtAll(ctx, now)
	} else {
		due, next, err = q.dueKeys(ctx, now, free)
	}
	if err != nil || len(due) == 0 {
		wait = q.cfg.Poll
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(now), time.Millisecond))
		}
		return nil, wait, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	list = make([]turn, len(due))
	for i, key := range due {
		list[i].key = key
	}
	for given := true; given; {
		given = false
		for i := range list {
			if free > 0 && (q.cfg.PerKey == 0 || q.running[list[i].key]+list[i].places < q.cfg.PerKey) {
				list[i].places++
				free--
				given = true
			}
		}
	}
	return slices.DeleteFunc(list, func(t turn) bool { return t.places == 0 }), q.cfg.Poll, nil
}

// dueAtAll returns one key where a job is due, or none and when the next job will be.
func (q *Queue) dueAtAll(ctx context.Context, now time.Time) (due []string, next time.Time, err error) {
	query := q.cfg.Table.earliest(now)
	var ms sql.NullInt64
	if err := q.cfg.DB.Reserved().QueryRowContext(ctx, query.String(), query.args...).Scan(&ms); err != nil {
		return nil, next, fmt.Errorf("look for due jobs: %w", err)
	}
	switch {
	case !ms.Valid:
		return nil, next, nil
	case ms.Int64 <= clock.Millis(now):
		return []string{""}, next, nil
	default:
		return nil, clock.FromMillis(ms.Int64), nil
	}
}

// keysPage is how many keys one query reads.
const keysPage = 256

// keyDue is a key with the earliest time at which one of its jobs can be claimed.
type keyDue struct {
	key string
	due sql.NullInt64
}

// dueKeys returns up to enough keys that have due jobs and room for more, beginning after the key that was served last,
// or none and when the next job will be due.
func (q *Queue) dueKeys(ctx context.Context, now time.Time, enough int) (due []string, next time.Time, err error) {
	q.mu.Lock()
	last := q.after
	q.mu.Unlock()
	for after, wrapped := last, false; ; {
		page, err := q.readKeys(ctx, after, now)
		if err != nil {
			return nil, next, err
		}
		for _, k := range page {
			switch {
			case wrapped && k.key > *last:
				return due, next, nil
			case !k.due.Valid || q.full(k.key):
			case k.due.Int64 <= clock.Millis(now):
				if due = append(due, k.key); len(due) == enough {
					return due, next, nil
				}
			default:
				if at := clock.FromMillis(k.due.Int64); next.IsZero() || at.Before(next) {
					next = at
				}
			}
		}
		switch {
		case len(page) == keysPage:
			after = &page[len(page)-1].key
		case wrapped || last == nil:
			return due, next, nil
		default:
			after, wrapped = nil, true
		}
	}
}

func (q *Queue) readKeys(ctx context.Context, after *string, now time.Time) ([]keyDue, error) {
	query := q.cfg.Table.keys(after, now, keysPage)
	rows, err := q.cfg.DB.Reserved().QueryContext(ctx, query.String(), query.args...)
	if err != nil {
		return nil, fmt.Errorf("look for keys of due jobs: %w", err)
	}
	var page []keyDue
	if err := db.Each(rows, func(r *sql.Rows) error {
		var k keyDue
		err := r.Scan(&k.key, &k.due)
		page = append(page, k)
		return err
	}); err != nil {
		return nil, fmt.Errorf("look for keys of due jobs: %w", err)
	}
	return page, nil
}

// full reports whether the key has all the places that it may have.
func (q *Queue) full(key string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.cfg.PerKey > 0 && q.running[key] >= q.cfg.PerKey
}
