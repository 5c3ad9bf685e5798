package imports

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sallyport/internal/platform/db"
)

const (
	// tidied is how many imports a worker cleans up before it looks again.
	tidied = 20
	// receiveTime is how long a document may take to come.
	receiveTime = 15 * time.Minute
)

// tidy deletes what is no longer needed: documents that were read, actions of imports that led to nothing, old imports
// that led to nothing, and what was not received whole. It goes in small transactions, so that no one waits for it.
func (s *Service) tidy(ctx context.Context) error {
	return errors.Join(
		s.tidyEach(ctx, func(ctx context.Context) ([]Import, error) { return withParts(ctx, s.cfg.DB.Read(), tidied) },
			s.removeParts),
		s.tidyEach(ctx, func(ctx context.Context) ([]Import, error) {
			now := s.now()
			return stale(ctx, s.cfg.DB.Read(), now.Add(-keptFailed), now.Add(-receiveTime), tidied)
		}, func(ctx context.Context, m *Import) error { return s.remove(ctx, m.Environment, m.ID) }))
}

// tidyEach calls work for what next returns, until that is little. It goes on after an error, which it returns.
func (s *Service) tidyEach(ctx context.Context, next func(ctx context.Context) ([]Import, error),
	work func(ctx context.Context, m *Import) error) error {
	for {
		list, err := next(ctx)
		if err != nil {
			return err
		}
		var failed error
		for i := range list {
			failed = errors.Join(failed, work(ctx, &list[i]))
		}
		if failed != nil || len(list) < tidied {
			return failed
		}
	}
}

// removeParts deletes the parts that an import does not need any more.
func (s *Service) removeParts(ctx context.Context, m *Import) error {
	var kept []kind
	if m.HasActions() {
		kept = []kind{partActions, partIndex}
	}
	for more := true; more; {
		err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
			more, err = deleteParts(ctx, tx, m.Environment, m.ID, kept...)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// withParts returns imports that have parts which they do not need any more.
func withParts(ctx context.Context, q db.Querier, limit int) ([]Import, error) {
	return tidyList(ctx, q, `finished_ms IS NOT NULL AND status <> 'receiving' AND (EXISTS (SELECT 1
		FROM catalog_import_parts p WHERE p.import_id = catalog_imports.id AND p.kind = 'document' AND p.part = 0)
		OR status IN ('failed', 'cancelled') AND EXISTS (SELECT 1 FROM catalog_import_parts p
		WHERE p.import_id = catalog_imports.id))`, limit)
}
