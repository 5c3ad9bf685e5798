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

	"sallyport/internal/platform/id"
	"sallyport/internal/providers/eventtypes"
)

// Connections reports the users of a definition.
type Connections interface {
	// UsedProviders returns the slugs of the providers that connections of any environment have.
	UsedProviders(ctx context.Context) ([]string, error)
	// Unfit returns the UUIDs of the connections whose settings the definition rejects, at most limit of them, and their
	// number.
	Unfit(ctx context.Context, p *Provider, limit int) (uuids []string, total int, err error)
}

// Folder is the place of an operator's definitions.
type Folder struct {
	FS fs.FS
	// Path is the folder's name in problems and in the log.
	Path string
}

// Live provides the active registry: the built-in definitions, and those of a folder, which is reloaded while the
// process runs. A Registry that it has returned does not change. It is safe for concurrent use.
type Live struct {
	builtin *Registry
	folder  *Folder // nil without one
	// skipped are the problems of files that were left out.
	skipped []Problem
	log     *slog.Logger
	// refused is the number of definition files that are not active as they are.
	refused prometheus.Gauge
	current atomic.Pointer[Registry]

	mu sync.Mutex // of Refresh
	// seen is the folder's content when it was last looked at, acted the one that was last acted on.
	seen, acted [sha256.Size]byte
	started     bool
	unreadable  string // why the folder could not be read when it was last looked at
	troubled    bool   // the last log line said that part of the folder is not active
}

// Config holds the dependencies of a Live.
type Config struct {
	// Builtin are the built-in definitions; nil means Builtin's.
	Builtin *Registry
	// Folder is the operator's; nil if there is none.
	Folder *Folder
	Logger *slog.Logger
	// SkipInvalid leaves out files of the folder that are invalid, and the providers that they define. It is for commands
	// that work with some providers, next to a server that has earlier versions of these files.
	SkipInvalid bool
}

// FolderError reports that the operator's folder cannot be used.
type FolderError struct{ error }

// Unwrap returns the cause, a *LoadError if definitions are invalid.
func (e FolderError) Unwrap() error { return e.error }

// New loads the folder. An invalid definition in it is a FolderError, because at the start no earlier version is
// active.
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
			Help: "Files of the folder of provider definitions that are invalid, or were removed while connections use " +
				"them; the previous versions stay active."})}
	l.current.Store(c.Builtin)
	if c.Folder == nil {
		return l, nil
	}
	if err := l.load(c.SkipInvalid); err != nil {
		return nil, FolderError{err}
	}
	return l, nil
}

func (l *Live) load(skip bool) error {
	files, problems, err := readFolder(l.folder.FS)
	if err != nil {
		return fmt.Errorf("the folder of provider definitions %s: %w", l.folder.Path, err)
	}
	l.seen = sumOf(files, problems)
	l.acted = l.seen
	bySlug := maps.Clone(l.builtin.bySlug)
	for _, file := range files {
		p, wrong := parse(file, l.builtin)
		problems = append(problems, wrong...)
		if p != nil {
			bySlug[p.Definition.Slug] = p
		} else {
			delete(bySlug, slugOf(file.name)) // the file may replace a built-in definition
		}
	}
	if len(problems) > 0 && !skip {
		return newLoadError(l.withFolder(problems))
	}
	l.skipped = newLoadError(l.withFolder(problems)).Problems
	l.current.Store(newRegistry(slices.Collect(maps.Values(bySlug))))
	return nil
}

// Skipped returns the problems of the files that were left out, by files and lines.
func (l *Live) Skipped() []Problem { return l.skipped }

// CheckSkipped returns a FolderError if the definition of a provider was left out.
func (l *Live) CheckSkipped(slug string) error {
	var problems []Problem
	for _, p := range l.skipped {
		if slugOf(filepath.Base(p.File)) == slug {
			problems = append(problems, p)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return FolderError{&LoadError{Problems: problems}}
}

// Get returns the active version of the provider with that slug.
func (l *Live) Get(slug string) (*Provider, bool) { return l.current.Load().Get(slug) }

// List returns the active definitions, sorted by slug.
func (l *Live) List() []*Provider { return l.current.Load().List() }

// Find is Get for an environment: the definitions of an installation are those of all its environments.
func (l *Live) Find(_ id.Environment, slug string) (*Provider, bool) { return l.Get(slug) }

// All is List for an environment.
func (l *Live) All(id.Environment) []*Provider { return l.List() }

// Registry returns the active registry.
func (l *Live) Registry() *Registry { return l.current.Load() }

// EventTypes returns what the active definitions say about the types of events.
func (l *Live) EventTypes() []*eventtypes.Provider { return l.current.Load().types }

// withFolder gives problems the path of the folder.
func (l *Live) withFolder(problems []Problem) []Problem {
	for i := range problems {
		problems[i].File = filepath.Join(l.folder.Path, problems[i].File)
	}
	return problems
}

// sumOf is a hash of a folder's content: names, files and what cannot be read.
func sumOf(files []definitionFile, problems []Problem) [sha256.Size]byte {
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
	for _, f := range problems {
		write([]byte(f.String()))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Refresh reads the folder, and applies a change once two reads have found the same bytes, so that a file is not read
// while it is being written. It reports whether the registry has changed. A worker calls it each second.
//
// Each file is handled separately. A valid file becomes active, in a new registry that replaces the old one. An invalid
// file is rejected, and the previous version stays active. The same is true for a removed file that connections use.
// Both appear in the log and in the metric.
func (l *Live) Refresh(ctx context.Context, connections Connections) bool {
	if l.folder == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.started {
		l.started = true
		l.reportMissing(ctx, connections)
	}
	files, problems, err := readFolder(l.folder.FS)
	if err != nil {
		l.reportLost(ctx, err)
		return false
	}
	l.unreadable = ""
	sum := sumOf(files, problems)
	settled := sum == l.seen
	l.seen = sum
	if !settled || sum == l.acted {
		return false
	}
	l.acted = sum
	return l.applyFolder(ctx, connections, files, problems)
}

// reportLost logs once that the folder cannot be read. All active definitions stay active.
func (l *Live) reportLost(ctx context.Context, err error) {
	l.seen, l.acted = [sha256.Size]byte{}, [sha256.Size]byte{} // when it is back, its content has to be read again
	if l.unreadable == err.Error() || ctx.Err() != nil {
		return
	}
	l.unreadable, l.troubled = err.Error(), true
	l.refused.Set(1)
	l.log.ErrorContext(ctx, "cannot read the folder of provider definitions; the active definitions stay active",
		slog.String("folder", l.folder.Path), slog.String("error", err.Error()))
}

// change collects the result of one read of the folder.
type change struct {
	bySlug  map[string]*Provider
	refused int
	changed bool
	// reports are logged once what they say is true: when the registry has been replaced.
	reports []func()
}

// applyFolder builds a registry from the files of the folder and activates it. It reports whether the registry changed.
func (l *Live) applyFolder(ctx context.Context, connections Connections, files []definitionFile,
	problems []Problem) bool {
	before := l.current.Load()
	c := &change{bySlug: maps.Clone(l.builtin.bySlug)}
	for slug, old := range before.bySlug {
		if old.Source == SourceBuiltin {
			c.bySlug[slug] = old // which may have been replaced for a time, and know the version that did it
		}
	}
	there := map[string]bool{}
	for _, f := range problems {
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
		if problems = append(problems, wrong...); p == nil {
			continue
		}
		l.adoptVersion(ctx, connections, c, p, before.bySlug[slug])
	}
	l.reportRefused(ctx, c, before, problems)
	l.applyRemovals(ctx, connections, c, before, there)
	l.refused.Set(float64(c.refused))
	if l.troubled && c.refused == 0 {
		c.reports = append(c.reports, func() {
			l.log.InfoContext(ctx, "every provider definition in the folder is active", slog.String("folder", l.folder.Path))
		})
	}
	l.troubled = c.refused > 0
	if c.changed {
		l.current.Store(newRegistry(slices.Collect(maps.Values(c.bySlug))))
	}
	for _, report := range c.reports {
		report()
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

// adoptVersion activates a new version of a definition.
func (l *Live) adoptVersion(ctx context.Context, connections Connections, c *change, p, old *Provider) {
	slug := p.Definition.Slug
	c.bySlug[slug], c.changed = p, true
	if old == nil {
		c.reports = append(c.reports, func() {
			l.log.InfoContext(ctx, "provider definition loaded", slog.String("provider", slug),
				slog.String("folder", l.folder.Path))
		})
		return
	}
	p.previous = l.previousVersions(ctx, connections, c, p, old)
	c.reports = append(c.reports, func() {
		l.log.InfoContext(ctx, "provider definition replaced by a new version", slog.String("provider", slug),
			slog.String("origin", string(p.Source)))
	})
}

const (
	// maxNamed limits the connections that the log names.
	maxNamed = 5
	// maxVersions limits the versions of one definition that are kept for connections which a later one does not fit.
	maxVersions = 32
	// unfitTimeout limits the check of the connections of one provider.
	unfitTimeout = 30 * time.Second
)

// previousVersions returns the versions that stay available after p replaces old: all earlier ones while there are
// connections that p does not fit, and otherwise only old, for connections that change at this moment.
func (l *Live) previousVersions(ctx context.Context, connections Connections, c *change, p, old *Provider) *Provider {
	alone := *old
	alone.previous = nil
	if p.Webhooks == nil && !old.verifies() {
		return &alone // nothing of a connection is verified by a version
	}
	report := l.unfit(ctx, connections, p)
	if report == nil {
		return &alone
	}
	c.reports = append(c.reports, report)
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

// verifies reports whether a version of the definition verifies webhooks.
func (p *Provider) verifies() bool {
	for ; p != nil; p = p.previous {
		if p.Webhooks != nil {
			return true
		}
	}
	return false
}

// unfit returns what logs the connections that a definition does not fit; nil if there are none.
func (l *Live) unfit(ctx context.Context, connections Connections, p *Provider) func() {
	limited, cancel := context.WithTimeout(ctx, unfitTimeout)
	defer cancel()
	uuids, total, err := connections.Unfit(limited, p, maxNamed)
	switch {
	case err != nil:
		return func() {
			l.log.ErrorContext(ctx, "cannot compare the connections of a provider with its definition",
				slog.String("provider", p.Definition.Slug), slog.String("error", err.Error()))
		}
	case total > 0:
		return func() {
			l.log.WarnContext(ctx, "the settings of connections do not fit their provider's definition; they stay with the "+
				"version that they fit, if there is one",
				slog.String("provider", p.Definition.Slug), slog.Int("connections", total), slog.Any("connection_uuids", uuids))
		}
	default:
		return nil
	}
}

// reportRefused logs the problems of files, one line for each. The previous versions stay active.
func (l *Live) reportRefused(ctx context.Context, c *change, before *Registry, problems []Problem) {
	inFile := map[string]int{}
	for _, f := range problems {
		inFile[f.File]++
	}
	last := ""
	for _, f := range newLoadError(problems).Problems {
		if f.File == last {
			continue
		}
		last = f.File
		c.refused++
		old := before.bySlug[slugOf(f.File)]
		if old != nil {
			c.bySlug[old.Definition.Slug] = old
		}
		c.reports = append(c.reports, func() {
			l.log.ErrorContext(ctx, "provider definition rejected; the previous version, if any, stays active",
				slog.String("file", filepath.Join(l.folder.Path, f.File)), slog.Int("line", f.Line), slog.String("field", f.Field),
				slog.String("reason", f.Message), slog.Int("problems", inFile[f.File]), slog.Bool("in_force", old != nil))
		})
	}
}

// applyRemovals handles definitions whose file was removed. A definition that replaced a built-in one is replaced by
// it, one that connections use stays active, and another is dropped.
func (l *Live) applyRemovals(ctx context.Context, connections Connections, c *change, before *Registry,
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
			l.adoptVersion(ctx, connections, c, &back, old)
			continue
		}
		if !asked {
			asked = true
			var err error
			if used, err = connections.UsedProviders(ctx); err != nil {
				l.log.ErrorContext(ctx, "cannot determine which provider definitions are in use; removed ones stay active",
					slog.String("error", err.Error()))
				used = slugs(before)
			}
		}
		if slices.Contains(used, slug) {
			c.bySlug[slug] = old
			c.refused++
			c.reports = append(c.reports, func() {
				l.log.ErrorContext(ctx, "provider definition removed while connections use it; it stays active until the process "+
					"ends",
					slog.String("file", filepath.Join(l.folder.Path, slug+".yaml")), slog.String("provider", slug))
			})
			continue
		}
		c.changed = true
		c.reports = append(c.reports, func() {
			l.log.InfoContext(ctx, "provider definition removed", slog.String("provider", slug))
		})
	}
}

func slugs(r *Registry) []string {
	out := make([]string, len(r.sorted))
	for i, p := range r.sorted {
		out[i] = p.Definition.Slug
	}
	return out
}

// reportMissing logs, once after the start, the definitions that connections miss.
func (l *Live) reportMissing(ctx context.Context, connections Connections) {
	used, err := connections.UsedProviders(ctx)
	if err != nil {
		l.log.ErrorContext(ctx, "cannot determine which provider definitions are in use",
			slog.String("error", err.Error()))
		return
	}
	for _, slug := range used {
		p, ok := l.Get(slug)
		switch {
		case !ok:
			l.log.ErrorContext(ctx, "connections have a provider without a definition; their webhooks are rejected until it "+
				"is back",
				slog.String("provider", slug))
		case p.Source == SourceFolder && p.Webhooks != nil:
			if report := l.unfit(ctx, connections, p); report != nil {
				report()
			}
		}
	}
}
