package identity

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

// Passwords tried at many accounts from many addresses, which no count of failures slows down, are bounded by the work
// that they may make: one or two hashes at a time, a short queue, and unavailable for all others at once, whether or
// not there is such an account.
func TestSprayIsBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		var computing, most, refused, wrong atomic.Int64
		released := make(chan struct{})
		f.hasher.derive = func(passwordHash, []byte) []byte {
			now := computing.Add(1)
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
				// Another goroutine was quicker; look again.
			}
			<-released
			computing.Add(-1)
			return make([]byte, hashBytes-1) // no hash of any password
		}
		attempts := 3 * (concurrentHashes() + waitingHashes)
		var all sync.WaitGroup
		for n := range attempts {
			email := testEmail
			if n%2 == 0 {
				email = id.New("user-") + "@example.test"
			}
			all.Go(func() {
				_, err := f.Login(t.Context(), stranger(n), Credentials{Email: email, Password: secretbox.Secret("spring 2026!")},
					"")
				switch {
				case apperr.Is(err, apperr.CodeUnavailable), apperr.Is(err, apperr.CodeRateLimited):
					refused.Add(1)
				case apperr.Is(err, apperr.CodeUnauthorized):
					wrong.Add(1)
				default:
					t.Errorf("attempt %d: %v", n, err)
				}
			})
		}
		// Whoever is neither computing nor waiting has been refused, while nothing gets done.
		require.Eventually(t, func() bool {
			return int(computing.Load()) == concurrentHashes() &&
				int(refused.Load()) >= attempts-concurrentHashes()-waitingHashes
		}, time.Minute, time.Millisecond)
		close(released)
		all.Wait()
		require.EqualValues(t, concurrentHashes(), most.Load())
		require.EqualValues(t, attempts, refused.Load()+wrong.Load())
		require.LessOrEqual(t, wrong.Load(), int64(concurrentHashes()+waitingHashes))
	})
}
