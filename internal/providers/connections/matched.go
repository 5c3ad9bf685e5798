package connections

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// matchedPrecision is how exact a secret's last match is: the row is written at most this often.
const matchedPrecision = time.Minute

// matches remembers when webhooks verified under which secret, between two writes to the store.
type matches struct {
	bySecret sync.Map // secret id → *match
}

type match struct {
	// seen and stored are in milliseconds since 1970.
	seen, stored atomic.Int64
}

func (m *matches) note(secretID string, at time.Time) {
	v, ok := m.bySecret.Load(secretID)
	if !ok {
		v, _ = m.bySecret.LoadOrStore(secretID, &match{})
	}
	if entry, ok := v.(*match); ok {
		entry.seen.Store(clock.Millis(at))
	}
}

// due returns the secrets whose last match is to be stored, and when that was.
func (m *matches) due() map[string]int64 {
	out := map[string]int64{}
	m.bySecret.Range(func(key, value any) bool {
		secretID, _ := key.(string)
		if entry, ok := value.(*match); ok {
			if seen := entry.seen.Load(); seen-entry.stored.Load() >= matchedPrecision.Milliseconds() {
				out[secretID] = seen
			}
		}
		return true
	})
	return out
}

func (m *matches) stored(secretID string, at int64) {
	if v, ok := m.bySecret.Load(secretID); ok {
		if entry, ok := v.(*match); ok {
			entry.stored.Store(at)
		}
	}
}

// Matched notes that a webhook verified under a secret. It costs the caller no query; StoreMatches writes the notes.
func (s *Service) Matched(secretID string, at time.Time) {
	if id.Is(id.PrefixSecret, secretID) {
		s.matches.note(secretID, at)
	}
}

// StoreMatches writes when secrets last matched, each at most once a minute. A worker calls it. At most the last minute
// is lost when the process ends.
func (s *Service) StoreMatches(ctx context.Context) error {
	due := s.matches.due()
	if len(due) == 0 {
		return nil
	}
	gone := map[string]bool{}
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		clear(gone)
		// one order, so that processes do not wait for each other in a circle
		for _, secretID := range slices.Sorted(maps.Keys(due)) {
			at := due[secretID]
			changed, err := db.Changed(tx.ExecContext(ctx, `UPDATE connection_secrets SET last_matched_ms = $2
				WHERE id = $1 AND (last_matched_ms IS NULL OR last_matched_ms < $2)`, secretID, at))
			if err != nil {
				return fmt.Errorf("store a secret's last match: %w", err)
			}
			gone[secretID] = !changed
		}
		return nil
	})
	if err != nil {
		return err
	}
	for secretID, at := range due {
		if gone[secretID] {
			// Deleted, or written later by another process. A further match starts over.
			s.matches.bySecret.Delete(secretID)
			continue
		}
		s.matches.stored(secretID, at)
	}
	return nil
}
