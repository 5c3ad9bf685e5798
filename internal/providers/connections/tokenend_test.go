package connections_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/tokens"
)

// A connection whose token has expired shows that it fails, with an event, also while the endpoint is to be left alone:
// after a failure shortly before the end, and for as long as the endpoint has asked for. It gets no request meanwhile.
func TestStatusAtTheEndOfAToken(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]string{"back-off": "", "Retry-After": "3600"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Each(t, func(t *testing.T, s testkit.Store) {
				w := newWorld(t, s)
				changed := w.record()
				w, _ = w.withTokens(t)
				p := newRotor(t)
				w.rotating(t, p)
				p.set(func() { p.down, p.retryAfter = true, wait })
				service := connections.TokensModule(w.svc).Services[1]
				require.NoError(t, service.Start(t.Context()))
				until := func(what string, condition func() bool) {
					t.Helper()
					await.Condition(t, what, func() bool {
						if condition() {
							return true
						}
						w.clock.Advance(500 * time.Millisecond)
						return false
					})
				}
				end := w.clock.Now().Add(time.Minute)
				w.clock.Advance(40 * time.Second)
				await.Condition(t, "the first exchange", func() bool {
					if p.exchanges() == 0 { // the token must not expire before its outcome
						w.clock.Advance(200 * time.Millisecond)
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						defer cancel()
						_ = w.clock.AwaitTimers(ctx, 1, 2*time.Second)
					}
					return w.read(t, "oauth2").Credentials.RefreshFailures == 1
				})
				failed := w.read(t, "oauth2")
				require.Equal(t, connections.Active, failed.Status)
				require.NotEmpty(t, failed.Credentials.RefreshError)
				until("the status", func() bool { return w.read(t, "oauth2").Status == connections.Error })
				require.Equal(t, tokens.ReasonEndpointFailing, w.read(t, "oauth2").StatusReason)
				require.False(t, w.clock.Now().Before(end))
				require.Equal(t, []string{failed.UUID}, changed(connections.Fails))
				if wait != "" {
					require.Equal(t, 1, p.exchanges())
					w.clock.Advance(59 * time.Minute)
				}
				lines := w.log.lines("the tokens of a connection were not renewed")
				require.Len(t, lines, 1, "the beginning of the failures")
				require.Contains(t, lines[0], failed.UUID)
				p.set(func() { p.down = false })
				until("the recovery", func() bool { return w.read(t, "oauth2").Status == connections.Active })
				require.Empty(t, w.read(t, "oauth2").Credentials.RefreshError)
				require.NoError(t, service.Drain(t.Context()))
				require.NoError(t, service.Stop(t.Context()))
			})
		})
	}
}
