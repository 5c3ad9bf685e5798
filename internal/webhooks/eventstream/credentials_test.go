package eventstream

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
)

// guarded is a credential that a test can end.
type guarded struct {
	err    atomic.Pointer[error]
	checks atomic.Int64
}

func (g *guarded) set(err error) { g.err.Store(&err) }

func (g *guarded) check(context.Context) error {
	g.checks.Add(1)
	if err := g.err.Load(); err != nil {
		return *err
	}
	return nil
}

// A credential that has ended closes every stream that it opened within five seconds, and no other. However many
// streams it opened, it is checked once.
func TestCredentialEnds(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, clk *clock.Manual) {
		n := w.start()
		for _, reason := range []error{unauthorized(), apperr.New(apperr.CodeGrantDenied, "no"),
			apperr.New(apperr.CodeForbidden, "no"), apperr.NotFound("environment")} {
			g := &guarded{}
			request := Request{View: access.Whole(w.env), Credential: "key", Check: g.check}
			first, second, other := w.connect(n, newClient(), request), w.connect(n, newClient(), request), w.open(n)
			first.until("the streams to begin", func() bool { return first.begun() && second.begun() })
			before, begin := g.checks.Load(), clk.Now()
			first.until("some checks", func() bool { return g.checks.Load() >= before+3 })
			require.GreaterOrEqual(w.t, clk.Now().Sub(begin), 2*recheckInterval)
			g.set(reason)
			ended := clk.Now()
			event, closing := first.over()
			require.Equal(w.t, StreamClosed, event)
			require.Equal(w.t, ReasonCredential, closing.Reason)
			require.False(w.t, closing.Reconnect)
			second.over()
			require.LessOrEqual(w.t, clk.Now().Sub(ended), 5*time.Second)
			w.one()
			other.until("an event", func() bool { return len(other.uuids(w.t)) > 0 })
			other.quit()
		}
	})
}

// While a credential cannot be checked, its streams continue for half a minute, and no longer.
func TestCredentialCannotBeChecked(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, clk *clock.Manual) {
		n, g := w.start(), &guarded{}
		s := w.connect(n, newClient(), Request{View: access.Whole(w.env), Credential: "key", Check: g.check})
		s.until("the stream to begin", s.begun)
		g.set(errors.New("the store is down"))
		before := g.checks.Load()
		s.until("some checks", func() bool { return g.checks.Load() >= before+3 })
		require.Empty(w.t, s.messages())
		g.set(nil)
		s.until("some checks", func() bool { return g.checks.Load() >= before+6 })
		begin := clk.Now()
		g.set(apperr.Unavailable(errors.New("the store is down")))
		event, closing := s.over()
		require.Equal(w.t, StreamClosed, event)
		require.Equal(w.t, ReasonUnverified, closing.Reason)
		require.True(w.t, closing.Reconnect)
		require.GreaterOrEqual(w.t, clk.Now().Sub(begin), trust-2*recheckInterval)
	})
}
