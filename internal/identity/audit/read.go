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

// readTimeout bounds a query: a filter that selects little of a long trail must not hold a connection for ever.
const readTimeout = 5 * time.Second

// List returns a page of the trail by number, with one row more than the page if another page follows. Events that were
// committed before the call get their numbers first, unless another process is numbering. The page's key is the number.
func (s *Store) List(ctx context.Context, t Trail, f Filter, p page.Request) ([]Entry, error) {
	if err := s.Seal(ctx); err != nil {
		return nil, err
	}
	var after *int64
	if p.After != "" {
		n, err := strconv.ParseInt(p.After, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("list audit events: %w", err)
		}
		after = &n
	}
	return s.read(ctx, t, f, after, p.Compare(), p.Direction(), p.Fetch())
}

// ReadAfter returns the events of the trail whose number is greater, lowest first, at most limit.
func (s *Store) ReadAfter(ctx context.Context, t Trail, f Filter, after int64, limit int) ([]Entry, error) {
	return s.read(ctx, t, f, &after, ">", "ASC", limit)
}

func (s *Store) read(ctx context.Context, t Trail, f Filter, after *int64, compare, direction string,
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
	if after != nil {
		where.WriteString(" AND a.seq " + compare + " " + arg(*after))
	}
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
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	query := `SELECT a.id, a.seq, a.time_ms, a.actor_type, a.actor_id, a.actor_name, a.ip, a.action, a.outcome,
		a.target_type, a.target_id,
		a.request_id, a.changes, a.details FROM audit_events a
		WHERE COALESCE(a.environment_id, a.team_id, '') = $1 AND a.seq IS NOT NULL` + where.String() +
		` ORDER BY a.seq ` + direction + ` LIMIT ` + strconv.Itoa(limit)
	rows, err := s.db.Read().QueryContext(ctx, query, args...)
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
