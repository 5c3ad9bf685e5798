package registry

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Connections tells who depends on a definition.
type Connections interface {
	// UsedProviders returns the slugs of the providers that connections of any environment have.
	UsedProviders(ctx context.Context) ([]string, error)
	// Unfit returns the UUIDs of the connections whose settings the definition refuses, at most limit of them, and how
	// many there are.
	Unfit(ctx context.Context, p *Provider, limit int) (uuids []string, total int, err error)
}

// Folder is where an operator keeps definitions.
type Folder struct {
	FS fs.FS
	// Path is how the folder is called in faults and in the log.
	Path string
}

// Live holds the registry in force: the definitions that ship, and those of a folder, which is read again while the
// process runs. A Registry that was taken from it does not change. It is safe for concurrent use.
type Live struct {
	builtin *Registry
	folder  *Folder // nil without one
	log     *slog.Logger
	// refused is the number of definition files that are not in force as they stand.
	refused prometheus.Gauge
	current atomic.Pointer[Registry]

	mu sync.Mutex // of Refresh
	// seen is the folder's content when it was last looked at, acted the one that was last acted on.
	seen, acted [sha256.Size]byte
	started     bool
	unreadable  string // why the folder could not be read when it was last looked at
	troubled    bool   // the log last said that something in the folder is not in force
}

// Config is what a Live is made from.
type Config struct {
	// Builtin are the definitions that ship; nil means Builtin's.
	Builtin *Registry
	// Folder is the operator's; nil where there is none.
	Folder *Folder
	Logger *slog.Logger
}

// FolderError says that the operator's folder cannot be used.
type FolderError struct{ error }

// Unwrap returns the error behind it, a *LoadError where definitions are invalid.
func (e FolderError) Unwrap() error { return e.error }

// New loads the folder. An invalid definition in it is a FolderError: at the start no earlier version is in force that
// could stay.
func New(c Config) (*Live, error) {
	if c.Builtin == nil {
		builtin, err := Builtin()
		if err != nil {
			return nil, err
		}
		c.Builtin = builtin
	}
	l := &Live{builtin: c.Builtin, folder: c.Folder, log: c.Logger,
		refused: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_provider_definitions_refused",
			Help: "Files of the folder of provider definitions that are invalid, or gone while connections use them; the " +
				"versions before stay in force."})}
	l.current.Store(c.Builtin)
	if c.Folder == nil {
		return l, nil
	}
	if err := l.load(); err != nil {
		return nil, FolderError{err}
	}
	return l, nil
}

func (l *Live) load() error {
	files, faults, err := readFolder(l.folder.FS)
	if err != nil {
		return fmt.Errorf("the folder of provider definitions %s: %w", l.folder.Path, err)
	}
	l.seen = sumOf(files, faults)
	l.acted = l.seen
	bySlug := maps.Clone(l.builtin.bySlug)
	for _, file := range files {
		p, wrong := parse(file, l.builtin)
		faults = append(faults, wrong...)
		if p != nil {
			bySlug[p.Definition.Slug] = p
		}
	}
	if len(faults) > 0 {
		return newLoadError(l.placed(faults))
	}
	l.current.Store(newRegistry(slices.Collect(maps.Values(bySlug))))
	return nil
}

// Get returns the provider with that slug, in the version in force.
func (l *Live) Get(slug string) (*Provider, bool) { return l.current.Load().Get(slug) }

// Registry returns the registry in force.
func (l *Live) Registry() *Registry { return l.current.Load() }

// placed gives faults the path of the folder.
func (l *Live) placed(faults []Fault) []Fault {
	for i := range faults {
		faults[i].File = filepath.Join(l.folder.Path, faults[i].File)
	}
	return faults
}

// sumOf is a hash of a folder's content: names, files and what cannot be read.
func sumOf(files []definitionFile, faults []Fault) [sha256.Size]byte {
	h := sha256.New()
	write := func(b []byte) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(b)))
		_, _ = h.Write(length[:]) // a hash.Hash never returns an error
		_, _ = h.Write(b)
	}
	for _, f := range files {
		write([]byte(f.name))
		write(f.data)
	}
	for _, f := range faults {
		write([]byte(f.String()))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Refresh looks at the folder, and acts on what has changed in it once two looks have found the same: a file that is
// being written is not read by half. It reports whether the registry is another now. A worker calls it each second.
//
// Each file is for itself. A good one is in force from now on, in a new registry that replaces the old at once. A
// faulty one is refused, and the version before stays in force; so does that of a file that is gone while connections
// use it. Both are in the log and in the metric.
func (l *Live) Refresh(ctx context.Context, connections Connections) bool {
	if l.folder == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.started {
		l.started = true
		l.greet(ctx, connections)
	}
	files, faults, err := readFolder(l.folder.FS)
	if err != nil {
		l.lost(ctx, err)
		return false
	}
	l.unreadable = ""
	sum := sumOf(files, faults)
	settled := sum == l.seen
	l.seen = sum
	if !settled || sum == l.acted {
		return false
	}
	l.acted = sum
	return l.act(ctx, connections, files, faults)
}

// lost says once that the folder cannot be read. All that is in force stays so.
func (l *Live) lost(ctx context.Context, err error) {
	l.seen, l.acted = [sha256.Size]byte{}, [sha256.Size]byte{} // whatever it holds when it is back has to be looked at
	if l.unreadable == err.Error() || ctx.Err() != nil {
		return
	}
	l.unreadable, l.troubled = err.Error(), true
	l.refused.Set(1)
	l.log.ErrorContext(ctx, "the folder of provider definitions cannot be read; the definitions in force stay so",
		slog.String("folder", l.folder.Path), slog.String("error", err.Error()))
}

// change collects what one look at the folder leads to.
type change struct {
	bySlug  map[string]*Provider
	refused int
	changed bool
}

func (l *Live) act(ctx context.Context, connections Connections, files []definitionFile, faults []Fault) bool {
	before := l.current.Load()
	c := &change{bySlug: maps.Clone(l.builtin.bySlug)}
	for slug, old := range before.bySlug {
		if old.Source == SourceBuiltin {
			c.bySlug[slug] = old // which may have been replaced for a time, and know the version that did it
		}
	}
	there := map[string]bool{}
	for _, f := range faults {
		there[f.File] = true
	}
	for _, file := range files {
		slug := slugOf(file.name)
		there[file.name] = true
		if old := before.bySlug[slug]; old != nil && old.Source == SourceFolder && old.sum == sha256.Sum256(file.data) {
			c.bySlug[slug] = old
			continue
		}
		p, wrong := parse(file, l.builtin)
		if faults = append(faults, wrong...); p == nil {
			continue
		}
		l.take(ctx, connections, c, p, before.bySlug[slug])
	}
	l.refuse(ctx, c, before, faults)
	l.removed(ctx, connections, c, before, there)
	l.refused.Set(float64(c.refused))
	if l.troubled && c.refused == 0 {
		l.log.InfoContext(ctx, "every provider definition in the folder is in force", slog.String("folder", l.folder.Path))
	}
	l.troubled = c.refused > 0
	if c.changed {
		l.current.Store(newRegistry(slices.Collect(maps.Values(c.bySlug))))
	}
	return c.changed
}

const extension = ".yaml"

// slugOf is the slug that a file of that name defines; empty for a name that defines none.
func slugOf(file string) string {
	slug, ok := strings.CutSuffix(file, extension)
	if !ok {
		return ""
	}
	return slug
}

// take brings a new version of a definition into force.
func (l *Live) take(ctx context.Context, connections Connections, c *change, p, old *Provider) {
	slug := p.Definition.Slug
	c.bySlug[slug], c.changed = p, true
	if old == nil {
		l.log.InfoContext(ctx, "provider definition loaded", slog.String("provider", slug),
			slog.String("folder", l.folder.Path))
		return
	}
	p.previous = l.keep(ctx, connections, p, old)
	l.log.InfoContext(ctx, "provider definition replaced by a new version", slog.String("provider", slug),
		slog.String("origin", string(p.Source)))
}

const (
	// maxNamed bounds the connections that the log names.
	maxNamed = 5
	// maxVersions bounds the versions of one definition that are kept for connections which a later one does not fit.
	maxVersions = 32
	// unfitTimeout bounds the look at the connections of one provider.
	unfitTimeout = 30 * time.Second
)

// keep returns what stays of the version that p replaces: all versions before it while there are connections that p
// does not fit, and else that one alone, for connections that change at this moment.
func (l *Live) keep(ctx context.Context, connections Connections, p, old *Provider) *Provider {
	alone := *old
	alone.previous = nil
	if l.report(ctx, connections, p) {
		return &alone
	}
	versions := 1
	for v := old; v.previous != nil; v = v.previous {
		versions++
	}
	if versions < maxVersions {
		return old
	}
	// The oldest are those that some connections stayed with, and the newest is the one that most have.
	alone.previous = old.previous.previous
	return &alone
}

// report says in the log which connections a definition does not fit; it is true when there are none.
func (l *Live) report(ctx context.Context, connections Connections, p *Provider) bool {
	ctx, cancel := context.WithTimeout(ctx, unfitTimeout)
	defer cancel()
	uuids, total, err := connections.Unfit(ctx, p, maxNamed)
	switch {
	case err != nil:
		l.log.ErrorContext(ctx, "the connections of a provider could not be compared with its definition",
			slog.String("provider", p.Definition.Slug), slog.String("error", err.Error()))
		return false
	case total > 0:
		l.log.WarnContext(ctx, "the settings of connections do not fit their provider's definition; they stay with the "+
			"version that they fit, where there is one",
			slog.String("provider", p.Definition.Slug), slog.Int("connections", total), slog.Any("connection_uuids", uuids))
		return false
	}
	return true
}

// refuse says in the log what is wrong with files, a line for each; the versions before them stay in force.
func (l *Live) refuse(ctx context.Context, c *change, before *Registry, faults []Fault) {
	inFile := map[string]int{}
	for _, f := range faults {
		inFile[f.File]++
	}
	last := ""
	for _, f := range newLoadError(faults).Faults {
		if f.File == last {
			continue
		}
		last = f.File
		c.refused++
		old := before.bySlug[slugOf(f.File)]
		if old != nil {
			c.bySlug[old.Definition.Slug] = old
		}
		l.log.ErrorContext(ctx, "provider definition refused; the version before, if any, stays in force",
			slog.String("file", filepath.Join(l.folder.Path, f.File)), slog.Int("line", f.Line), slog.String("field", f.Field),
			slog.String("reason", f.Message), slog.Int("faults", inFile[f.File]), slog.Bool("in_force", old != nil))
	}
}

// removed deals with definitions whose file is gone: one that stood in the place of a definition that ships gives way
// to it, one that connections use stays in force, and another is forgotten.
func (l *Live) removed(ctx context.Context, connections Connections, c *change, before *Registry,
	there map[string]bool) {
	var used []string
	asked := false
	for _, old := range before.sorted {
		slug := old.Definition.Slug
		if old.Source != SourceFolder || there[slug+extension] {
			continue
		}
		if builtin := l.builtin.bySlug[slug]; builtin != nil {
			back := *builtin
			l.take(ctx, connections, c, &back, old)
			continue
		}
		if !asked {
			asked = true
			var err error
			if used, err = connections.UsedProviders(ctx); err != nil {
				l.log.ErrorContext(ctx, "it could not be found out which provider definitions are in use; removed ones stay in "+
					"force",
					slog.String("error", err.Error()))
				used = slugs(before)
			}
		}
		if slices.Contains(used, slug) {
			c.bySlug[slug] = old
			c.refused++
			l.log.ErrorContext(ctx, "provider definition removed while connections use it; it stays in force until the "+
				"process ends",
				slog.String("file", filepath.Join(l.folder.Path, slug+".yaml")), slog.String("provider", slug))
			continue
		}
		c.changed = true
		l.log.InfoContext(ctx, "provider definition removed", slog.String("provider", slug))
	}
}

func slugs(r *Registry) []string {
	out := make([]string, len(r.sorted))
	for i, p := range r.sorted {
		out[i] = p.Definition.Slug
	}
	return out
}

// greet says in the log, once after the start, what connections lack.
func (l *Live) greet(ctx context.Context, connections Connections) {
	used, err := connections.UsedProviders(ctx)
	if err != nil {
		l.log.ErrorContext(ctx, "it could not be found out which provider definitions are in use",
			slog.String("error", err.Error()))
		return
	}
	for _, slug := range used {
		p, ok := l.Get(slug)
		switch {
		case !ok:
			l.log.ErrorContext(ctx, "connections have a provider without a definition; their deliveries are refused until it "+
				"is back",
				slog.String("provider", slug))
		case p.Source == SourceFolder:
			l.report(ctx, connections, p)
		}
	}
}
