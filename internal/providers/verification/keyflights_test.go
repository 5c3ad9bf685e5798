package verification_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/verification"
)

// certificates is a server of certificates that hangs for some of them.
type certificates struct {
	body   []byte
	begun  chan string
	finish chan struct{}
}

func (c *certificates) FetchKeys(_ context.Context, r verification.KeyRequest) ([]byte, error) {
	if strings.Contains(r.URL, "hangs") {
		c.begun <- r.URL
		<-c.finish
	}
	return c.body, nil
}

func proves(t *testing.T, v *verification.Verifier, r *verification.Request) {
	t.Helper()
	_, refusal := v.Verify(t.Context(), r)
	require.Nil(t, refusal)
}

// Webhooks that name unknown keys to one connection, whose server hangs or which do not exist, use that connection's
// share of the fetches: keys of the same source are fetched for other connections, also of the same environment, at the
// same time; and an environment with any number of such connections leaves room for others.
func TestKeyFetchesHaveShares(t *testing.T) {
	t.Parallel()
	at := now()
	server := &certificates{body: certificate(t, at.Add(-time.Hour), at.Add(time.Hour)), begun: make(chan string, 1000),
		finish: make(chan struct{})}
	ring := verification.NewKeyring(server)
	d, account := accounted(certified("none"))
	engine, err := verification.Compile(d)
	require.NoError(t, err)
	of := func(environment, connection string) *verification.Verifier {
		v, err := engine.Bind(verification.Settings{Params: account, Keyring: ring,
			KeyOwner: verification.KeyOwner{Environment: environment, Connection: connection}})
		require.NoError(t, err)
		return v
	}
	names := 0
	unknown := func(form string) *verification.Request {
		names++
		return notification(t, "m", fmt.Sprintf("https://sns.eu-west-1.amazonaws.com/"+form+".pem", names))
	}
	var hanging sync.WaitGroup
	// hang sends webhooks that name certificates whose fetches hang, and returns how many are in progress.
	hang := func(v *verification.Verifier, n int) int {
		var refused sync.WaitGroup
		results := make(chan *verification.Refusal, n)
		for range n {
			r := unknown("hangs-%d")
			hanging.Add(1)
			refused.Go(func() {
				defer hanging.Done()
				_, refusal := v.Verify(t.Context(), r)
				results <- refusal
			})
		}
		begun := 0
		await.Condition(t, "each fetch to begin or to be refused", func() bool {
			for len(server.begun) > 0 {
				<-server.begun
				begun++
			}
			return begun+len(results) == n
		})
		for range n - begun {
			require.Equal(t, verification.ReasonKeysUnavailable, (<-results).Reason)
		}
		return begun
	}
	attacked := of("a", "attacked")
	require.Equal(t, 2, hang(attacked, 30))
	requireRefused(t, attacked, unknown("good-%d"), verification.ReasonKeysUnavailable)
	known := unknown("good-%d")
	proves(t, of("a", "neighbour"), known)
	proves(t, attacked, known) // which is known by now

	progress := 2
	for i := range 100 {
		progress += hang(of("a", fmt.Sprint("mine ", i)), 1)
	}
	require.Equal(t, 32, progress, "an environment alone has half of the fetches")
	requireRefused(t, of("a", "neighbour"), unknown("good-%d"), verification.ReasonKeysUnavailable)
	for i := range 20 {
		proves(t, of("b", fmt.Sprint(i)), unknown("good-%d"))
	}

	close(server.finish)
	hanging.Wait()
	proves(t, attacked, unknown("good-%d"))
	// A connection has ten fetches a minute, of which this one has used three and the refused ones none.
	for range 7 {
		proves(t, attacked, unknown("good-%d"))
	}
	requireRefused(t, attacked, unknown("good-%d"), verification.ReasonKeysUnavailable)
	proves(t, of("a", "neighbour"), unknown("good-%d"))
}

// A source of all keys is asked again for a key that is not known, once a minute for each connection: strangers who
// name keys to one connection do not keep a new key from the webhooks of another, nor make the source be asked all the
// time.
func TestUnknownKeysOfOthers(t *testing.T) {
	t.Parallel()
	p := &provider{response: jwks(t, "k1")}
	ring := verification.NewKeyring(p)
	d, account := accounted(pubsub())
	engine, err := verification.Compile(d)
	require.NoError(t, err)
	of := func(connection string) *verification.Verifier {
		v, err := engine.Bind(verification.Settings{Params: account, Keyring: ring,
			KeyOwner: verification.KeyOwner{Connection: connection}})
		require.NoError(t, err)
		return v
	}
	attacked, other := of("attacked"), of("other")
	requireProved(t, attacked, bearer(t, "k1", 0), "jwt", "k1")
	p.set(jwks(t, "k1", "k2"))
	requireRefused(t, attacked, bearer(t, "absent", 20*time.Second), verification.ReasonSignatureMismatch)
	require.Equal(t, int64(1), p.calls.Load())
	requireRefused(t, other, bearer(t, "k2", 9*time.Second), verification.ReasonSignatureMismatch)
	require.Equal(t, int64(1), p.calls.Load(), "it is asked once in ten seconds at most")
	requireProved(t, other, bearer(t, "k2", 20*time.Second), "jwt", "k2")
	require.Equal(t, int64(2), p.calls.Load())
}
