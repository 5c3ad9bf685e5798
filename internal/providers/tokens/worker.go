package tokens

import (
	"context"
	"database/sql"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
)

// Limits of the exchanges that a node has in progress at the same time. Most of them wait for a provider, and cost a
// goroutine and a connection.
const (
	maxExchanges = 1024
	// perEnvironment, perEndpoint (of an environment) and perHost (an endpoint, of all environments together) keep the
	// other places for others while providers hang.
	perEnvironment = 128
	perEndpoint    = 64
	perHost        = 256
	// freeForEach is how many places are free for each that an environment has, when it takes another. So each has fewer
	// the more environments need many, and one that has none always gets some.
	freeForEach = 4
	// freeAtHost is the same for the places of a host. One environment alone gets perEndpoint of them.
	freeAtHost = perHost/perEndpoint - 1
)

const (
	// pollInterval is how often the worker looks for renewals that are due, soonInterval how soon after it has found some,
	// and wakeAfter the number of places that are free again after which it looks immediately.
	pollInterval = time.Second
	soonInterval = 250 * time.Millisecond
	wakeAfter    = 16
)

// worker counts the exchanges in progress.
type worker struct {
	mu    sync.Mutex
	total int
	// freed counts the places that were given back since the loop was woken.
	freed    int
	byEnv    map[id.Environment]int
	byTarget map[string]int
	byHost   map[string]int
	// leases are those of which this node still has an exchange or its outcome, by connection. No other exchange of these
	// begins here, although the lease may have ended: the outcome may still be waiting for the database.
	leases map[string]string
	wake   jobs.Wake
	// outage is when the database was last found unavailable, or the worker began.
	outage time.Time
	// draining: nothing new is claimed; closing: the service ends with the last exchange.
	draining, closing bool
	// exchanges are those in progress, of requests too; idle is closed when the last of them has ended.
	exchanges int
	idle      chan struct{}
	cancel    context.CancelFunc
	looping   sync.WaitGroup
}

func newWorker() worker {
	return worker{byEnv: map[id.Environment]int{}, byTarget: map[string]int{}, byHost: map[string]int{},
		leases: map[string]string{},
		wake:   jobs.NewWake(),
		idle:   make(chan struct{})}
}

// target is what has a share: an endpoint, for the connections of an environment.
func target(r *row) string { return string(r.environment) + " " + r.endpoint }

// enter takes a place, if there is one.
func (w *worker) enter(r *row) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	has := w.byEnv[r.environment]
	if w.draining || has >= perEnvironment || has*freeForEach >= maxExchanges-w.total ||
		w.byTarget[target(r)]*freeAtHost >= perHost-w.byHost[r.endpoint] {
		return false
	}
	w.total++
	w.byEnv[r.environment]++
	w.byTarget[target(r)]++
	w.byHost[r.endpoint]++
	w.exchanges++
	return true
}

// leave gives a place back.
func (w *worker) leave(r *row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total--
	if w.byEnv[r.environment]--; w.byEnv[r.environment] == 0 {
		delete(w.byEnv, r.environment)
	}
	if w.byTarget[target(r)]--; w.byTarget[target(r)] == 0 {
		delete(w.byTarget, target(r))
	}
	if w.byHost[r.endpoint]--; w.byHost[r.endpoint] == 0 {
		delete(w.byHost, r.endpoint)
	}
	w.ended()
	// To look for more costs a query over all that is due.
	if w.freed++; w.freed >= wakeAfter {
		w.freed = 0
		w.wake.Signal()
	}
}

// begin and end count an exchange that a request waits for.
func (w *worker) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exchanges++
}

func (w *worker) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended()
}

func (w *worker) ended() {
	if w.exchanges--; w.exchanges == 0 && w.closing {
		w.signalIdle()
	}
}

// signalIdle closes idle, which may be closed already: a request can begin an exchange during the stop.
func (w *worker) signalIdle() {
	select {
	case <-w.idle:
	default:
		close(w.idle)
	}
}

// keep notes that this node has an exchange of the lease, until the returned function is called.
func (w *worker) keep(r *row) (end func()) {
	uuid, lease := r.connectionUUID, r.lease
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leases[uuid] = lease
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.leases[uuid] == lease {
			delete(w.leases, uuid)
		}
	}
}

// keeps reports whether this node still has the exchange of a lease that the row has.
func (w *worker) keeps(r *row) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return r.lease != "" && w.leases[r.connectionUUID] == r.lease
}

// outagePause is for how long leases are left that have ended while the database was away. Those who have them look for
// it each second, to store tokens that exist nowhere else: no one must use the refresh token that these have replaced.
const outagePause = 5 * time.Second

// noteOutage notes that the database is unavailable.
func (w *worker) noteOutage(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outage = now
}

// leaves reports whether the lease of a row is left to the one who has it, although it has ended.
func (w *worker) leaves(r *row, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return r.lease != "" && isWithin(now.Sub(w.outage), outagePause)
}

// isWithin reports whether an age is below a limit. The database's clock may have been set back since.
func isWithin(age, limit time.Duration) bool { return age >= 0 && age < limit }

// start begins to renew what is due.
func (s *Service) start(ctx context.Context) error {
	s.worker.noteOutage(s.cfg.Clock.Now())
	inner, cancel := context.WithCancel(db.WithTurn(context.WithoutCancel(ctx), db.TurnJob))
	s.worker.cancel = cancel
	s.worker.looping.Go(func() { jobs.Loop(inner, s.cfg.Clock, s.worker.wake, s.work) })
	return nil
}

// drain takes nothing new. Exchanges that requests wait for still begin.
func (s *Service) drain(context.Context) error {
	s.worker.mu.Lock()
	s.worker.draining = true
	s.worker.mu.Unlock()
	if s.worker.cancel != nil {
		s.worker.cancel()
	}
	s.worker.looping.Wait()
	return nil
}

// stop waits for the exchanges in progress, those of requests too, until ctx ends. Those that are left then are cut off
// with the process, and found as interrupted. Every node does it: the tokens of a response that was not
// stored are lost.
func (s *Service) stop(ctx context.Context) error {
	s.worker.mu.Lock()
	if s.worker.closing = true; s.worker.exchanges == 0 {
		s.worker.signalIdle()
	}
	s.worker.mu.Unlock()
	select {
	case <-s.worker.idle:
	case <-ctx.Done():
	}
	s.renewed.end(ctx)
	s.failed.end(ctx)
	return nil
}

// work starts what is due, as far as there are places, and returns when to look again.
func (s *Service) work(ctx context.Context) time.Duration {
	begun, err := s.claim(ctx)
	if db.IsUnavailable(err) {
		s.worker.noteOutage(s.cfg.Clock.Now())
	}
	if err != nil && ctx.Err() == nil {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "cannot claim token refreshes", slog.String("error", err.Error()))
	}
	switch begun {
	case claimBatch:
		return 0
	case 0:
		return pollInterval
	default:
		return soonInterval
	}
}

// claimBatch is how many renewals are claimed together. Their transaction is short.
const claimBatch = 100

// claim claims renewals that are due and runs them, each on a goroutine of its own. It returns how many.
func (s *Service) claim(ctx context.Context) (int, error) {
	now := s.cfg.Clock.Now()
	due, err := listDue(ctx, s.cfg.DB.Read(), now, 2*maxExchanges)
	if err != nil {
		return 0, err
	}
	var places []*row
	for i := range due {
		if len(places) < claimBatch && !s.worker.keeps(&due[i]) && !s.worker.leaves(&due[i], now) &&
			s.worker.enter(&due[i]) {
			places = append(places, &due[i])
		}
	}
	if len(places) == 0 {
		return 0, nil
	}
	uuids := make([]string, len(places))
	for i, r := range places {
		uuids[i] = r.connectionUUID
	}
	var taken []row
	// A stop must not cut it off: a commit that took effect leaves leases, and those of exchanges that were never made
	// would count as interrupted.
	claiming := context.WithoutCancel(ctx)
	err = s.cfg.DB.Tx(claiming, func(tx *sql.Tx) error {
		var err error
		taken, err = take(claiming, tx, "", uuids, id.NewRandom(""), now, now.Add(s.cfg.Lease), true)
		return err
	})
	held := map[string]*row{}
	for i := range taken {
		uuid := taken[i].connectionUUID
		held[uuid] = &taken[i]
		s.cfg.Accounts.Forget(uuid)
	}
	if len(held) > 1 {
		// Without it, each reads its own.
		_ = s.cfg.Vault.Reload(claiming, slices.Collect(maps.Keys(held))...)
	}
	for _, place := range places {
		r := held[place.connectionUUID]
		if err != nil || r == nil {
			s.worker.leave(place)
			continue
		}
		s.metrics.inFlight.Inc()
		go func() {
			defer s.worker.leave(place)
			defer s.metrics.inFlight.Dec()
			// Failures are stored and counted; what cannot be stored is logged.
			// Its outcome is of the class of requests, with those of its environment: the other writers of the class of jobs
			// could keep it waiting until its lease has ended, and tokens that the provider has replaced would be lost.
			running := db.WithTurn(context.WithoutCancel(ctx), db.TurnRequest)
			_ = s.run(db.WithOwner(running, string(r.environment)), r, false)
		}()
	}
	return len(taken), err
}
