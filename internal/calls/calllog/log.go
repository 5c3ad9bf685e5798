package calllog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/internal/calls/gateway"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/obs"
)

// Part stores something of its own about calls, in the transaction that stores their rows.
type Part interface {
	// Statements returns what stores the present state of calls.
	Statements(calls []*gateway.Call) ([]db.Statement, error)
}

// Config holds what a Log is made from.
type Config struct {
	DB     *db.DB
	Clock  clock.Clock
	Logger *slog.Logger
	// Parts store what belongs to calls with them.
	Parts []Part
	// Keep is how long calls are kept.
	Keep time.Duration
}

const (
	// maxBatch is the maximum number of calls that one transaction stores, and turnEach what an environment may add to it
	// while others have calls.
	maxBatch, turnEach = 200, 50
	// maxBatchKiB is the most that one transaction stores, and turnKiB what an environment may add to it, in KiB.
	maxBatchKiB, turnKiB = 16 << 10, 4 << 10
	// After a transaction of severalCalls, the next one waits for lingerTime, unless it is full.
	severalCalls, lingerTime = 8, 300 * time.Microsecond
	// maxBehind is how many calls that have ended may wait to be stored before no further ones are made.
	maxBehind = 20_000
	// maxHeld is the same in bytes of outputs.
	maxHeld = 256 << 20
	// storeRetry is the wait between attempts to store calls that have ended.
	storeRetry = 250 * time.Millisecond
)

// Log stores calls in group commits. It implements gateway.Recorder. It is safe for concurrent use.
type Log struct {
	cfg     Config
	batches *jobs.TurnBatcher[*item]
	// behind counts calls that have ended and are not stored.
	behind atomic.Int64
	// held are the bytes of their outputs.
	held atomic.Int64
	// outage is closed while the database does not respond. Only flush changes it.
	outage atomic.Pointer[chan struct{}]
	life   context.Context //nolint:containedctx // the life of the log
	end    context.CancelFunc
	stop   chan struct{}
	stored chan struct{}
	once   sync.Once
}

// item is a call on its way to the database.
type item struct {
	call *gateway.Call
	// done is closed when an intent is stored, or could not be; nil for a call that has ended.
	done chan struct{}
	err  error
}

// size is how many bytes of output the item holds.
func (it *item) size() int64 {
	if it.done != nil || it.call.Result == nil {
		return 0
	}
	return int64(len(it.call.Result.Output) + len(it.call.Result.Full))
}

// cost is what the item adds to a batch, in KiB: at least so much that an environment adds turnEach calls to one.
func (it *item) cost() int { return turnKiB/turnEach + int(it.size()>>10) }

// New returns a Log. Its module runs it.
func New(cfg Config) *Log {
	l := &Log{cfg: cfg, stop: make(chan struct{}), stored: make(chan struct{})}
	l.life, l.end = context.WithCancel(context.Background())
	l.outage.Store(new(make(chan struct{})))
	l.batches = jobs.NewTurnBatcher(jobs.TurnLimits{Items: maxBatch, Cost: maxBatchKiB, Turn: turnKiB},
		func(it *item) (string, int) { return string(it.call.Environment()), it.cost() }, l.flush)
	l.batches.Linger(severalCalls, lingerTime)
	return l
}

// Ready implements gateway.Recorder.
func (l *Log) Ready() error {
	if l.behind.Load() < maxBehind && l.held.Load() < maxHeld {
		return nil
	}
	return apperr.Unavailable(errBehind)
}

var errBehind = errors.New("too many calls wait to be recorded")

// Begin implements gateway.Recorder.
func (l *Log) Begin(ctx context.Context, c *gateway.Call) error {
	it := &item{call: c, done: make(chan struct{})}
	outage := *l.outage.Load()
	l.batches.Submit(it)
	select {
	case <-it.done:
		return it.err
	case <-outage:
		if l.batches.Withdraw(it) {
			return apperr.Unavailable(errOutage)
		}
	case <-ctx.Done():
		if l.batches.Withdraw(it) {
			return ctx.Err() //nolint:wrapcheck // the pipeline reads it
		}
	}
	<-it.done // it is being stored
	if it.err != nil {
		return it.err
	}
	return ctx.Err() //nolint:wrapcheck // the pipeline reads it
}

var errOutage = errors.New("the database does not take the records of calls")

// End implements gateway.Recorder.
func (l *Log) End(c *gateway.Call) {
	it := &item{call: c.Ending()}
	l.behind.Add(1)
	l.held.Add(it.size())
	l.batches.Submit(it)
}

// flush stores a batch. Intents that cannot be stored fail; calls that have ended are stored when the database responds
// again.
func (l *Log) flush(batch []*item) {
	left := append([]*item{}, batch...)
	failing := false
	defer func() {
		if failing {
			l.outage.Store(new(make(chan struct{})))
		}
	}()
	for len(left) > 0 {
		err := l.storeAll(left)
		var ended []*item
		for _, it := range left {
			switch {
			case it.done != nil:
				if it.err == nil && err != nil {
					it.err = apperr.Unavailable(err)
				}
				close(it.done)
			case err != nil:
				ended = append(ended, it)
			default:
				l.behind.Add(-1)
				l.held.Add(-it.size())
			}
		}
		if left = ended; err == nil || len(left) == 0 {
			return
		}
		if !failing {
			failing = true
			close(*l.outage.Load())
		}
		l.cfg.Logger.ErrorContext(l.life, "cannot store calls to providers that have ended; the next attempt follows soon",
			slog.Int("count", len(left)), slog.String("error", err.Error()), obs.Outage("calls"))
		t := l.cfg.Clock.NewTimer(storeRetry)
		select {
		case <-t.C():
		case <-l.life.Done():
			left = nil
		}
		t.Stop()
	}
}

// storeAll stores items in one transaction. If one of them cannot be stored, each is stored alone, and those that
// cannot be are dropped: a call that has ended must not keep others from being stored.
func (l *Log) storeAll(list []*item) error {
	err := l.store(list)
	if err == nil || db.IsUnavailable(err) || l.life.Err() != nil {
		return err
	}
	for _, it := range list {
		switch err := l.store([]*item{it}); {
		case err == nil:
		case db.IsUnavailable(err):
			return err
		default:
			it.err = err
			l.cfg.Logger.ErrorContext(l.life, "a call to a provider cannot be stored", slog.String("call_id", it.call.ID),
				slog.String("error", err.Error()))
		}
	}
	return nil
}

func (l *Log) store(list []*item) error {
	calls := make([]*gateway.Call, len(list))
	var args []any
	for i, it := range list {
		calls[i] = it.call
		row, err := columns(rowOf(it.call)).Args()
		if err != nil {
			return fmt.Errorf("encode a call: %w", err)
		}
		args = append(args, row...)
	}
	statements := []db.Statement{{Rows: storeCalls, Args: args}}
	for _, p := range l.cfg.Parts {
		more, err := p.Statements(calls)
		if err != nil {
			return err //nolint:wrapcheck // it says what failed
		}
		statements = append(statements, more...)
	}
	err := l.cfg.DB.Tx(l.life, func(tx *sql.Tx) error {
		_, err := l.cfg.DB.ExecLast(l.life, tx, statements...)
		return err
	})
	if err != nil {
		return fmt.Errorf("store calls: %w", err)
	}
	return nil
}

// run stores calls until the log is stopped.
func (l *Log) run() {
	defer close(l.stored)
	l.batches.Run(l.stop)
}

// MarkUnknown records that calls have ended in a way that no one knows, in the transaction that ends their executions.
func (*Log) MarkUnknown(ctx context.Context, tx db.Querier, callIDs []string) error {
	w := new(db.Where)
	list := db.List(w, callIDs)
	_, err := tx.ExecContext(ctx, "UPDATE calls SET outcome = '"+string(gateway.OutcomeUnknown)+"', error_code = '"+
		string(apperr.CodeOutcomeUnknown)+"' WHERE outcome = '"+string(gateway.Running)+"' AND id IN "+list, w.Args()...)
	if err != nil {
		return fmt.Errorf("record that the outcome of calls is unknown: %w", err)
	}
	return nil
}
