package jobs

import (
	"errors"
	"slices"
	"sync"

	"sallyport/internal/platform/db"
)

// Doubts are claims that may be stored although the response to their commit was lost. No process knows of the jobs
// leased under them, if there are any. The zero Doubts is ready for use, by any number of goroutines.
type Doubts struct {
	mu     sync.Mutex
	claims []string
}

// Add records the claim when err, which its transaction has returned, leaves open whether the claim is stored.
func (d *Doubts) Add(claimID string, err error) {
	if !errors.Is(err, db.ErrCommitUnknown) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.claims = append(d.claims, claimID)
}

// Resolve calls release for each claim, which releases the jobs leased under it, and forgets the claim when that
// succeeds. A commit that takes effect even later is left to the end of its lease.
func (d *Doubts) Resolve(release func(claimID string) error) error {
	d.mu.Lock()
	claims := slices.Clone(d.claims)
	d.mu.Unlock()
	for _, claimID := range claims {
		if err := release(claimID); err != nil {
			return err
		}
		d.mu.Lock()
		d.claims = slices.DeleteFunc(d.claims, func(c string) bool { return c == claimID })
		d.mu.Unlock()
	}
	return nil
}
