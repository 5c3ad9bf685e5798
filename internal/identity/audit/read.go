package audit

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// Trail names a sequence of events: that of an environment or, if the environment is empty, that of the team itself.
// The caller has checked that the environment belongs to the team.
type Trail struct {
	Team        id.Team
	Environment id.Environment
}

// key is what the index calls the trail.
func (t Trail) key() string {
	if t.Environment != "" {
		return string(t.Environment)
	}
	return string(t.Team)
}

// Filter selects events of a trail. Values of one field are alternatives; fields restrict together. Empty fields do not
// restrict.
type Filter struct {
	ActorTypes []access.Kind
	ActorIDs   []string
	// Actions are whole actions, or "object.*" for every action on that kind of object.
	Actions     []string
	Outcomes    []Outcome
	TargetTypes []string
	TargetIDs   []string
	RequestIDs  []string
	// After and Before bound the time, both exclusive.
	After, Before *time.Time
}

// Entry is an event as it is read.
type Entry struct {
	ID string
	// Seq counts from 1 within the trail, without gaps.
	Seq         int64
	Time        time.Time
	Team        id.Team
	Environment id.Environment
	ActorType   access.Kind
	ActorID     string
	ActorName   string
	IP          string
	Action      string
	Outcome     Outcome
	TargetType  string
	TargetID    string
	RequestID   string
	// Changes is the JSON of Changes, Details a JSON object.
	Changes, Details string
}

// A trail is read by windows of this many numbers, and a list ends after searchTime with what it has found: a filter
// that selects little of a long trail must not take a connection from others.
const (
	searchWindow = 5000
	searchTime   = 500 * time.Millisecond
)

// List returns a page of the trail by number, with one row more than the page if another page follows. Events that were
// committed before the call get their numbers first, unless another process is numbering. The page's key is the number.
// If few of many events match, List returns after a while what it has found, possibly nothing, with the number up to
// which it has looked; it is empty in all other cases.
func (s *Store) List(ctx context.Context, t Trail, f Filter, p page.Request) (list []Entry, place string, err error) {
	if err := s.Seal(ctx); err != nil {
		return nil, "", err
	}
	var after int64
	if p.After != "" {
		if after, err = strconv.ParseInt(p.After, 10, 64); err != nil {
			return nil, "", fmt.Errorf("list audit events: %w", err)
		}
	}
	list, last, err := s.search(ctx, t, f, after, p.Ascending, p.Fetch(), clock.System().Now().Add(s.searchTime))
	if last != 0 {
		place = strconv.FormatInt(last, 10)
	}
	return list, place, err
}

// ReadAfter returns the events of the trail whose number is greater, lowest first, at most limit.
func (s *Store) ReadAfter(ctx context.Context, t Trail, f Filter, after int64, limit int) ([]Entry, error) {
	list, _, err := s.search(ctx, t, f, after, true, limit, time.Time{})
	return list, err
}

// search returns up to limit events that come after a number; after 0 it begins with the first or, if not ascending,
// with the last. Its windows take turns among the lists of the trail's owner. If it ends with the time end, which may
// be zero, last is the number up to which it has looked; otherwise last is 0.
func (s *Store) search(ctx context.Context, t Trail, f Filter, after int64, ascending bool, limit int,
	end time.Time) (found []Entry, last int64, err error) {
	from, to, err := s.numbers(ctx, t)
	if err != nil {
		return nil, 0, err
	}
	switch {
	case after == 0:
	case ascending:
		from = max(from, after+1)
	default:
		to = min(to, after-1)
	}
	found = []Entry{}
	for from <= to {
		low, high := from, min(to, from+s.window-1)
		if !ascending {
			low, high = max(from, to-s.window+1), to
		}
		list, err := db.Listed(ctx, s.db, t.key(), func(ctx context.Context, q db.Querier) ([]Entry, error) {
			return read(ctx, q, t, f, low, high, ascending, limit-len(found))
		})
		if err != nil {
			return nil, 0, err
		}
		if found = append(found, list...); len(found) == limit {
			break
		}
		if ascending {
			from, last = high+1, high
		} else {
			to, last = low-1, low
		}
		if from <= to && !end.IsZero() && clock.System().Now().After(end) {
			return found, last, nil
		}
	}
	return found, 0, nil
}

// numbers returns the least and the greatest number of the trail; without events the first is the greater one.
func (s *Store) numbers(ctx context.Context, t Trail) (least, greatest int64, err error) {
	// Two queries, because each of them alone is one step in the index.
	err = s.db.Read().QueryRowContext(ctx, `SELECT
		COALESCE((SELECT MIN(a.seq) FROM audit_events a WHERE COALESCE(a.environment_id, a.team_id, '') = $1
			AND a.seq IS NOT NULL), 1),
		COALESCE((SELECT MAX(a.seq) FROM audit_events a WHERE COALESCE(a.environment_id, a.team_id, '') = $1
			AND a.seq IS NOT NULL), 0)`, t.key()).Scan(&least, &greatest)
	if err != nil {
		return 0, 0, fmt.Errorf("read the numbers of audit events: %w", err)
	}
	return least, greatest, nil
}

// read returns the first events of a window of numbers.
func read(ctx context.Context, q db.Querier, t Trail, f Filter, low, high int64, ascending bool,
	limit int) ([]Entry, error) {
	var where strings.Builder
	args := []any{t.key()}
	arg := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	in := func(column string, values []string) {
		if len(values) == 0 {
			return
		}
		where.WriteString(" AND a." + column + " IN " + db.In(len(args)+1, len(values)))
		for _, v := range values {
			args = append(args, v)
		}
	}
	where.WriteString(" AND a.seq BETWEEN " + arg(low) + " AND " + arg(high))
	in("actor_type", texts(f.ActorTypes))
	in("actor_id", f.ActorIDs)
	in("outcome", texts(f.Outcomes))
	in("target_type", f.TargetTypes)
	in("target_id", f.TargetIDs)
	in("request_id", f.RequestIDs)
	if len(f.Actions) > 0 {
		either := make([]string, 0, len(f.Actions))
		for _, action := range f.Actions {
			if object, all := strings.CutSuffix(action, ".*"); all {
				// Not LIKE, which ignores case on SQLite and takes _ for any character.
				either = append(either, "substr(a.action, 1, "+strconv.Itoa(len(object)+1)+") = "+arg(object+"."))
			} else {
				either = append(either, "a.action = "+arg(action))
			}
		}
		where.WriteString(" AND (" + strings.Join(either, " OR ") + ")")
	}
	if f.After != nil {
		where.WriteString(" AND a.time_ms > " + arg(clock.Millis(*f.After)))
	}
	if f.Before != nil {
		where.WriteString(" AND a.time_ms < " + arg(clock.Millis(*f.Before)))
	}
	direction := "DESC"
	if ascending {
		direction = "ASC"
	}
	query := `SELECT a.id, a.seq, a.time_ms, a.actor_type, a.actor_id, a.actor_name, a.ip, a.action, a.outcome,
		a.target_type, a.target_id,
		a.request_id, a.changes, a.details FROM audit_events a
		WHERE COALESCE(a.environment_id, a.team_id, '') = $1 AND a.seq IS NOT NULL` + where.String() +
		` ORDER BY a.seq ` + direction + ` LIMIT ` + strconv.Itoa(limit)
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read audit events: %w", err)
	}
	out := []Entry{}
	if err := db.Each(rows, func(r *sql.Rows) error {
		e := Entry{Team: t.Team, Environment: t.Environment}
		var at int64
		err := r.Scan(&e.ID, &e.Seq, &at, &e.ActorType, &e.ActorID, &e.ActorName, &e.IP, &e.Action, &e.Outcome, &e.TargetType,
			&e.TargetID, &e.RequestID, &e.Changes, &e.Details)
		e.Time = clock.FromMillis(at)
		out = append(out, e)
		return err
	}); err != nil {
		return nil, fmt.Errorf("read audit events: %w", err)
	}
	return out, nil
}

func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
