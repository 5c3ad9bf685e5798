package deliveries

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"sallyport/internal/platform/db"
)

// doubts are claims of this process whose commit may have gone through although its answer was lost. Nobody holds the
// deliveries leased under them, if there are any.
type doubts struct {
	mu     sync.Mutex
	claims []string
}

func (d *doubts) add(claim string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.claims = append(d.claims, claim)
}

func (d *doubts) remove(claim string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.claims = slices.DeleteFunc(d.claims, func(c string) bool { return c == claim })
}

func (d *doubts) list() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.claims)
}

// NotHeld says that the transaction which was to commit deliveries leased under the claim failed with err, and that
// nothing leased under it will be handed off. Where err leaves open whether it was stored, its deliveries are given
// back as soon as the store can tell, instead of when their lease ends.
func (s *Service) NotHeld(claim string, err error) {
	if errors.Is(err, db.ErrCommitUnknown) {
		s.doubts.add(claim)
	}
}

// resolveDoubts gives back what turns out to be stored. A commit that is carried out even later is left to the end of
// its lease.
func (s *Service) resolveDoubts(ctx context.Context) {
	for _, claim := range s.doubts.list() {
		if err := s.store.giveBack(ctx, claim, s.clock.Now()); err != nil {
			s.log.ErrorContext(ctx, "leases of a commit in doubt could not be given back", slog.String("error", err.Error()))
			return
		}
		s.doubts.remove(claim)
	}
}
