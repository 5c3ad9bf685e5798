//go:build linux

package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"sallyport/bench/internal/target"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit/pgserver"
)

// Options say how long and on what a run goes.
type Options struct {
	// Engine is "sqlite" or "postgres".
	Engine string
	Rounds int
	// Nodes is how many nodes share a PostgreSQL database. SQLite has one.
	Nodes int
	// Seed decides about disruptions, behaviours and messages.
	Seed uint64
	// Rate is how many messages the provider sends each second.
	Rate int
	// Fans is how many subscriptions match the events that fan out; 0 means that none is sent.
	Fans int
	// Lease is that of the nodes. It must be several times the timeout of an attempt.
	Lease time.Duration
	// QuietEvery is after how many rounds, at most, everything has the time to end. The last round always ends so.
	QuietEvery int
	// Disruptions names the only kinds of disruptions to draw, in the order of the rounds; empty means all, at random.
	Disruptions []string
	// Dir is an empty folder that PostgreSQL's user can enter.
	Dir string
	// Progress takes a line for each round.
	Progress io.Writer
}

// Figures count what a run did.
type Figures struct {
	Rounds, QuietEnds                int
	Disruptions                      map[string]int
	Messages, Requests, Acknowledged int
	Events, Deliveries, Arrivals     int
	// Again counts the requests of an attempt that had arrived before; Superseded the recorded attempts whose lease was
	// lost; Late the requests that arrived after a success and are excused by a pause of their node.
	Again, Superseded, Dead, Late int
}

// run is one run.
type run struct {
	Options
	disk     *disk
	postgres *pgserver.Own
	// database is PostgreSQL's without a proxy.
	database     *db.DB
	paths        []*proxy
	nodes        []*process
	http         *http.Client
	provider     *provider
	environments []*environment

	round    int
	episodes []episode
	thawed   []time.Time
	losses   []time.Time
	replayed map[string]bool
	recorded map[generationKey]time.Time
	last     *evidence
	figures  Figures
}

// Run makes a run and returns its figures and how often it found a guarantee broken, which it explains as progress. An
// error is another reason for which it could not end.
func Run(ctx context.Context, o Options) (_ Figures, broken int, err error) {
	o.Lease = cmp.Or(o.Lease, 4*time.Second)
	transport := &http.Transport{MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute}
	r := &run{Options: o, http: &http.Client{Transport: transport, Timeout: 5 * time.Second},
		replayed: map[string]bool{}, recorded: map[generationKey]time.Time{},
		figures: Figures{Disruptions: map[string]int{}}}
	r.provider = newProvider(r.http)
	defer func() {
		keep := ""
		if broken > 0 || err != nil {
			keep = filepath.Join(o.Dir, "kept")
		}
		transport.CloseIdleConnections()
		err = errors.Join(err, r.close(keep))
	}()
	if err = r.setUp(ctx); err != nil {
		return r.figures, 0, fmt.Errorf("set up: %w", err)
	}
	found, err := r.rounds(ctx)
	if len(found) > 0 {
		r.explain(found)
	}
	r.count()
	return r.figures, len(found), err
}

// setUp starts the database and the nodes, and creates the environments.
func (r *run) setUp(ctx context.Context) (err error) {
	if r.disk, err = mountDisk(filepath.Join(r.Dir, "disk")); err != nil {
		return err
	}
	count := 1
	if r.Engine == "postgres" {
		count = r.Nodes
		if err := r.startPostgres(ctx, count); err != nil {
			return err
		}
	}
	for i := range count {
		listen, err := target.FreeAddr(ctx)
		if err != nil {
			return err
		}
		n := &process{name: fmt.Sprintf("node %d", i), http: r.http, logPath: filepath.Join(r.Dir,
			fmt.Sprintf("node-%d.log", i)), cfg: nodeConfig{Data: filepath.Join(r.disk.dir, fmt.Sprintf("node-%d", i)),
			KeysetFile: filepath.Join(r.disk.dir, "keyset.json"), Listen: listen, Lease: r.Lease}}
		if r.postgres != nil {
			n.cfg.DatabaseURL = r.paths[i].through
		}
		if i > 0 {
			err = copyCredentials(r.nodes[0].cfg.Data, n.cfg.Data)
		}
		r.nodes = append(r.nodes, n)
		if err = errors.Join(err, n.start(ctx)); err != nil {
			return err
		}
	}
	if r.environments, err = environments(ctx, r.http, r.nodes[0]); err != nil {
		return err
	}
	hosts := 0
	for i, e := range r.environments {
		fans := 0
		if i == len(r.environments)-1 {
			fans = r.Fans
		}
		a := e.api(r.http, r.nodes[0].cfg.Listen)
		if err := e.populate(ctx, a, r.provider.secret, &hosts, fans); err != nil {
			return err
		}
	}
	return nil
}

// startPostgres starts a server that says when transactions were committed, and a path to it for each node.
func (r *run) startPostgres(ctx context.Context, nodes int) (err error) {
	dir := filepath.Join(r.disk.dir, "postgres")
	if err := os.Mkdir(dir, 0o711); err != nil {
		return err
	}
	if r.postgres, err = pgserver.NewOwn(dir, "track_commit_timestamp=on", "max_wal_size=128MB"); err != nil {
		return err
	}
	database, err := target.CreateDatabase(ctx, r.postgres.URL)
	if err != nil {
		return err
	}
	for range nodes {
		p, err := newProxy(ctx, database.URL)
		if err != nil {
			return err
		}
		r.paths = append(r.paths, p)
	}
	r.database, err = db.Open(ctx, database.URL, "")
	return err
}

// copyCredentials lets a further node start with the credentials of the first, so that it creates none.
func copyCredentials(from, to string) error {
	const name = "dev-credentials.json"
	text, err := os.ReadFile(filepath.Join(from, name))
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, name), text, 0o600)
}

// close ends everything. It copies the disk to keep unless that is empty.
func (r *run) close(keep string) error {
	for _, n := range r.nodes {
		n.close()
	}
	for _, e := range r.environments {
		for _, receiver := range e.receivers {
			receiver.close()
		}
	}
	var err error
	if r.database != nil {
		err = r.database.Close()
	}
	for _, p := range r.paths {
		p.close()
	}
	if r.postgres != nil {
		r.postgres.Kill()
	}
	if r.disk != nil {
		err = errors.Join(err, r.disk.close(keep))
	}
	return err
}

// rounds goes through the rounds and returns what the first check that finds something finds.
func (r *run) rounds(ctx context.Context) ([]violation, error) {
	random := rand.New(rand.NewPCG(r.Seed, 0))
	sinceQuiet := 0
	for r.round = 1; r.round <= r.Rounds; r.round++ {
		sinceQuiet++
		quiet := r.round == r.Rounds || sinceQuiet >= r.QuietEvery || random.IntN(r.QuietEvery) == 0
		began := time.Now()
		stop := r.provider.start(ctx, r.Seed+uint64(r.round), r.environments, r.nodes, r.Rate)
		behaviours := r.turnHostile(random)
		names, err := r.makeDisruptions(ctx, random)
		stop()
		r.figures.Rounds++
		if err != nil {
			return r.nodeProblem(err)
		}
		if quiet {
			sinceQuiet = 0
			r.figures.QuietEnds++
			if err := r.quieten(ctx, len(r.Disruptions) > 0 || random.IntN(2) == 0); err != nil {
				return r.nodeProblem(err)
			}
		}
		found, err := r.check(ctx, quiet)
		if err != nil || len(found) > 0 {
			return found, err
		}
		_, _ = fmt.Fprintf(r.Progress, "%s round %d of %d: %v; receivers: %v; quiet end: %v; %d acknowledged; %s\n", r.Engine,
			r.round, r.Rounds, names, behaviours, quiet, len(r.provider.acknowledged()),
			time.Since(began).Round(100*time.Millisecond))
	}
	return nil, nil
}

// nodeProblem turns the unexpected end of a node into a violation.
func (r *run) nodeProblem(err error) ([]violation, error) {
	if errors.Is(err, errNode) {
		return []violation{{rule: ruleNode, detail: err.Error()}}, nil
	}
	return nil, err
}

// turnHostile gives hostile receivers their behaviours of the round.
func (r *run) turnHostile(random *rand.Rand) (drawn []behaviour) {
	all := hostile()
	for _, e := range r.environments {
		for _, p := range plans() {
			if !p.hostile {
				continue
			}
			b := all[random.IntN(len(all))]
			drawn = append(drawn, b)
			for _, receiver := range e.receivers {
				if receiver.name == p.name {
					receiver.behave(b)
				}
			}
		}
	}
	return drawn
}

// makeDisruptions makes the disruptions of a round, one or two of those that are drawn, with traffic around them.
func (r *run) makeDisruptions(ctx context.Context, random *rand.Rand) (names []string, err error) {
	var possible []disruption
	for _, f := range disruptions() {
		if f.needs == nil || f.needs(r) {
			possible = append(possible, f)
		}
	}
	count := 1
	if len(r.Disruptions) == 0 {
		count += random.IntN(2)
	}
	for range count {
		before, f := between(random, 200*time.Millisecond, 1500*time.Millisecond), possible[random.IntN(len(possible))]
		if len(r.Disruptions) > 0 {
			f = named(possible, r.Disruptions[(r.round-1)%len(r.Disruptions)])
		}
		fanned := random.IntN(3) == 0
		if err := pause(ctx, before); err != nil {
			return names, err
		}
		if fanned && r.Fans > 0 {
			n := r.nodes[random.IntN(len(r.nodes))]
			r.provider.fanOut(ctx, n.cfg.Listen, r.environments[len(r.environments)-1])
		}
		e := episode{round: r.round, name: f.name, from: time.Now()}
		e.detail, err = f.run(ctx, r, random)
		e.to = time.Now()
		r.episodes = append(r.episodes, e)
		r.figures.Disruptions[f.name]++
		names = append(names, f.name+": "+e.detail)
		if err != nil {
			return names, fmt.Errorf("%s: %w", e, err)
		}
	}
	return names, pause(ctx, 500*time.Millisecond)
}

func named(list []disruption, name string) disruption {
	for _, f := range list {
		if f.name == name {
			return f
		}
	}
	panic("no disruption is possible here whose name is " + name)
}

// lostLeases notes that leases may end without an outcome from now on.
func (r *run) lostLeases() { r.losses = append(r.losses, time.Now()) }

// noteThaw notes that a node continues now.
func (r *run) noteThaw() { r.thawed = append(r.thawed, time.Now()) }

// quieten makes every receiver accept, enables what a 410 has disabled, and returns when everything has ended. With
// byHand it disables and enables all subscriptions whose receivers have misbehaved, as an operator does who does not
// wait until the gateway notices that a receiver is back.
func (r *run) quieten(ctx context.Context, byHand bool) error {
	for _, e := range r.environments {
		for _, s := range e.subscriptions {
			if !s.hostile {
				continue
			}
			s.receiver.behave(accept)
			var err error
			if byHand {
				err = r.patch(ctx, e, s, false)
			}
			if err = errors.Join(err, r.patch(ctx, e, s, true)); err != nil {
				return err
			}
		}
	}
	for _, n := range r.nodes {
		if err := n.awaitReady(ctx); err != nil {
			return err
		}
	}
	if err := waitFor(ctx, "everything is acknowledged", func() (bool, error) {
		return r.provider.resend(ctx, r.nodes[0].cfg.Listen), nil
	}); err != nil {
		return err
	}
	// If this waits in vain, the check that follows says more than an error could.
	_ = waitFor(ctx, "everything has ended", func() (bool, error) { return r.ended(ctx) })
	return ctx.Err()
}

// ended reports whether no delivery is open. On SQLite it asks the API first, because reading the database stops the
// node.
func (r *run) ended(ctx context.Context) (bool, error) {
	if r.database != nil {
		n, err := countOpen(ctx, r.database)
		return err == nil && n == 0, err
	}
	for _, e := range r.environments {
		var open []struct{}
		err := e.api(r.http, r.nodes[0].cfg.Listen).call(ctx, http.MethodGet,
			"/webhook-events?duplicate=false&status=received&status=forwarding&status=failed&limit=1", nil, &open)
		if err != nil || len(open) > 0 {
			return false, err
		}
	}
	b, err := r.read(ctx)
	return err == nil && b.open() == 0, err
}
