package signin_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/signin"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit/await"
)

// Password spraying over many accounts from many addresses evades every count of failures. Its work is bounded: one or
// two hashes at a time and a short queue. All others are refused as unavailable immediately, whether or not there is
// such an account.
func TestSprayIsBounded(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		var computing, most, refused, wrong atomic.Int64
		released := make(chan struct{})
		f.SignIn.HashBy(func([]byte, []byte, uint32, uint32, uint8, uint32) []byte {
			now := computing.Add(1)
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
				// Another goroutine was quicker; look again.
			}
			<-released
			computing.Add(-1)
			return []byte("no hash of any password")
		})
		attempts := 3 * (signin.ConcurrentHashes() + signin.WaitingHashes)
		var all sync.WaitGroup
		for n := range attempts {
			email := identitytest.Email
			if n%2 == 0 {
				email = id.New("user-") + "@example.test"
			}
			all.Go(func() {
				_, err := f.SignIn.Login(t.Context(), identitytest.Stranger(n), signin.Credentials{Email: email,
					Password: secretbox.Secret("spring 2026!")}, "")
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
		// Every attempt that is neither computing nor waiting has been refused, while none finishes.
		await.Condition(t, "all attempts to compute, to wait or to be refused", func() bool {
			return int(computing.Load()) == signin.ConcurrentHashes() &&
				int(refused.Load()) >= attempts-signin.ConcurrentHashes()-signin.WaitingHashes
		})
		close(released)
		all.Wait()
		require.EqualValues(t, signin.ConcurrentHashes(), most.Load())
		require.EqualValues(t, attempts, refused.Load()+wrong.Load())
		require.LessOrEqual(t, wrong.Load(), int64(signin.ConcurrentHashes()+signin.WaitingHashes))
	})
}
