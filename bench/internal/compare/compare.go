// Package compare measures the same work twice, without a condition and with it, and returns the ratios: what the
// attacks of another environment, receivers that fail, or a database that has grown cost.
package compare

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sallyport/bench/internal/target"
	"sallyport/internal/platform/clock"
)

// The figures that are measured. Times are in milliseconds.
const (
	AckP50  = "ack p50"
	AckP99  = "ack p99"
	SinkP50 = "to sink p50"
	SinkP99 = "to sink p99"
	// Rate is events received and delivered in a second.
	Rate = "events/s"
	// CPU is the processor time of gateway and PostgreSQL for 1,000 events, in seconds; PostgresCPU is the part of
	// PostgreSQL.
	CPU         = "CPU s/1000"
	PostgresCPU = "PG CPU s/1000"
	// ListP99, CallP99, SearchP50 and SearchP99 are of requests to the API: pages of a list, calls, and searches.
	ListP99   = "list p99"
	CallP99   = "call p99"
	SearchP50 = "search p50"
	SearchP99 = "search p99"
	// Peak is the highest resident memory of a gateway's process in its life, in MiB.
	Peak = "peak MiB"
	// Events is how many were acknowledged.
	Events = "events"
	// Refused counts requests of the measured environment that were not acknowledged, Missing its events that did not
	// arrive. Both must be 0.
	Refused = "refused"
	Missing = "missing"
)

// Figures are measured values by name.
type Figures map[string]float64

// Target is what a figure has to reach: a ratio to the same figure without the condition, or a value.
type Target struct {
	Figure   string
	Limit    float64
	Least    bool // the figure is at least the limit, not at most
	Absolute bool // the limit is a value, not a ratio
}

func (t Target) String() string {
	sign, unit := "≤", " ×"
	if t.Least {
		sign = "≥"
	}
	if t.Absolute {
		unit = ""
	}
	return fmt.Sprintf("%s %g%s", sign, t.Limit, unit)
}

// met reports whether a value, or a ratio, reaches the target.
func (t Target) met(v float64) bool {
	if t.Least {
		return v >= t.Limit
	}
	return v <= t.Limit
}

// Row is one condition.
type Row struct {
	Name string
	// About says in a line what is measured next to what.
	About   string
	Targets []Target
	// Engine is the only engine on which the condition is possible; empty means both.
	Engine string

	measure func(ctx context.Context, b *Bench) (without, with Figures, note string, err error)
}

// Pair is one measurement of a row.
type Pair struct {
	Without Figures `json:"without"`
	With    Figures `json:"with"`
	// Note says what the condition came to, such as how many requests an attack made.
	Note string `json:"note,omitempty"`
}

// Result holds the measurements of a row on an engine.
type Result struct {
	Row     string `json:"row"`
	Engine  string `json:"engine"`
	Pairs   []Pair `json:"pairs"`
	Problem string `json:"problem,omitempty"`
}

// Options say what is measured.
type Options struct {
	Binary   string
	DataRoot string // an empty folder
	LogDir   string
	Engine   string // sqlite or postgres
	// PostgresURL is the server on which databases are made.
	PostgresURL string
	Duration    time.Duration
	// PerSecond is the rate of the open loop, Connections how many the generator has.
	PerSecond, Connections int
	// Fill is how many events a database holds that has grown, Waiting how many deliveries wait in one that is behind.
	Fill, Waiting int
	// Documents is a folder with descriptions of APIs; empty means made ones, of which the largest have Operations.
	// Actions is how many a catalog has at least.
	Documents           string
	Actions, Operations int
	Pairs               int
	ServerArgs          []string
	Say                 func(format string, args ...any)
}

// Bench runs rows.
type Bench struct {
	Options
	clk   clock.Clock
	epoch uint32
	count int
	// turn alternates which of two servers is measured first.
	turn bool
	// peers are the receivers of the attack that is measured.
	peers *peers
}

// New returns a Bench whose events are marked with epochs from firstEpoch up.
func New(clk clock.Clock, o Options, firstEpoch uint32) *Bench {
	return &Bench{Options: o, clk: clk, epoch: firstEpoch, peers: &peers{clk: clk}}
}

// Measure runs a row. Pairs measured before a failure stay in the result.
func (b *Bench) Measure(ctx context.Context, row *Row) (r Result) {
	r = Result{Row: row.Name, Engine: b.Engine}
	for i := range b.Pairs {
		b.Say("%s: %s, pair %d of %d", b.Engine, row.Name, i+1, b.Pairs)
		without, with, note, err := b.pair(ctx, row)
		if err != nil {
			r.Problem = err.Error()
			return r
		}
		r.Pairs = append(r.Pairs, Pair{without, with, note})
	}
	return r
}

func (b *Bench) pair(ctx context.Context, row *Row) (without, with Figures, note string, err error) {
	b.peers = &peers{clk: b.clk}
	defer func() { err = errors.Join(err, b.peers.close()) }()
	return row.measure(ctx, b)
}

// folder returns the path of a folder for another server.
func (b *Bench) folder() (name, dir string) {
	b.count++
	name = fmt.Sprintf("%s-%d", b.Engine, b.count)
	return name, filepath.Join(b.DataRoot, name)
}

// database makes a database, or returns nil for SQLite.
func (b *Bench) database(ctx context.Context) (*target.Database, error) {
	if b.Engine != Postgres {
		return nil, nil //nolint:nilnil // SQLite's is a file of the server
	}
	d, err := target.CreateDatabase(ctx, b.PostgresURL)
	if err != nil {
		return nil, err
	}
	return d, d.Checkpoint(ctx) // so that the row before does not count
}

// The engines.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// Rows returns the rows of these names, in the order of the list, or all. Names that there are not are an error.
func Rows(names []string) ([]Row, error) {
	all := slices.Concat(attacks(), cliffs(), catalogs())
	if len(names) == 0 {
		return all, nil
	}
	var chosen []Row
	known := make([]string, 0, len(all))
	for _, r := range all {
		known = append(known, r.Name)
		if slices.Contains(names, r.Name) {
			chosen = append(chosen, r)
		}
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("%w %q; there are %s", errRow, n, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

var errRow = errors.New("no row")
