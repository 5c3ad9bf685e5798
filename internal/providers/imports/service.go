package imports

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/fleet"
	"sallyport/internal/platform/heaplimit"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/turnstile"
	"sallyport/internal/providers/documents"
)

// Environments reports whether an environment still exists.
type Environments interface {
	// RequireLive returns not_found for a deleted environment. It is called in the transaction that adds a row to the
	// environment, after the insert, and keeps the environment from being deleted before the commit.
	RequireLive(ctx context.Context, tx *sql.Tx, env id.Environment) error
}

// Keys knows the keys of provider configurations.
type Keys interface {
	// ProviderOf returns the slug of the provider of a configuration; ok is false if there is none.
	ProviderOf(ctx context.Context, env id.Environment, key string) (slug string, ok bool, err error)
}

// Users counts what belongs to a provider of an environment, in the transaction that removes it: connections, and
// provider configurations.
type Users func(ctx context.Context, q db.Querier, env id.Environment, slug string) (connections,
	configs int, err error)

// Targets checks where requests may go. *egress.Client implements it.
type Targets interface {
	// ParseTarget checks a URL without resolving its name, and returns it parsed.
	ParseTarget(raw string) (*url.URL, *egress.TargetError)
	// CheckTarget is ParseTarget and also resolves the name; nil means acceptable.
	CheckTarget(ctx context.Context, raw string) *egress.TargetError
}

// Config holds what a Service is made from.
type Config struct {
	DB           *db.DB
	Clock        clock.Clock
	Logger       *slog.Logger
	Definitions  *Definitions
	Environments Environments
	// Keys is set after New, because the configurations need the definitions.
	Keys  func() Keys
	Users Users
	// OnAccessChange is called in the transaction in which another version of a provider sends credentials elsewhere, or
	// uses them in another way.
	OnAccessChange func(ctx context.Context, tx *sql.Tx, env id.Environment, slug string) error
	Targets        Targets
	// Client fetches documents.
	Client *egress.Client
	// Node names this process's data folder: at start the queue recovers the imports of earlier processes of that name.
	Node string
	// Hints lead to the workers if they are on other nodes; nil means that they are not.
	Hints *fleet.Hints
	// Heap is the limit of the heap, which indexes in memory and large documents raise; nil if there is none.
	Heap *heaplimit.Limit
}

// Service creates, runs and activates imports. It is safe for concurrent use.
type Service struct {
	cfg     Config
	packer  *packer
	metrics metrics
	queue   *jobs.Queue
	indexes indexes
	// comparing lets few previews be made at a time.
	comparing *turnstile.Gate
	breaks    breaks
	// maxComparing is the constant of that name; tests replace it.
	maxComparing time.Duration
	// pause waits between two pieces of work, so that an import leaves room for other work; tests replace it.
	pause func(ctx context.Context, worked time.Duration)
}

const (
	// comparisons is how many previews are made at a time, comparisonsEach how many of one environment, and
	// comparisonWait how long another one waits.
	comparisons, comparisonsEach = 2, 1
	comparisonWait               = 10 * time.Second
)

// New returns a Service. Its module runs the imports.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, packer: newPacker(), metrics: newMetrics(), comparing: turnstile.New(comparisons,
		comparisonsEach, comparisonWait, "Too many previews are made at this moment; retry")}
	s.indexes.load, s.indexes.heap = s.loadIndex, cfg.Heap
	s.pause, s.maxComparing = s.rest, maxComparing
	s.queue = jobs.New(s.queueConfig())
	cfg.Hints.On(importHint, func([]string) { s.queue.Wake() })
	return s
}

// importHint is the topic of the hints that an import is due.
const importHint = "imports"

// due wakes the workers, after the commit of an import that is due.
func (s *Service) due() {
	s.queue.Wake()
	s.cfg.Hints.Give(importHint)
}

func (s *Service) now() time.Time { return clock.FromMillis(clock.Millis(s.cfg.Clock.Now())) }

// Create stores an import, with its document unless the order names a URL. A document is stored while it is received,
// so that it needs little memory.
//
// Errors: validation errors with the locations of the HTTP body; slug_taken; provider_not_found for a provider to be
// extended that does not exist; imports_limit; payload_too_large.
func (s *Service) Create(ctx context.Context, p access.Principal, o Order, document io.Reader) (Import, error) {
	if err := s.checkOrder(ctx, p.Environment, &o, document != nil); err != nil {
		return Import{}, err
	}
	now := s.now()
	m := Import{ID: id.New(id.PrefixImport), Environment: p.Environment, Order: o, Status: receiving,
		CreatedBy: Creator{p.Kind, p.ID, p.Name}, CreatedAt: now, UpdatedAt: now, due: now}
	if err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error { return s.begin(ctx, tx, &m) }); err != nil {
		return Import{}, err
	}
	if document != nil {
		if err := s.receive(ctx, &m, document); err != nil {
			s.forget(ctx, &m)
			return Import{}, err
		}
	}
	m.Status, m.UpdatedAt = Queued, s.now()
	err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		stored := m
		if err := update(ctx, tx, &stored); err != nil {
			return err
		}
		return s.recordAudit(ctx, tx, p, "create", &stored, nil, auditState(&stored),
			audit.State{"document_sha256": stored.Document.SHA256})
	})
	if err != nil {
		s.forget(ctx, &m)
		return Import{}, err
	}
	m.version++
	s.due()
	return m, nil
}

// begin stores an import whose document is still to come.
func (s *Service) begin(ctx context.Context, tx *sql.Tx, m *Import) error {
	// Imports are counted under a lock, so that two requests cannot both take the last place.
	if err := s.cfg.DB.AdvisoryLock(ctx, tx, db.LockFor(tableName, string(m.Environment))); err != nil {
		return fmt.Errorf("lock the imports of an environment: %w", err)
	}
	u, err := useOf(ctx, tx, m.Environment)
	if err != nil {
		return err
	}
	if err := u.refuse(); err != nil {
		return err
	}
	if err := insert(ctx, tx, m); err != nil {
		return err
	}
	return s.cfg.Environments.RequireLive(ctx, tx, m.Environment) //nolint:wrapcheck // an error of the API
}

// refuse returns imports_limit if there is no room for another import.
func (u *use) refuse() error {
	var message string
	switch {
	case u.unfinished >= MaxUnfinished:
		message = fmt.Sprintf("The environment has %d unfinished imports; wait for one to end, or cancel one", MaxUnfinished)
	case u.receiving >= MaxUnfinished:
		message = fmt.Sprintf("The environment is sending %d documents at this moment; retry when one of them has arrived",
			MaxUnfinished)
	case u.imports >= MaxImports:
		message = fmt.Sprintf("The environment has %d imports, which is as many as it may have; delete some", MaxImports)
	case u.bytes >= MaxStoredBytes:
		message = fmt.Sprintf("The imports of the environment take %d MiB, which is as much as they may; delete some",
			MaxStoredBytes>>20)
	default:
		return nil
	}
	return apperr.New(apperr.CodeImportsLimit, message)
}

// errTooLarge is the error of a document that exceeds its limit.
func errTooLarge() error {
	return apperr.New(apperr.CodePayloadTooLarge,
		fmt.Sprintf("The document is larger than %d MiB", documents.MaxBytes>>20))
}

// receive stores a document in parts. It rests between them as a worker does: to compress a part takes a core, and to
// store it, on SQLite, the writer.
func (s *Service) receive(ctx context.Context, m *Import, document io.Reader) error {
	sum := sha256.New()
	number := int64(0)
	err := eachPiece(document, func(piece []byte) error {
		began := s.cfg.Clock.Now()
		if m.Document.Bytes += int64(len(piece)); m.Document.Bytes > documents.MaxBytes {
			return errTooLarge()
		}
		_, _ = sum.Write(piece) // a hash.Hash never returns an error
		p := part{number, s.packer.pack(piece)}
		number++
		m.StoredBytes += int64(len(p.data))
		if err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error { return storePart(ctx, tx, m, partDocument, p) }); err != nil {
			return err
		}
		s.pause(ctx, s.cfg.Clock.Now().Sub(began))
		return ctx.Err() //nolint:wrapcheck // the request has ended
	})
	if err != nil {
		return err
	}
	if m.Document.Bytes == 0 {
		return apperr.Invalid(apperr.Detail{Location: "document", Rule: "min_length", Message: "must not be empty"})
	}
	m.Document.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// forgetTimeout bounds how long the removal of an import that is shown to no one may take. A worker removes what is
// left.
const forgetTimeout = 10 * time.Second

// forget removes an import that is shown to no one: it was not received whole, or was deleted.
func (s *Service) forget(ctx context.Context, m *Import) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTimeout)
	defer cancel()
	if err := s.remove(ctx, m.Environment, m.ID); err != nil {
		s.cfg.Logger.WarnContext(ctx, "cannot remove an import that is no longer needed; it is removed later",
			slog.String("import_id", m.ID), slog.String("error", err.Error()))
	}
}

// remove deletes the parts of an import in small transactions, and then its row.
func (s *Service) remove(ctx context.Context, env id.Environment, importID string) error {
	for more := true; more; {
		err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
			more, err = deleteParts(ctx, tx, env, importID)
			return err
		})
		if err != nil {
			return err
		}
	}
	return s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM catalog_imports WHERE id = $1 AND environment_id = $2", importID,
			string(env))
		if err != nil {
			return fmt.Errorf("delete an import: %w", err)
		}
		return nil
	})
}

// Get returns an import of the environment, or not_found.
func (s *Service) Get(ctx context.Context, env id.Environment, importID string) (Import, error) {
	return find(ctx, s.cfg.DB.Read(), env, importID, "")
}

// List returns one page of the environment's imports, newest first, and one row more if another page follows. They are
// without their outcome.
func (s *Service) List(ctx context.Context, env id.Environment, f Filter, p page.Request) ([]Import, error) {
	return list(ctx, s.cfg.DB.Read(), env, f, p)
}

// Cancel ends an import that has not ended: once Cancel returns, it comes to nothing. Cancelling a cancelled one
// changes nothing.
//
// Errors: not_found; import_ended.
func (s *Service) Cancel(ctx context.Context, p access.Principal, importID string) (Import, error) {
	var m Import
	err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		var err error
		if m, err = find(ctx, tx, p.Environment, importID, s.cfg.DB.ForUpdate()); err != nil {
			return err
		}
		switch m.Status {
		case Cancelled:
			return nil
		case Queued, Running:
		default:
			return apperr.New(apperr.CodeImportEnded, "The import has ended")
		}
		before := auditState(&m)
		now := s.now()
		m.Status, m.UpdatedAt, m.FinishedAt = Cancelled, now, &now
		if err := update(ctx, tx, &m, db.Col("finished_ms", db.NullMillis(&m.FinishedAt))); err != nil {
			return err
		}
		if err := s.queue.Recall(ctx, tx, m.ID); err != nil {
			return fmt.Errorf("recall an import: %w", err)
		}
		return s.recordAudit(ctx, tx, p, "cancel", &m, before, auditState(&m), audit.State{"status": m.Status})
	})
	if err != nil {
		return Import{}, err
	}
	m.Progress = nil
	return m, nil
}

// Delete removes an import. An active one takes its provider out of the catalog; its actions, or with it the provider.
//
// Errors: not_found; import_not_ended; provider_in_use if connections or provider configurations belong to the provider
// that it defines.
func (s *Service) Delete(ctx context.Context, p access.Principal, importID string) error {
	var m Import
	err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		var err error
		if m, err = find(ctx, tx, p.Environment, importID, s.cfg.DB.ForUpdate()); err != nil {
			return err
		}
		before := auditState(&m)
		if m.Status == Queued || m.Status == Running {
			return apperr.New(apperr.CodeImportNotEnded, "The import has not ended; cancel it first")
		}
		if m.Status == Active {
			if err := s.requireUnused(ctx, tx, &m); err != nil {
				return err
			}
			if err := db.Bump(ctx, tx, collection, string(m.Environment)); err != nil {
				return fmt.Errorf("raise the version of the catalog: %w", err)
			}
		}
		// It is shown to no one from here on; its parts follow in small transactions.
		deleted := m
		deleted.Status, deleted.UpdatedAt = receiving, time.UnixMilli(0)
		if err := update(ctx, tx, &deleted); err != nil {
			return err
		}
		return s.recordAudit(ctx, tx, p, "delete", &m, before, nil, nil)
	})
	if err != nil {
		return err
	}
	if m.Status == Active {
		s.cfg.Definitions.drop(ctx, m.Environment)
	}
	s.forget(ctx, &m)
	return nil
}

// requireUnused returns provider_in_use if something belongs to the provider that an import defines.
func (s *Service) requireUnused(ctx context.Context, tx *sql.Tx, m *Import) error {
	if m.Extends {
		return nil
	}
	connections, configs, err := s.cfg.Users(ctx, tx, m.Environment, m.Slug)
	switch {
	case err != nil:
		return err
	case connections > 0:
		return apperr.New(apperr.CodeProviderInUse, fmt.Sprintf("%s to the provider; delete %s first",
			count(connections, "connection belongs", "connections belong"), pronoun(connections)))
	case configs > 0:
		return apperr.New(apperr.CodeProviderInUse, fmt.Sprintf("%s to the provider; delete %s first",
			count(configs, "provider configuration belongs", "provider configurations belong"), pronoun(configs)))
	default:
		return nil
	}
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func pronoun(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

func (s *Service) recordAudit(ctx context.Context, tx *sql.Tx, p access.Principal, verb string, m *Import,
	before, after, details audit.State) error {
	return audit.Record(ctx, tx, s.now(), audit.Event{Team: p.Team, Environment: p.Environment, Actor: p,
		Action: "catalog_import." + verb, TargetType: "catalog_import", TargetID: m.ID, Before: before, After: after,
		Details: details})
}

// auditState returns an import as the audit trail shows it, as far as users change it.
func auditState(m *Import) audit.State {
	return audit.State{"provider": m.Slug, "extends": m.Extends, "display_name": m.DisplayName, "source": m.Source,
		"url": m.ShownURL(), "base_url": m.BaseURL, "headers": m.Headers, "probe": m.Probe,
		"include": m.Include, "exclude": m.Exclude, "trusted": m.Trusted,
		"active": m.Status == Active}
}
