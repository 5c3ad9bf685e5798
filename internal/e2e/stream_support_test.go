package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/sse"
	"sallyport/internal/platform/testkit/await"
)

const streamPath = "/webhook-events/stream"

// stream is an open stream of events and its messages so far.
type stream struct {
	w     *world
	leave context.CancelFunc
	ended chan struct{}

	mu    sync.Mutex
	begun bool
	last  string
	list  []sse.Message
}

// stream opens a stream and reads it in the background; it waits until the stream has begun.
func (w *world) stream(c credentials, query string) *stream {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background()) // the server stops before the test's context ends
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+prefix+streamPath+query, http.NoBody)
	require.NoError(w.t, err)
	c(r.Header)
	client := *w.http
	client.Timeout = 0
	resp, err := client.Do(r) //nolint:bodyclose // read closes it
	require.NoError(w.t, err)
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(resp.Body)
		require.NoError(w.t, err)
		require.FailNow(w.t, "the stream was refused", "%d %s", resp.StatusCode, body)
	}
	require.Equal(w.t, sse.ContentType, resp.Header.Get("Content-Type"))
	require.Equal(w.t, "no-store", resp.Header.Get("Cache-Control"))
	require.Equal(w.t, "no", resp.Header.Get("X-Accel-Buffering"))
	s := &stream{w: w, leave: cancel, ended: make(chan struct{})}
	w.t.Cleanup(cancel)
	go s.read(resp.Body)
	w.ticking("the stream to begin", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.begun
	})
	return s
}

// read takes messages until the stream ends. The first block asks to wait three seconds, the second says where it
// begins.
func (s *stream) read(body io.ReadCloser) {
	defer close(s.ended)
	defer func() { _ = body.Close() }() // read to its end, or broken off
	blocks := bufio.NewReader(body)
	asked, err := firstBlock(blocks)
	if err != nil || string(asked) != "retry: 3000\n\n" {
		return
	}
	here, err := firstBlock(blocks)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.begun = true
	s.last = strings.TrimSuffix(strings.TrimPrefix(string(here), "id: "), "\n\n")
	s.mu.Unlock()
	r := sse.NewReader(io.MultiReader(bytes.NewReader(here), blocks), 1<<20)
	for {
		m, err := r.Next()
		s.mu.Lock()
		s.last = r.LastID()
		if err != nil {
			s.mu.Unlock()
			return
		}
		s.list = append(s.list, m)
		s.mu.Unlock()
	}
}

// messages returns the messages so far. Each is checked against the published document.
func (s *stream) messages() []sse.Message {
	s.w.t.Helper()
	s.mu.Lock()
	list := slices.Clone(s.list)
	s.mu.Unlock()
	schema := published().schema(s.w.t, "paths", streamPath, "get", "responses", "200", "content", sse.ContentType,
		"schema")
	for _, m := range list {
		data, err := jsonschema.UnmarshalJSON(bytes.NewReader(m.Data))
		require.NoError(s.w.t, err)
		require.NoError(s.w.t, schema.Validate([]any{map[string]any{"id": m.ID, "event": m.Event, "data": data}}), "%s %s",
			m.Event, m.Data)
	}
	return list
}

// of returns the data of the messages of a type.
func (s *stream) of(event string) (list []object) {
	s.w.t.Helper()
	for _, m := range s.messages() {
		if m.Event == event {
			var o object
			require.NoError(s.w.t, json.Unmarshal(m.Data, &o))
			list = append(list, o)
		}
	}
	return list
}

// received returns the events that were reported as received.
func (s *stream) received() []string {
	s.w.t.Helper()
	list := []string{}
	for _, o := range s.of("webhook_event.received") {
		list = append(list, text(o["event_uuid"]))
	}
	return list
}

// waits until the stream has reported n received events.
func (s *stream) waits(n int) []string {
	s.w.t.Helper()
	s.w.ticking(strconv.Itoa(n)+" events", func() bool { return len(s.received()) >= n })
	return s.received()
}

// ends waits until the stream ends and returns the reported reason. Before the clock goes on, the loops of the server
// whose time has come run and wait again, so that the clock shows how long the end took on a slow machine too. A timer
// that does not come back holds it up for a moment only.
func (s *stream) ends() (event, reason string) {
	s.w.t.Helper()
	timers := s.w.clk.Timers()
	s.w.ticking("the stream to end", func() bool {
		ctx, cancel := context.WithTimeout(s.w.t.Context(), 200*time.Millisecond)
		defer cancel()
		_ = s.w.clk.AwaitTimers(ctx, timers, 24*time.Hour)
		timers = s.w.clk.Timers()
		select {
		case <-s.ended:
			return true
		default:
			return false
		}
	})
	list := s.messages()
	require.NotEmpty(s.w.t, list)
	last := list[len(list)-1]
	var o object
	require.NoError(s.w.t, json.Unmarshal(last.Data, &o))
	return last.Event, text(o["reason"])
}

func (s *stream) lastID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// quit has the reader leave.
func (s *stream) quit() {
	s.leave()
	await.Value(s.w.t, "the end of the stream", s.ended)
}

// node starts another server on the world's PostgreSQL database and in its folder, at the same time.
func (w *world) node() *world {
	w.t.Helper()
	n := newWorld(w.t, w.databaseURL, w.dir)
	n.cfg, n.clk, n.ahead, n.logs, n.shared = w.cfg, w.clk, w.ahead, w.logs, w.shared
	n.start()
	return n
}
