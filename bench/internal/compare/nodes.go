package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"sallyport/bench/internal/target"
	"sallyport/internal/platform/role"
)

// Setup is a gateway of several nodes, which share a PostgreSQL database.
type Setup struct {
	Nodes int `json:"nodes"`
	// Receiving is how many of the nodes get events. The others have what waits in the database.
	Receiving int `json:"receiving"`
	// Roles has the role of each node, those that receive first; empty if all do everything.
	Roles []role.Role `json:"roles,omitempty"`
}

// errSetup says that nodes of some roles are no gateway.
var errSetup = errors.New("nodes of these roles do not both receive and send")

// WithRoles returns a setup of so many nodes that have the roles in turn. Those that serve requests receive.
func WithRoles(nodes int, roles []role.Role) (Setup, error) {
	s := Setup{Nodes: nodes}
	for i := range nodes {
		s.Roles = append(s.Roles, roles[i%len(roles)])
	}
	slices.SortStableFunc(s.Roles, func(a, b role.Role) int { return rank(a) - rank(b) })
	s.Receiving = nodes - countWorkers(s.Roles)
	if s.Receiving == 0 || !slices.ContainsFunc(s.Roles, func(r role.Role) bool { return r.Does(role.Working) }) {
		return s, fmt.Errorf("%w: %d nodes of %v", errSetup, nodes, roles)
	}
	return s, nil
}

// rank puts nodes that receive before those that do not.
func rank(r role.Role) int {
	if r.Does(role.Serving) {
		return 0
	}
	return 1
}

func countWorkers(roles []role.Role) (n int) {
	for _, r := range roles {
		n += rank(r)
	}
	return n
}

// args returns the arguments of a node, by its number.
func (s Setup) args(number int) []string {
	if len(s.Roles) == 0 {
		return nil
	}
	return []string{"--role", string(s.Roles[number])}
}

// name is how the setup is shown.
func (s Setup) name() string {
	if len(s.Roles) == 0 {
		return strconv.Itoa(s.Nodes)
	}
	var names []string
	for _, r := range slices.Compact(slices.Sorted(slices.Values(s.Roles))) {
		n := 0
		for _, other := range s.Roles {
			if other == r {
				n++
			}
		}
		names = append(names, fmt.Sprintf("%d %s", n, r))
	}
	return strings.Join(names, ", ")
}

// Fleet holds the measurements of a setup.
type Fleet struct {
	Setup
	// Burst is a closed loop with one receiver, Steady the open loop.
	Burst  Figures `json:"burst"`
	Steady Figures `json:"steady"`
	// Work is what PostgreSQL did for an event of the closed loop.
	Work PerEvent `json:"work"`
	// Problem is why the measurement ended early.
	Problem string `json:"problem,omitempty"`
}

// PerEvent is the work of a database for an event.
type PerEvent struct {
	WALBytes float64 `json:"wal_bytes"`
	Syncs    float64 `json:"syncs"`
	Commits  float64 `json:"commits"`
	Inserted float64 `json:"rows_inserted"`
	Updated  float64 `json:"rows_updated"`
	Deleted  float64 `json:"rows_deleted"`
	// Size is by how many bytes the database has grown.
	Size float64 `json:"size_bytes"`
}

// MeasureFleet measures a setup. Figures measured before a failure stay.
func (b *Bench) MeasureFleet(ctx context.Context, setup Setup) Fleet {
	b.Say("nodes: %s; %d of them receive", setup.name(), setup.Receiving)
	f := Fleet{Setup: setup}
	if err := b.fleet(ctx, &f); err != nil {
		f.Problem = err.Error()
	}
	return f
}

func (b *Bench) fleet(ctx context.Context, f *Fleet) (err error) {
	s, err := b.open(ctx, 0, f.args(0)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	for i := 1; i < f.Nodes; i++ {
		if err := s.join(ctx, i, f.args(i)); err != nil {
			return err
		}
	}
	s.receiving = f.Receiving
	if _, err := s.burst(ctx, b.short(), maxEvents); err != nil {
		return err
	}
	before, err := s.work(ctx)
	if err != nil {
		return err
	}
	if f.Burst, err = s.burst(ctx, b.Duration, maxEvents); err != nil {
		return err
	}
	after, err := s.work(ctx)
	if err != nil {
		return err
	}
	f.Work = perEvent(&before, &after, f.Burst[Events])
	if err := s.database.Checkpoint(ctx); err != nil {
		return err
	}
	f.Steady, err = s.steady(ctx)
	return err
}

// join starts a further node with the credentials and the keyset of the first.
func (s *scene) join(ctx context.Context, number int, args []string) error {
	const credentials = "dev-credentials.json"
	first := s.config
	config := first
	config.DataDir = filepath.Join(first.DataDir, fmt.Sprintf("node-%d", number))
	config.LogPath = strings.TrimSuffix(first.LogPath, ".log") + fmt.Sprintf("-node-%d.log", number)
	config.Args = slices.Concat([]string{"--keyset-file", filepath.Join(first.DataDir, "keyset.json")},
		s.bench.ServerArgs, args)
	if err := os.Mkdir(config.DataDir, 0o700); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(first.DataDir, credentials))
	if err == nil {
		err = os.WriteFile(filepath.Join(config.DataDir, credentials), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("copy the credentials: %w", err)
	}
	server, err := target.StartServer(ctx, s.bench.clk, config)
	if err != nil {
		return err
	}
	s.servers = append(s.servers, server)
	return nil
}

// maxReports is how many times the work of PostgreSQL is read until no more of it is reported.
const maxReports = 10

// work reads what PostgreSQL has done, when the backends have reported it: each does so later, and on a busy machine
// not at the same time.
func (s *scene) work(ctx context.Context) (work target.Work, err error) {
	for i := range maxReports {
		before := work
		if err := s.wait(ctx, warmUp); err != nil {
			return target.Work{}, err
		}
		if work, err = s.database.Work(ctx); err != nil || i > 0 && work.Inserted == before.Inserted {
			break
		}
	}
	return work, err
}

func perEvent(before, after *target.Work, events float64) PerEvent {
	per := func(before, after int64) float64 { return float64(after-before) / events }
	return PerEvent{WALBytes: per(before.WALBytes, after.WALBytes), Syncs: per(before.Syncs, after.Syncs),
		Commits: per(before.Commits, after.Commits), Inserted: per(before.Inserted, after.Inserted),
		Updated: per(before.Updated, after.Updated), Deleted: per(before.Deleted, after.Deleted),
		Size: per(before.Size, after.Size)}
}

// PrintFleets writes measurements as tables of Markdown.
func PrintFleets(w io.Writer, fleets []Fleet) error {
	var out bytes.Buffer
	t := tabwriter.NewWriter(&out, 0, 0, 1, ' ', tabwriter.Debug)
	line := func(cells ...string) { _, _ = fmt.Fprintf(t, "\t %s\t\n", strings.Join(cells, "\t ")) }
	text := func(format string, values ...float64) (cells []string) {
		for i, f := range strings.Fields(format) {
			cells = append(cells, fmt.Sprintf(f, values[i]))
		}
		return cells
	}
	line("nodes", "receive", "events/s", "CPU µs an event: nodes", "PostgreSQL", "ack p50 ms", "p99",
		"at a steady rate: CPU µs, nodes", "PostgreSQL", "to sink p50 ms", "p99", "peak MiB")
	line(strings.Split(strings.Repeat("--- ", 12), " ")[:12]...)
	for _, f := range fleets {
		micros := func(f Figures) (nodes, postgres float64) {
			return (f[CPU] - f[PostgresCPU]) * 1000, f[PostgresCPU] * 1000
		}
		burst, burstPostgres := micros(f.Burst)
		steady, steadyPostgres := micros(f.Steady)
		line(append([]string{f.name(), fmt.Sprint(f.Receiving)}, text(
			"%.0f %.0f %.0f %.1f %.1f %.0f %.0f %.2f %.2f %.0f", f.Burst[Rate], burst, burstPostgres, f.Burst[AckP50],
			f.Burst[AckP99], steady, steadyPostgres, f.Steady[SinkP50], f.Steady[SinkP99],
			max(f.Burst[Peak], f.Steady[Peak]))...)...)
	}
	_ = t.Flush() // into memory
	out.WriteString("\n")
	t = tabwriter.NewWriter(&out, 0, 0, 1, ' ', tabwriter.Debug)
	line("nodes", "receive", "an event: WAL bytes", "syncs", "commits", "rows inserted", "updated", "deleted",
		"bytes on disk")
	line(strings.Split(strings.Repeat("--- ", 9), " ")[:9]...)
	for _, f := range fleets {
		line(append([]string{f.name(), fmt.Sprint(f.Receiving)}, text("%.0f %.3f %.3f %.2f %.2f %.2f %.0f",
			f.Work.WALBytes, f.Work.Syncs, f.Work.Commits, f.Work.Inserted, f.Work.Updated, f.Work.Deleted, f.Work.Size)...)...)
	}
	_ = t.Flush() // into memory
	for _, f := range fleets {
		switch lost := f.Burst[Refused] + f.Burst[Missing] + f.Steady[Refused] + f.Steady[Missing]; {
		case f.Problem != "":
			fmt.Fprintf(&out, "\nnodes %s: %s\n", f.name(), f.Problem)
		case lost > 0:
			fmt.Fprintf(&out, "\nnodes %s: %.0f events refused or missing\n", f.name(), lost)
		}
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}
