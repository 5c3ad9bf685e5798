package connections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
	"sallyport/internal/providers/probes"
)

const (
	// checksAtATime bounds the tests in progress on a node, checksPerEnvironment those of one environment, and
	// checksPerHost those at one host of a provider, of which one environment has at most half.
	checksAtATime, checksPerEnvironment, checksPerHost = 16, 8, 8
	// checkPoll is how often due tests are looked for, checkLease how long a process that is gone keeps one.
	checkPoll, checkLease = 5 * time.Second, 2 * time.Minute
	// maxCheckWait is the longest wait between the tests of a connection that fail, unless the interval is longer.
	maxCheckWait = 24 * time.Hour
	// enrolInterval is how often new connections are looked for, enrolBatch how many are added in a transaction.
	enrolInterval, enrolBatch = 30 * time.Second, 500
)

// ChecksConfig configures Checks.
type ChecksConfig struct {
	Service *Service
	// Interval is the time between two tests of a connection; 0 for none.
	Interval time.Duration
	Logger   *slog.Logger
	// Node is the name of this process, unique among those that run.
	Node string
}

// Checks test the credentials of connections from time to time, each on one node.
type Checks struct {
	svc      *Service
	tester   *Tester
	interval time.Duration
	queue    *jobs.Queue
	hosts    hostPlaces
	crowd    crowd
	metrics  checkMetrics
}

// NewChecks returns Checks, which do nothing before their service starts.
func NewChecks(cfg ChecksConfig) *Checks {
	s := cfg.Service
	k := &Checks{svc: s, tester: NewTester(s), interval: cfg.Interval, crowd: crowd{window: 2 * cfg.Interval}}
	k.metrics = newCheckMetrics(s.clock, k.earliest)
	k.queue = jobs.New(jobs.Config{DB: s.db, Clock: s.clock, Logger: cfg.Logger, Handle: k.check, Node: cfg.Node,
		Table: jobs.Table{Name: "connection_checks", ID: "connection_uuid", Due: "due_ms", Claim: "claim",
			Key: "environment_id"},
		Concurrency: checksAtATime, PerKey: checksPerEnvironment, Lease: checkLease, Poll: checkPoll,
		Backoff: jobs.Backoff{First: 5 * time.Second, Max: 10 * time.Minute}})
	return k
}

// Extend adds the checks to the module of connections.
func (k *Checks) Extend(m module.Module) module.Module {
	m.Tables = append(m.Tables, module.Table{Name: "connection_checks",
		Outlives: "its rows are parts of connections, which are counted"})
	m.ShiftTimes = k.queue.ShiftTimes
	m.Metrics = append(m.Metrics, k.metrics.collectors()...)
	if k.interval <= 0 {
		return m
	}
	m.Services = append(m.Services, module.Service{Name: "connection-checks", Part: role.Working, Start: k.queue.Start,
		Drain: k.queue.Drain, Stop: k.queue.Stop})
	m.Jobs = append(m.Jobs, jobs.Periodic{Name: "enrol-connection-checks", Part: role.Working, Warn: true,
		Failure: "cannot look for connections that are to be tested", Run: jobs.Every(enrolInterval, k.enrol)})
	return m
}

// enrol adds the connections that have got credentials, each at a time of its own.
func (k *Checks) enrol(ctx context.Context) error {
	for {
		uuids, err := k.missing(ctx)
		if err != nil || len(uuids) == 0 {
			return err
		}
		now := k.svc.clock.Now()
		err = k.svc.db.Tx(ctx, func(tx *sql.Tx) error {
			for _, uuid := range uuids {
				due := now.Add(time.Duration(jobs.Random() * float64(k.interval)))
				_, err := tx.ExecContext(ctx, `INSERT INTO connection_checks (connection_uuid, environment_id, due_ms, claim)
					SELECT c.uuid, c.environment_id, $2, '' FROM connections c WHERE c.uuid = $1
					ON CONFLICT (connection_uuid) DO NOTHING`, uuid, clock.Millis(due))
				if err != nil {
					return fmt.Errorf("add a connection to those that are tested: %w", err)
				}
			}
			return nil
		})
		if err != nil || len(uuids) < enrolBatch {
			return err
		}
	}
}

func (k *Checks) missing(ctx context.Context) (uuids []string, err error) {
	rows, err := k.svc.db.Read().QueryContext(ctx, `SELECT c.uuid FROM connections c WHERE c.auth_mode <> $1
		AND NOT EXISTS (SELECT 1 FROM connection_checks k WHERE k.connection_uuid = c.uuid)
		ORDER BY c.uuid LIMIT $2`, NoAuth, enrolBatch)
	if err != nil {
		return nil, fmt.Errorf("look for connections that are to be tested: %w", err)
	}
	err = db.Each(rows, func(r *sql.Rows) error {
		var uuid string
		err := r.Scan(&uuid)
		uuids = append(uuids, uuid)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for connections that are to be tested: %w", err)
	}
	return uuids, nil
}

// earliest returns when the next test is due; zero if none is.
func (k *Checks) earliest(ctx context.Context) (time.Time, error) {
	var ms sql.NullInt64
	err := k.svc.db.Read().QueryRowContext(ctx, `SELECT min(due_ms) FROM connection_checks`).Scan(&ms)
	if err != nil || !ms.Valid {
		return time.Time{}, err
	}
	return clock.FromMillis(ms.Int64), nil
}

// check tests one connection. A row is never done: it goes with its connection.
func (k *Checks) check(ctx context.Context, j *jobs.Job) (jobs.Outcome, error) {
	s := k.svc
	c, err := read(ctx, s.db.Read(), new(db.Where).And("environment_id = ?", j.Key).And("uuid = ?", j.ID))
	if err == nil {
		err = s.auth.describe(ctx, s.db.Read(), c.Environment, &c)
	}
	if err != nil {
		return jobs.Outcome{}, jobs.Before(err)
	}
	now := s.clock.Now()
	if !k.hasProbe(&c) {
		return k.again(now, k.interval), nil
	}
	if h := c.Health; h != nil && h.Status == probes.Healthy && now.Sub(h.CheckedAt) < k.interval/2 {
		return k.again(h.CheckedAt, k.interval), nil // a user has tested it
	}
	release, free := k.hosts.take(c.host(), j.Key)
	if !free {
		k.metrics.count(outcomePostponed)
		wait := 5*time.Second + time.Duration(jobs.Random()*float64(55*time.Second))
		return jobs.Again(now.Add(wait), nil), nil
	}
	defer release()
	result, err, _ := k.tester.flights.Do(c.UUID, func() (any, error) { return k.tester.run(ctx, &c, k.crowd.temper) })
	switch {
	case ctx.Err() != nil:
		return jobs.Outcome{}, ctx.Err()
	case apperr.Is(err, apperr.CodeRateLimited):
		k.metrics.count(outcomePostponed)
		return k.again(now, 5*time.Minute), nil
	case errors.Is(err, errStale):
		return k.again(now, time.Minute), nil
	case apperr.Is(err, apperr.CodeConnectionNotReady), apperr.Is(err, apperr.CodeNotFound):
		k.metrics.count(outcomeSkipped) // nothing was sent
		return k.again(now, k.interval), nil
	case err != nil:
		return jobs.Outcome{}, jobs.Before(err)
	}
	tested, _ := result.(Connection)
	k.metrics.count(string(tested.Health.Status))
	return k.again(s.clock.Now(), tested.Health.wait(s.clock.Now(), k.interval)), nil
}

// hasProbe reports whether a test of the connection would send anything.
func (k *Checks) hasProbe(c *Connection) bool {
	provider, known := k.svc.providers.Find(c.Environment, c.Provider)
	return known && provider.Outbound != nil && c.testable() == nil && len(sentProbes(provider.Outbound, c)) > 0
}

// host is that to which the requests of the connection go, as far as others share it.
func (c *Connection) host() string {
	if len(c.Credentials.Hosts) == 0 {
		return c.Provider
	}
	return c.Credentials.Hosts[0]
}

// wait returns when a connection is tested next. One that fails is tested as long after this test as it has failed.
func (h *Health) wait(now time.Time, interval time.Duration) time.Duration {
	switch {
	case h.Status == probes.Healthy || h.Status == probes.Unknown:
		return interval
	case h.Refusals < refusalsUntilReauth && h.Code == probes.CodeCredentialsRefused:
		// A quarter later than usual: by then it is known whether the provider refuses the others, too.
		return interval * 5 / 4
	default:
		return max(interval, min(now.Sub(h.ChangedAt), maxCheckWait))
	}
}

// again makes a connection due after about so long.
func (*Checks) again(from time.Time, wait time.Duration) jobs.Outcome {
	return jobs.Again(from.Add(time.Duration(float64(wait)*(0.9+0.2*jobs.Random()))), nil)
}

// hostPlaces bounds the tests at one host. The zero hostPlaces has all places free.
type hostPlaces struct {
	mu sync.Mutex
	// taken counts the places by host and environment.
	taken map[string]map[string]int
}

// take takes a place of a host for an environment. Each that it has leaves one more free for others, so that an
// environment whose tests hang at a host cannot keep those of others waiting there.
func (p *hostPlaces) take(host, environment string) (release func(), free bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	total := 0
	for _, n := range p.taken[host] {
		total += n
	}
	if p.taken[host][environment] >= checksPerHost-total {
		return nil, false
	}
	if p.taken == nil {
		p.taken = map[string]map[string]int{}
	}
	if p.taken[host] == nil {
		p.taken[host] = map[string]int{}
	}
	p.taken[host][environment]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.taken[host][environment]--; p.taken[host][environment] == 0 {
			delete(p.taken[host], environment)
		}
		if len(p.taken[host]) == 0 {
			delete(p.taken, host)
		}
	}, true
}
