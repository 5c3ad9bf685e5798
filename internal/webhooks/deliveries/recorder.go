package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/obs"
	"sallyport/internal/webhooks/events"
)

// result is an attempt, or a lease to release, on its way to the database.
type result struct {
	// delivery is the leased delivery.
	delivery Delivery
	// next is the delivery's state after it.
	next Delivery
	// attempt is stored unless the lease was released without one.
	attempt   Attempt
	attempted bool
	// sent is set unless the attempt was refused before it reached the receiver.
	sent bool
	// counted is set when the statistics have the attempt.
	counted bool
	// probe is set when the attempt was a probe of the receiver.
	probe bool
}

// outcomeBatch is the maximum number of outcomes that one transaction stores: an update, an insert and a counter each.
const outcomeBatch = 256

// leastOutcomes is that number on SQLite if that many take long.
const leastOutcomes = 20

// recordPace is the interval at which outcomes are stored while there are few. No request waits for them, and fewer
// commits leave the disk and the one writer to the events. After a crash the deliveries whose outcome was not stored
// yet are sent again.
const recordPace = 50 * time.Millisecond

// recordRetry is the wait of the recorder between attempts to reach a database that is down.
const recordRetry = 250 * time.Millisecond

// recorder stores the outcomes of attempts in batches, and counts them. The senders submit results; a single goroutine
// stores them.
type recorder struct {
	db         *db.DB
	store      *Store
	clock      clock.Clock
	log        *slog.Logger
	batches    *obs.Batches
	dispatcher *dispatcher
	claimer    *claimer
	breakers   *breakers

	results *jobs.Batcher[*result]
	counted counter
	// life outlives the attempts whose outcomes are recorded; end ends it.
	life           context.Context //nolint:containedctx // the life of the recorder
	end            context.CancelFunc
	stop, recorded chan struct{}
}

func newRecorder(s *Service) *recorder {
	r := &recorder{db: s.db, store: s.store, clock: s.clock, log: s.log, batches: s.batches, dispatcher: s.dispatcher,
		claimer: s.claimer, breakers: s.breakers, counted: counter{runs: &s.store.runs}, stop: make(chan struct{}),
		recorded: make(chan struct{})}
	r.life, r.end = context.WithCancel(db.WithTurn(context.Background(), db.TurnDelivery))
	r.results = jobs.NewBatcher(outcomeBatch, r.recordBatch)
	r.results.Pace(recordPace)
	return r
}

// run stores results until the recorder is flushed.
func (k *recorder) run() {
	defer close(k.recorded)
	k.results.Run(k.stop)
}

// submit hands a result to the recorder. It waits for room without a limit: a result must not be dropped, and the
// recorder runs until every sender has ended.
func (k *recorder) submit(r *result) { k.results.Put(r) }

// recordBatch stores a batch of results, in one transaction unless that would take long or emit many changes.
func (k *recorder) recordBatch(batch []*result) {
	for len(batch) > 0 {
		n := firstPart(batch, k.store.outcomes.Limit())
		k.record(batch[:n])
		batch = batch[n:]
	}
}

// firstPart returns how many results of the batch, from the first, one transaction stores: at most limit, and no more
// than emit maxEmitted events.
func firstPart(batch []*result, limit int) int {
	most, emitted := min(len(batch), limit), 0
	for i, r := range batch[:most] {
		if m := (move{from: r.delivery, to: r.next}); m.isEmitted() {
			emitted++
		}
		if emitted == maxEmitted {
			return i + 1
		}
	}
	return most
}

// record stores results. While the database is down dispatch stops, and the results are submitted again until they are
// stored: their deliveries stay leased in memory meanwhile, so they are not sent again. Only the end of the process
// ends that.
func (k *recorder) record(batch []*result) {
	ctx := k.life
	start, end := k.clock.Now(), k.watch()
	for {
		err := k.storeResults(ctx, batch)
		if err == nil {
			k.breakers.observe(batch)
			break
		}
		if ctx.Err() != nil {
			k.log.ErrorContext(ctx, "the outcomes of deliveries were not stored before the process ended; they are sent again",
				slog.Int("count", len(batch)), slog.String("error", err.Error()))
			break
		}
		k.log.ErrorContext(ctx, "cannot store the outcomes of deliveries; dispatch stops until they are stored",
			slog.Int("count", len(batch)), slog.String("error", err.Error()), obs.Outage("outcomes"))
		k.dispatcher.pause()
		t := k.clock.NewTimer(recordRetry)
		select {
		case <-t.C():
		case <-ctx.Done():
		}
		t.Stop()
	}
	end()
	k.dispatcher.resume()
	k.batches.Observe("outcomes", k.clock.Now().Sub(start), len(batch))
	for _, r := range batch {
		k.dispatcher.done(r.delivery)
		k.claimer.finished(r.next)
	}
}

// storePatience is how long a batch may take to be stored until dispatch stops. A database that hangs reports an error
// much later, and what is sent until then is sent without a record.
const storePatience = 2 * time.Second

// watch stops dispatch if storing a batch takes long. The function that it returns ends the watch.
func (k *recorder) watch() (end func()) {
	var mu sync.Mutex
	stored := false
	timer := time.AfterFunc(storePatience, func() { //nolint:forbidigo // real time, also in tests with a manual clock
		mu.Lock()
		defer mu.Unlock()
		if !stored {
			k.dispatcher.pause()
		}
	})
	return func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		stored = true
	}
}

// storeResults stores results in one transaction or, if one of their leases was lost or a row cannot be stored, each in
// its own.
func (k *recorder) storeResults(ctx context.Context, batch []*result) error {
	err := k.db.Tx(ctx, func(tx *sql.Tx) error { return k.storeBatch(ctx, tx, batch) })
	if err == nil {
		for _, r := range batch {
			k.counted.add(r)
		}
		return nil
	}
	if db.IsUnavailable(err) || ctx.Err() != nil {
		return err
	}
	for _, r := range batch {
		if err := k.storeOne(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (k *recorder) storeBatch(ctx context.Context, tx *sql.Tx, batch []*result) error {
	moves := make([]move, len(batch))
	attempted := make([]*result, 0, len(batch))
	for i, r := range batch {
		moves[i] = move{from: r.delivery, to: r.next}
		if r.attempted {
			moves[i].attempts = 1
			attempted = append(attempted, r)
		}
	}
	return k.store.apply(ctx, tx, moves, clock.Millis(k.clock.Now()), attempted...)
}

// storeOne stores one result. If its lease was lost, the delivery stays with its present holder, and the attempt is
// recorded as superseded.
func (k *recorder) storeOne(ctx context.Context, r *result) error {
	err := k.db.Tx(ctx, func(tx *sql.Tx) error { return k.storeBatch(ctx, tx, []*result{r}) })
	outcome := r.attempt.Outcome
	if errors.Is(err, errStale) {
		if !r.attempted {
			return nil
		}
		r.attempt.Outcome = AttemptSuperseded
		err = k.db.Tx(ctx, func(tx *sql.Tx) error {
			log := events.Log{At: k.clock.Now()}
			_, err := k.db.ExecAll(ctx, tx, recordAttempts([]*result{r}, &log), log.Statement())
			return err
		})
	}
	if db.IsUniqueViolation(err) {
		// The attempt is on record, so the result was stored before, and only the response to its commit was lost.
		r.attempt.Outcome, err = outcome, nil
	}
	if err == nil {
		k.counted.add(r)
		return nil
	}
	if db.IsUnavailable(err) || ctx.Err() != nil {
		return err
	}
	// A result that cannot be stored must not stop the others. Its lease expires, and the delivery is sent again.
	k.log.ErrorContext(ctx, "the database refused the outcome of a delivery",
		slog.String("event_uuid", r.delivery.EventUUID), slog.String("subscription_id", r.delivery.SubscriptionID),
		slog.String("error", err.Error()), obs.Outage("refused outcome"))
	return nil
}

// flushTimeout is how long the outcomes of interrupted attempts may take to be stored after the time for an orderly
// stop is over. Without them the leases would stay with a process that is gone.
const flushTimeout = 2 * time.Second

// flush waits for the senders and stores their results.
func (k *recorder) flush(ctx context.Context) {
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		k.dispatcher.workers.Wait()
		for _, d := range k.dispatcher.stop() { // those that a busy host sent back to wait
			k.submit(&result{delivery: d, next: d.returned(k.clock.Now())})
		}
		close(k.stop)
		<-k.recorded
	}()
	select {
	case <-flushed:
		return
	case <-ctx.Done():
	}
	t := k.clock.NewTimer(flushTimeout)
	defer t.Stop()
	select {
	case <-flushed:
	case <-t.C():
		k.end()
		<-flushed
	}
}
