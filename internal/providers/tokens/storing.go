package tokens

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/jobs"
)

const (
	// storeInterval is how long a commit that failed waits for the next attempt.
	storeInterval = time.Second
	// maxTogether is how many outcomes with new tokens one transaction stores, and maxFailuresTogether how many others:
	// that transaction is short, because it keeps new tokens waiting. joinInterval is how long outcomes wait for others,
	// except for the first after a pause. It is short, because new tokens are in memory alone meanwhile.
	maxTogether, maxFailuresTogether = 64, 8
	joinInterval                     = 50 * time.Millisecond
	// awayInterval is how long outcomes are stored one by one after the database was unavailable.
	awayInterval = 5 * time.Second
	// turnOwner is for whom outcomes that are stored together wait their turn to write: no environment.
	turnOwner = "token-refreshes"
)

// write stores an outcome in a transaction; announced says that this has announced other credentials of the connection
// already. It can run several times, of which only the last takes effect.
type write func(ctx context.Context, tx *sql.Tx, announced bool) error

// joiner lets outcomes of the same moment share a transaction: each alone would wait for the disk, and on PostgreSQL
// for the version of the credentials, which the one before has locked.
type joiner struct {
	svc     *Service
	batches *jobs.Batcher[*joining]
	// stop ends it, and ended is closed then. Both are nil before it was started: outcomes are stored one by one.
	stop, ended chan struct{}
	// away is when the database was last found unavailable. Only batches use it.
	away time.Time
}

// start begins to store outcomes together.
func (j *joiner) start() {
	stop, ended := make(chan struct{}), make(chan struct{})
	j.stop, j.ended = stop, ended
	go func() {
		defer close(ended)
		j.batches.Run(stop)
	}()
}

// end stores what waits, until ctx ends.
func (j *joiner) end(ctx context.Context) {
	if j.stop == nil {
		return
	}
	close(j.stop)
	select {
	case <-j.ended:
	case <-ctx.Done():
	}
}

// joining is an outcome that waits for others.
type joining struct {
	held  *row
	write write
	// stored receives whether it was stored with others. If not, it has to be stored alone.
	stored chan bool
	// written belongs to the transaction.
	written bool
}

func newJoiner(s *Service, most int) *joiner {
	j := &joiner{svc: s}
	j.batches = jobs.NewBatcher(most, j.storeTogether)
	j.batches.Pace(joinInterval)
	return j
}

// startJoining begins to store outcomes together. It is called before the first exchange.
func (s *Service) startJoining(context.Context) error {
	s.renewed.start()
	s.failed.start()
	return nil
}

// join stores an outcome with others, and reports whether it did.
func (j *joiner) join(held *row, fn write) bool {
	if j.ended == nil {
		return false
	}
	select {
	case <-j.ended:
		return false
	default:
	}
	o := &joining{held: held, write: fn, stored: make(chan bool, 1)}
	j.batches.Put(o)
	select {
	case stored := <-o.stored:
		return stored
	case <-j.ended:
	}
	select {
	case stored := <-o.stored:
		return stored
	default:
		return false // it came after the last batch
	}
}

// storeTogether stores outcomes in one transaction, those that need not wait for another transaction. An outcome that
// cannot be stored makes each of them be stored alone.
func (j *joiner) storeTogether(batch []*joining) {
	s := j.svc
	all := map[string]*joining{}
	uuids := make([]string, 0, len(batch))
	for _, o := range batch {
		all[o.held.connectionUUID] = o
		uuids = append(uuids, o.held.connectionUUID)
	}
	var err error
	// A database that hangs must not keep one batch after the other waiting, until leases end.
	if now := s.cfg.Clock.Now(); len(batch) > 1 && now.Sub(j.away).Abs() > awayInterval {
		ctx := db.WithOwner(db.WithTurn(context.Background(), db.TurnRequest), turnOwner)
		err = s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
			for _, o := range batch {
				o.written = false
			}
			free, err := s.cfg.Accounts.Lock(ctx, tx, uuids)
			if err != nil {
				return err
			}
			// It comes first, because others who change credentials and connections take the two versions in that order.
			if err := s.cfg.Vault.Announce(ctx, tx, free...); err != nil {
				return err
			}
			for _, uuid := range free {
				if err := all[uuid].write(ctx, tx, true); err != nil {
					return err
				}
				all[uuid].written = true
			}
			return nil
		})
	}
	if db.IsUnavailable(err) {
		j.away = s.cfg.Clock.Now()
	}
	for _, o := range batch {
		o.stored <- err == nil && o.written
	}
}

// store commits an outcome, while the database is away again and again: until the lease ends, and new tokens until it
// is known that another node has taken the lease. They exist nowhere else, and while the database is away no node can
// take it.
func (s *Service) store(ctx context.Context, j *joiner, held *row, fn write) error {
	ctx = context.WithoutCancel(ctx)
	defer s.cfg.Accounts.Forget(held.connectionUUID)
	if j.join(held, fn) {
		return nil
	}
	waits := false
	for {
		err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error { return fn(ctx, tx, false) })
		if err == nil {
			return nil
		}
		late := !s.cfg.Clock.Now().Add(storeInterval).Before(held.leaseUntil)
		if late && !waits && j == s.renewed && db.IsUnavailable(err) {
			waits = true // said once
			s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "new tokens of a connection wait for the database",
				slog.String("connection_uuid", held.connectionUUID), slog.String("error", err.Error()))
		}
		if errors.Is(err, errLost) || !isTransient(err) || late && !waits {
			s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "cannot store the outcome of a token refresh",
				slog.String("connection_uuid", held.connectionUUID), slog.String("error", err.Error()))
			return fmt.Errorf("store the outcome of a renewal: %w", err)
		}
		<-s.cfg.Clock.NewTimer(storeInterval).C()
	}
}
