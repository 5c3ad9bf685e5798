package retention

import (
	"context"
	"database/sql"
	"time"

	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

func (w *Worker) dropPartitions(ctx context.Context, environments []id.Environment) error {
	cutoff, err := w.oldest(ctx, environments)
	if err != nil || cutoff.IsZero() {
		return err
	}
	n, err := w.partitions.Drop(ctx, environments, cutoff)
	w.removed(kindPartition, int64(n))
	return err
}

func (w *Worker) sweepDefault(ctx context.Context, environments []id.Environment, limit int) (bool, error) {
	cutoff, err := w.oldest(ctx, environments)
	if err != nil || cutoff.IsZero() {
		return false, err
	}
	n, err := w.partitions.SweepDefault(ctx, environments, cutoff, limit)
	w.removed(kindPayload, int64(n))
	return n > 0, err
}

// endExpired ends the open deliveries of expired payloads.
func (w *Worker) endExpired(ctx context.Context, env id.Environment, limit int) (bool, error) {
	cutoff, _, err := w.cutoffs(ctx, env)
	if err != nil {
		return false, err
	}
	n, err := w.Deliveries.EndExpired(ctx, env, cutoff, w.Clock.Now(), max(1, limit/2)) // each changes its event, too
	w.removed(kindEnded, int64(n))
	return n > 0, err
}

func (w *Worker) sweepPayloads(ctx context.Context, env id.Environment, p *plan, limit int) (bool, error) {
	sweep, err := w.rowByRow(ctx, env, p)
	if err != nil || !sweep {
		return false, err
	}
	cutoff, _, err := w.cutoffs(ctx, env)
	if err != nil {
		return false, err
	}
	n, more, err := w.events.SweepPayloads(ctx, env, cutoff, limit)
	w.removed(kindPayload, int64(n))
	return more, err
}

func (w *Worker) sweepKeys(ctx context.Context, limit int) (bool, error) {
	n, err := w.events.SweepKeys(ctx, w.Clock.Now(), limit)
	w.removed(kindKey, int64(n))
	return n == limit, err
}

// rowsOf estimates the rows of an event: itself, its key, its payload, its deliveries and attempts.
func rowsOf(o events.Old) int64 { return 3 + o.Deliveries + o.Attempts }

// removeEvents removes a chunk of the environment's expired events after a uuid. It returns the uuid after which the
// next chunk begins.
func (w *Worker) removeEvents(ctx context.Context, env id.Environment, p *plan, after string,
	limit int) (next string, more bool, err error) {
	_, cutoff, err := w.cutoffs(ctx, env)
	if err != nil {
		return after, false, err
	}
	rowByRow, err := w.rowByRow(ctx, env, p)
	if err != nil {
		return after, false, err
	}
	list, looked, err := w.events.Expired(ctx, env, after, cutoff, max(1, limit/3), rowByRow)
	if err != nil {
		return after, false, err
	}
	n, rows := 0, int64(0)
	for n < len(list) && rows+rowsOf(list[n]) <= int64(limit) {
		rows += rowsOf(list[n])
		n++
	}
	if n == 0 && len(list) > 0 {
		thinner, err := w.thin(ctx, env, list[0], limit)
		if err != nil || thinner {
			return after, true, err
		}
		n = 1
	}
	if n < len(list) {
		list, looked = list[:n], list[n-1].UUID
	}
	return looked, looked != "", w.remove(ctx, env, list)
}

// thin deletes some rows of an event that has more than a chunk. It returns false when few are left.
func (w *Worker) thin(ctx context.Context, env id.Environment, o events.Old, limit int) (bool, error) {
	var dl, attempts int64
	err := w.DB.Tx(ctx, func(tx *sql.Tx) error {
		locked, err := w.events.LockFinished(ctx, tx, env, []events.Old{o})
		if err != nil || len(locked) == 0 {
			return err
		}
		dl, attempts, err = w.Deliveries.Thin(ctx, tx, env, o.UUID, limit)
		return err
	})
	if err != nil {
		return false, err
	}
	w.removed(kindDelivery, dl)
	w.removed(kindAttempt, attempts)
	return dl+attempts > 0, nil
}

// remove deletes events with everything that belongs to them in one transaction.
func (w *Worker) remove(ctx context.Context, env id.Environment, list []events.Old) error {
	if len(list) == 0 {
		return nil
	}
	var found, dl, attempts, keys int64
	err := w.DB.Tx(ctx, func(tx *sql.Tx) error {
		locked, err := w.events.LockFinished(ctx, tx, env, list)
		if err != nil {
			return err
		}
		uuids := make([]string, len(locked))
		for i, o := range locked {
			uuids[i] = o.UUID
		}
		if dl, attempts, err = w.Deliveries.Remove(ctx, tx, env, uuids); err != nil {
			return err
		}
		found = int64(len(locked))
		keys, err = w.events.Remove(ctx, tx, env, locked)
		return err
	})
	if err != nil {
		return err
	}
	for what, n := range map[string]int64{kindEvent: found, kindDelivery: dl, kindAttempt: attempts, kindKey: keys} {
		w.removed(what, n)
	}
	return nil
}

// statistics returns a task that joins minutes to hours and removes the hours that are older than events may be, one
// owner after the other, once an hour.
func (w *Worker) statistics() func(ctx context.Context, limit int) (bool, error) {
	var owners []deliveries.StatOwner
	found := false
	hour := w.Clock.Now().Truncate(time.Hour)
	return func(ctx context.Context, _ int) (bool, error) {
		if !hour.After(w.statistic) {
			return false, nil
		}
		if !found {
			var err error
			if owners, err = w.Deliveries.StatOwners(ctx); err != nil {
				return false, err
			}
			found = true
		}
		if len(owners) == 0 {
			w.statistic = hour
			return false, nil
		}
		more, err := w.statisticsOf(ctx, owners[0])
		if err == nil && !more {
			owners = owners[1:]
		}
		return err == nil, err
	}
}

// statisticsOf processes a chunk of an owner's statistics and reports whether there was one.
func (w *Worker) statisticsOf(ctx context.Context, o deliveries.StatOwner) (bool, error) {
	more, err := w.Deliveries.JoinStats(ctx, o, deliveries.StatMinutesUntil(w.Clock.Now()))
	if err != nil || more {
		return more, err
	}
	_, cutoff, err := w.cutoffs(ctx, o.Environment)
	if err != nil {
		return false, err
	}
	return w.Deliveries.RemoveStats(ctx, o, cutoff)
}
