package readers

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/testkit/await"
)

// streams is a server whose streams a test writes.
type streams struct {
	*httptest.Server
	opened atomic.Int64
	mu     sync.Mutex
	asked  []http.Header
	write  func(n int64, w http.ResponseWriter, r *http.Request)
}

func newStreams(t *testing.T, write func(n int64, w http.ResponseWriter, r *http.Request)) *streams {
	t.Helper()
	s := &streams{write: write}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.Header.Clone())
		s.mu.Unlock()
		s.write(s.opened.Add(1), w, r)
	}))
	await.Close(t, s.Server)
	return s
}

func (s *streams) plan(count int) Plan {
	return Plan{Addr: s.Listener.Addr().String(), Path: "/stream", Key: "k", Count: count, AuditEvery: 2}
}

func message(id, event, data string) string {
	return fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", id, event, data)
}

func received(uuid string) string {
	return message(uuid, "webhook_event.received", `{"event_uuid":"`+uuid+
		`","received_at":"2026-03-04T05:06:07.890Z","event: ":1}`)
}

// Messages are counted by type over all readers, in any fragmentation. Followed readers notice duplicates.
func TestCounts(t *testing.T) {
	t.Parallel()
	s := newStreams(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		text := "retry: 3000\n\nid: start\n\n" + received("a") + ": heartbeat\nid: b\n\n" + received("b") + received("a") +
			message("c", "webhook_attempt.completed", `{"event_uuid":"a","id":"try"}`) + message("d", "webhook_event.updated",
			`{}`) +
			message("e", "stream.gap", `{}`)
		for len(text) > 0 {
			n := min(len(text), 7)
			_, _ = w.Write([]byte(text[:n]))
			_ = http.NewResponseController(w).Flush()
			text = text[n:]
		}
		<-r.Context().Done()
	})
	clk := clock.NewManual(time.Date(2026, 3, 4, 5, 6, 8, 890_000_000, time.UTC))
	r, err := Open(t.Context(), clk, s.plan(3))
	require.NoError(t, err)
	await.Condition(t, "three messages at each reader", func() bool { return r.Least() == 3 })
	out := r.Close()
	require.Equal(t, int64(9), out.Received)
	require.Equal(t, int64(3), out.Least)
	require.Equal(t, int64(2), out.DuplicateEvents, "two of three are followed")
	require.ElementsMatch(t, []int64{2, 2, 3}, out.Events)
	require.Equal(t, 6, out.Delay.Count)
	require.Equal(t, time.Second, out.Delay.Max)
}

// A reader that is let go comes back with its last id after as long as it was asked to wait, and that it lagged is
// counted.
func TestComesBack(t *testing.T) {
	t.Parallel()
	s := newStreams(t, func(n int64, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			_, _ = w.Write([]byte("retry: 3000\n\n" + received("a") + message("last", "stream.lagged", "{}")))
			return
		}
		_, _ = w.Write([]byte("retry: 3000\n\n" + received("b")))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	clk := clock.NewManual(time.Unix(1_800_000_000, 0))
	r, err := Open(t.Context(), clk, s.plan(1))
	require.NoError(t, err)
	await.Condition(t, "the reader's return", func() bool {
		clk.Advance(comeBack)
		return r.Least() == 2
	})
	out := r.Close()
	require.Equal(t, int64(1), out.Lagged)
	require.Equal(t, int64(1), out.Reconnects)
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Equal(t, "k", s.asked[0].Get("API-Key"))
	require.Empty(t, s.asked[0].Get("Last-Event-ID"))
	require.Equal(t, "last", s.asked[1].Get("Last-Event-ID"))
}

// A run does not begin while a stream is refused, and never leaves the machine.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := newStreams(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	_, err := Open(t.Context(), clock.System(), s.plan(2))
	require.ErrorIs(t, err, errRefused)
	_, err = Open(t.Context(), clock.System(), Plan{Addr: "192.0.2.1:80", Count: 1, AuditEvery: 1})
	require.ErrorIs(t, err, ErrNotLoopback)
}

// A message without end ends its reader, not the bench's memory.
func TestEndlessMessage(t *testing.T) {
	t.Parallel()
	s := newStreams(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("retry: 3000\n\ndata: "))
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte(strings.Repeat("x", 1<<16))); err != nil {
				return
			}
		}
	})
	r, err := Open(t.Context(), clock.NewManual(time.Unix(0, 0)), s.plan(1))
	require.NoError(t, err)
	await.Condition(t, "the end of the reader", func() bool { return r.problem.Load() != nil })
	require.Contains(t, r.Close().FirstProblem, "too long")
}
