package connections_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/probes"
)

// A tenant that guesses credentials through the gateway, by new connections and by changes of one, is stopped after 30
// requests to the provider. Meanwhile another tenant connects to the same provider, and the stored credentials of both
// are tested.
func TestGuessesAreStopped(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s).withAPI(t), newProvider(t)
		w.create(t, w.a, acmeConnection("stored", p.URL, bearer("good-token")))
		guess := func(i int) error {
			token := bearer(fmt.Sprintf("guess-%d", i))
			if i%2 == 0 {
				_, _, err := w.svc.Create(t.Context(), w.a, acmeConnection("guess", p.URL, token))
				return err
			}
			_, err := w.svc.Update(t.Context(), w.a, "acme", "stored", connections.Change{
				Credentials: patch.To(connections.Credentials{Values: token})})
			return err
		}
		var err error
		for i := range 200 {
			if err = guess(i); apperr.Is(err, apperr.CodeRateLimited) {
				break
			}
			requireCode(t, apperr.CodeInvalidCredentials, err)
		}
		var refused *apperr.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, apperr.CodeRateLimited, refused.Code)
		require.Equal(t, 2*time.Second, refused.RetryAfter)
		require.Equal(t, 30, p.requests(), "also the test of the right ones counts")
		for i := range 100 {
			requireCode(t, apperr.CodeRateLimited, guess(i))
		}
		require.Equal(t, 30, p.requests())

		w.create(t, w.b, acmeConnection("theirs", p.URL, bearer("good-token")))
		w.clock.Advance(time.Minute / 6) // so that the stored ones are tested, and not shown again
		for who, name := range map[*access.Principal]string{&w.a: "stored", &w.b: "theirs"} {
			tested, err := connections.NewTester(w.svc).Test(t.Context(), *who, "acme", name)
			require.NoError(t, err)
			require.False(t, tested.Cached)
			require.Equal(t, probes.Healthy, tested.Connection.Health.Status)
		}
		untested := acmeConnection("untested", p.URL, bearer("good-token"))
		untested.Untested = true
		w.create(t, w.a, untested)
		for i := range 5 { // ten seconds are worth five tests
			requireCode(t, apperr.CodeInvalidCredentials, guess(i))
		}
		requireCode(t, apperr.CodeRateLimited, guess(0))
	})
}
