//go:build linux

package soak

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sallyport/internal/platform/db"
)

// check compares everything that is known. The acknowledgements are taken before the database is read, and the arrivals
// after it, so that the one must contain the other.
func (r *run) check(ctx context.Context, quiet bool) ([]violation, error) {
	e := &evidence{recorded: r.recorded, thawed: r.thawed, losses: r.losses, quiet: quiet,
		subscriptions: map[string]*subscription{}}
	r.provider.mu.Lock()
	e.messages, e.events = maps.Clone(r.provider.made), maps.Clone(r.provider.events)
	found := slices.Clone(r.provider.problems)
	r.provider.mu.Unlock()
	var err error
	if e.books, err = r.read(ctx); err != nil {
		return nil, err
	}
	for _, environment := range r.environments {
		maps.Copy(e.subscriptions, environment.subscriptions)
		for _, receiver := range environment.receivers {
			arrivals, problems := receiver.taken()
			e.arrivals, found = append(e.arrivals, arrivals...), append(found, problems...)
		}
	}
	r.last = e
	return append(found, e.check()...), nil
}

// read reads the database. SQLite's node is stopped for the moment in which its files are copied.
func (r *run) read(ctx context.Context) (b *books, err error) {
	if r.database != nil {
		return readBooks(ctx, r.database)
	}
	dir, err := os.MkdirTemp(r.Dir, "copy")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // or with the run's folder
	n := r.nodes[0]
	if err := n.freeze(); err != nil {
		return nil, err
	}
	for _, name := range []string{db.FileName, db.FileName + "-wal"} {
		content, readErr := os.ReadFile(filepath.Join(n.cfg.Data, name))
		if readErr == nil {
			readErr = os.WriteFile(filepath.Join(dir, name), content, 0o600)
		}
		err = errors.Join(err, readErr)
	}
	if err := errors.Join(err, n.thaw()); err != nil {
		return nil, err
	}
	d, err := db.Open(ctx, "", dir)
	if err != nil {
		return nil, err
	}
	b, err = readBooks(ctx, d)
	return b, errors.Join(err, d.Close())
}

// acknowledgement is an event that the provider knows.
type acknowledgement struct {
	event       string
	environment *environment
}

// acknowledged returns the acknowledged events in the order of their acknowledgement.
func (p *provider) acknowledged() []acknowledgement {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]acknowledgement, 0, len(p.acked))
	for _, marker := range p.acked {
		list = append(list, acknowledgement{p.events[marker], p.made[marker].environment})
	}
	return list
}

// count completes the figures from the last check.
func (r *run) count() {
	f := &r.figures
	r.provider.mu.Lock()
	f.Messages, f.Requests, f.Acknowledged = len(r.provider.made), len(r.provider.exchanges), len(r.provider.events)
	r.provider.mu.Unlock()
	if r.last == nil {
		return
	}
	f.Events, f.Deliveries, f.Arrivals = len(r.last.books.events), len(r.last.books.deliveries), len(r.last.arrivals)
	f.Late = r.last.late
	for _, a := range r.last.books.attempts {
		if a.outcome == "superseded" {
			f.Superseded++
		}
	}
	for _, d := range r.last.books.deliveries {
		if d.status == "dead" {
			f.Dead++
		}
	}
	type attempt struct {
		generationKey
		number int64
	}
	seen := map[attempt]bool{}
	for _, a := range r.last.arrivals {
		k := attempt{a.generationKey, a.number}
		if seen[k] {
			f.Again++
		}
		seen[k] = true
	}
}

// String lists the figures.
func (f Figures) String() string {
	var kinds []string
	for _, name := range slices.Sorted(maps.Keys(f.Disruptions)) {
		kinds = append(kinds, fmt.Sprintf("%d × %s", f.Disruptions[name], name))
	}
	return fmt.Sprintf("%d rounds, %d with a quiet end; disruptions: %s; %d messages in %d requests, %d acknowledged; %d "+
		"events, "+
		"%d deliveries, %d dead; %d requests arrived, %d of them again, %d late; %d superseded attempts", f.Rounds,
		f.QuietEnds, strings.Join(kinds, ", "), f.Messages, f.Requests, f.Acknowledged, f.Events, f.Deliveries, f.Dead,
		f.Arrivals, f.Again, f.Late, f.Superseded)
}

// mostExplained is how many violations are printed, and of how many events the history.
const mostExplained = 20

// explain prints the violations, how to make the run again, and the history of the first event concerned.
func (r *run) explain(found []violation) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(r.Progress, format+"\n", args...) }
	say("\n%d VIOLATIONS on %s, seed %d, round %d; %s has logs and data", len(found), r.Engine, r.Seed, r.round, r.Dir)
	for _, v := range found[:min(len(found), mostExplained)] {
		say("%s", v)
	}
	say("\ndisruptions:")
	for _, e := range r.episodes {
		say("%s", e)
	}
	i := slices.IndexFunc(found, func(v violation) bool { return v.event != "" })
	if i < 0 || r.last == nil {
		return
	}
	say("\nhistory of event %s:", found[i].event)
	for _, line := range r.history(found[i].event) {
		say("%s", line)
	}
}

func stamp(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// history is what is known of an event, in the order of time.
func (r *run) history(event string) []string {
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	add := func(at time.Time, format string, args ...any) {
		lines = append(lines, line{at, stamp(at) + " " + fmt.Sprintf(format, args...)})
	}
	r.provider.mu.Lock()
	for _, x := range r.provider.exchanges {
		if r.provider.events[x.marker] == event {
			add(x.at, "provider: message %s to %s: status %d, event %s, duplicate %v, until %s", x.marker, x.node, x.status,
				x.event, x.duplicate, stamp(x.ended))
		}
	}
	r.provider.mu.Unlock()
	for _, a := range r.last.arrivals {
		if a.event == event {
			add(a.at, "receiver %s: attempt %d of %s, replay %v, status sent %d", a.receiver, a.number, a.subscription, a.replay,
				a.status)
		}
	}
	for _, a := range r.last.books.attempts {
		if a.event == event {
			add(time.UnixMilli(a.startedMs), "database: attempt %d of %s, generation %d, %s; committed %s", a.number,
				a.subscription, a.generation, a.outcome, stamp(a.committed))
		}
	}
	for _, e := range r.episodes {
		add(e.from, "disruption: %s", e)
	}
	for _, n := range r.nodes {
		for _, l := range logLines(n.logPath, event) {
			add(l.at, "%s: %s", n.name, l.text)
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	out := []string{fmt.Sprintf("event: %+v", r.last.books.events[event])}
	for k, d := range r.last.books.deliveries {
		if k.event == event {
			out = append(out, fmt.Sprintf("delivery to %s: %+v", k.subscription, d))
		}
	}
	for _, l := range lines {
		out = append(out, l.text)
	}
	return out
}

// logLine is a line of a node's log.
type logLine struct {
	at   time.Time
	text string
}

// logLines returns the lines of a log that name an event.
func logLines(path, event string) (list []logLine) {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	const longest = 1 << 20
	lines := bufio.NewScanner(f)
	for lines.Buffer(nil, longest); lines.Scan(); {
		if !strings.Contains(lines.Text(), event) {
			continue
		}
		var head struct {
			Time time.Time `json:"time"`
		}
		_ = json.Unmarshal(lines.Bytes(), &head) // a line that is not JSON comes first
		list = append(list, logLine{head.Time, lines.Text()})
	}
	return list
}
