package operator

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"sallyport/internal/app"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/suggest"
	"sallyport/internal/providers/imports"
)

// ImportOrder says what to import.
type ImportOrder = imports.Order

// ImportSource is the kind of a document.
type ImportSource = imports.Source

// ImportStatus is where an import is.
type ImportStatus = imports.Status

// The statuses that commands look for.
const (
	ImportQueued  = imports.Queued
	ImportRunning = imports.Running
	ImportReady   = imports.Ready
	ImportActive  = imports.Active
)

// ChangeKind is how an import changes an action.
type ChangeKind = imports.ChangeKind

// Imports works on the imports of one environment, next to a server that may be running. It returns them in the form
// of the API.
type Imports struct {
	site
	svc   *imports.Service
	clock *db.Clock
}

// WithImports calls fn with the imports of the environment with that id or name.
func (s *Store) WithImports(ctx context.Context, cfg *config.Config, own clock.Clock, environment string,
	log *slog.Logger, fn func(*Imports) error) error {
	// Leases of the queue go by the database's clock.
	clk := db.NewClock(s.DB, own, nil)
	if err := clk.Sync(ctx); err != nil {
		return err
	}
	return s.withSite(ctx, cfg, environment, log, func(at site) error {
		// With a name of its own the process takes no lease for that of a process before it.
		svc := app.NewImports(app.Imports{DB: s.DB, Clock: clk, Logger: log, Definitions: at.definitions,
			Environments: s.Identity.Team, Configs: at.configs, Client: at.client,
			Node: "command-" + strings.ToLower(rand.Text())})
		return fn(&Imports{site: at, svc: svc, clock: clk})
	})
}

// Create stores an import with its document, unless the order names a URL, and returns it with its id.
func (i *Imports) Create(ctx context.Context, o ImportOrder, document io.Reader) (importID string, err error) {
	if o.Extends {
		if err := i.providers.CheckSkipped(o.Slug); err != nil {
			return "", err
		}
	}
	m, err := i.svc.Create(ctx, i.actor, o, document)
	return m.ID, err
}

// List returns imports, newest first, in the form of lists; at most limit of them, or all if it is 0. more reports
// whether there are more.
func (i *Imports) List(ctx context.Context, providers []string, statuses []ImportStatus,
	limit int) (list []json.RawMessage, more bool, err error) {
	list = []json.RawMessage{}
	more, err = i.each(ctx, providers, statuses, limit, func(m *imports.Import) error {
		view, err := app.EncodeImportSummary(m)
		list = append(list, view)
		return err
	})
	return list, more, err
}

func (i *Imports) each(ctx context.Context, providers []string, statuses []ImportStatus, limit int,
	fn func(m *imports.Import) error) (more bool, err error) {
	f := imports.Filter{Providers: providers, Statuses: statuses}
	r := page.Request{Limit: page.MaxLimit}
	for n := 0; ; {
		if limit > 0 {
			r.Limit = min(page.MaxLimit, limit-n)
		}
		rows, err := i.svc.List(ctx, i.actor.Environment, f, r)
		if err != nil {
			return false, err
		}
		more = len(rows) > r.Limit
		rows = rows[:min(len(rows), r.Limit)]
		for k := range rows {
			if err := fn(&rows[k]); err != nil {
				return false, err
			}
		}
		if n += len(rows); !more || n == limit {
			return more, nil
		}
		r.After = rows[len(rows)-1].ID
	}
}

// Find returns the id of the import that a text names: by its id, or by its provider, of which it is the newest import
// with one of the statuses.
func (i *Imports) Find(ctx context.Context, name string, statuses ...ImportStatus) (importID string, err error) {
	if strings.HasPrefix(name, id.PrefixImport) {
		return name, nil
	}
	rows, err := i.svc.List(ctx, i.actor.Environment, imports.Filter{Providers: []string{name}, Statuses: statuses},
		page.Request{Limit: 1})
	if err != nil {
		return "", err
	}
	if len(rows) > 0 {
		return rows[0].ID, nil
	}
	var providers, others []string
	_, err = i.each(ctx, nil, nil, 0, func(m *imports.Import) error {
		if m.Slug == name {
			others = append(others, m.ID+": "+string(m.Status))
		} else if !slices.Contains(providers, m.Slug) {
			providers = append(providers, m.Slug)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	const most = 3
	switch {
	case len(others) == 0:
		return "", apperr.New(apperr.CodeNotFound, "There is no import of "+name+suggest.Question(name, providers, nil))
	case len(others) > most:
		others = append(others[:most], "…")
	}
	wanted := make([]string, len(statuses))
	for k, s := range statuses {
		wanted[k] = string(s)
	}
	return "", apperr.New(apperr.CodeNotFound, "No import of "+name+" is "+strings.Join(wanted, " or ")+" ("+
		strings.Join(others, ", ")+"); name one by its id")
}

// Get returns an import, and what its activation would change if it can be activated.
func (i *Imports) Get(ctx context.Context, importID string) (json.RawMessage, error) {
	m, err := i.svc.Get(ctx, i.actor.Environment, importID)
	if err != nil {
		return nil, err
	}
	if !m.HasActions() {
		return app.EncodeImport(&m, nil)
	}
	m, preview, err := i.svc.Preview(ctx, i.actor.Environment, importID)
	if err != nil {
		return nil, err
	}
	return app.EncodeImport(&m, &preview)
}

// Changes returns the actions that the activation of an import would change, in the order of their names; of some kinds
// if any are given, and with breaking only those on which callers cannot depend any more.
func (i *Imports) Changes(ctx context.Context, importID string, kinds []ChangeKind,
	breaking bool) ([]json.RawMessage, error) {
	list := []json.RawMessage{}
	r := page.Request{Limit: maxChanges, Ascending: true}
	rows, err := i.svc.ListChanges(ctx, i.actor.Environment, importID, imports.ChangeFilter{Kinds: kinds}, r)
	if err != nil {
		return nil, err
	}
	for k := range rows {
		if breaking && !rows[k].Breaking { // the service's own filter stops in time for other work
			continue
		}
		view, err := app.EncodeActionChange(&rows[k])
		if err != nil {
			return nil, err
		}
		list = append(list, view)
	}
	return list, nil
}

// maxChanges is more than two versions of a provider can differ in.
const maxChanges = 1 << 20

// Activate makes an import what the catalog shows. digest is that of the preview that the user has seen.
func (i *Imports) Activate(ctx context.Context, importID, digest string) error {
	_, err := i.svc.Activate(ctx, i.actor, importID, digest)
	return err
}

// Cancel ends an import that has not ended.
func (i *Imports) Cancel(ctx context.Context, importID string) error {
	_, err := i.svc.Cancel(ctx, i.actor, importID)
	return err
}

// Remove deletes an import.
func (i *Imports) Remove(ctx context.Context, importID string) error {
	return i.svc.Delete(ctx, i.actor, importID)
}

// ImportProgress says how far an import is.
type ImportProgress struct {
	// Phase is empty while the import waits.
	Phase string
	// Operations counts those that were read.
	Operations int
	// Own says that this process reads documents, because no server has begun to.
	Own bool
}

const (
	// lookInterval is how often an import is looked at.
	lookInterval = 200 * time.Millisecond
	// patience is how long servers get to begin with a document: their queues look every second. stalled is how long an
	// import may show no progress: longer than the lease of a server that is gone.
	patience, stalled = 2500 * time.Millisecond, 20 * time.Second
)

// Await returns when an import has ended. It calls report with each change of its progress. A document that no server
// begins to read is read by this process.
func (i *Imports) Await(ctx context.Context, importID string, report func(ImportProgress)) error {
	w := worker{of: i}
	defer w.stop(ctx)
	var last ImportProgress
	since := i.clock.Now()
	report(last)
	for {
		m, err := i.svc.Get(ctx, i.actor.Environment, importID)
		if err != nil {
			return err
		}
		if m.Status != imports.Queued && m.Status != imports.Running {
			return nil
		}
		now, wait := ImportProgress{Own: w.services != nil}, patience
		if m.Status == imports.Running {
			w.drain(ctx)
			if wait = stalled; m.Progress != nil {
				now.Phase, now.Operations = string(m.Progress.Phase), m.Progress.Done
			}
		}
		if now != last {
			last, since = now, i.clock.Now()
			report(last)
		}
		if i.clock.Now().Sub(since) >= wait {
			if err := w.start(ctx); err != nil {
				return err
			}
		}
		if err := i.pause(ctx); err != nil {
			return err
		}
	}
}

func (i *Imports) pause(ctx context.Context) error {
	t := i.clock.NewTimer(lookInterval)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// worker reads documents as servers do. Several processes can read at the same time: each import is leased to one.
type worker struct {
	of *Imports
	// services are set once it works.
	services []module.Service
	draining bool
}

func (w *worker) start(ctx context.Context) error {
	if w.services != nil {
		return nil
	}
	w.services = w.of.svc.Module().Services
	for _, s := range w.services {
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// drain makes the worker begin with no other import: the process ends after its own.
func (w *worker) drain(ctx context.Context) {
	if w.draining {
		return
	}
	for _, s := range w.services {
		w.draining = true
		_ = s.Drain(ctx) // it has no error
	}
}

// stopTimeout bounds how long the end of another import may take.
const stopTimeout = 5 * time.Second

// stop ends the worker, immediately if ctx has ended. An import that it still reads goes back to the queue.
func (w *worker) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	for _, s := range w.services {
		_ = s.Stop(ctx) // what is left keeps its lease, which expires
	}
}
