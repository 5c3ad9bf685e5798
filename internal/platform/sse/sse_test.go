package sse_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/sse"
	"sallyport/internal/platform/testkit/await"
)

const limit = 1 << 16

// all reads a stream to its end.
func all(t require.TestingT, text string) (list []sse.Message, r *sse.Reader) {
	r = sse.NewReader(strings.NewReader(text), limit)
	for {
		m, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list, r
		}
		require.NoError(t, err)
		list = append(list, m)
	}
}

// The examples and rules of the HTML standard, section 9.2.6.
func TestReaderFollowsTheStandard(t *testing.T) {
	t.Parallel()
	m := func(id, event, data string) sse.Message { return sse.Message{ID: id, Event: event, Data: []byte(data)} }
	for text, want := range map[string][]sse.Message{
		"data: YHOO\ndata: +2\ndata: 10\n\n": {m("", "message", "YHOO\n+2\n10")},
		": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n": {m("1", "message",
			"first event"), m("", "message", "second event"), m("", "message", " third event")},
		"data\n\ndata:\ndata\n\ndata:":            {m("", "message", ""), m("", "message", "\n")},
		"data:test\n\ndata: test\n\n":             {m("", "message", "test"), m("", "message", "test")},
		"event: a\nid: 5\ndata: x\n\ndata: y\n\n": {m("5", "a", "x"), m("5", "message", "y")},
		"event: a\n\ndata: y\n\n":                 {m("", "message", "y")},
		"id: a\x00b\ndata: x\n\n":                 {m("", "message", "x")},
		"\uFEFFdata: x\n\n":                       {m("", "message", "x")},
		"data: x\r\rdata: y\r\n\r\ndata: z\n\r\n": {m("", "message", "x"), m("", "message", "y"), m("", "message", "z")},
		"data: never ended\n":                     nil,
		"unknown: x\ndata: x\n\n":                 {m("", "message", "x")},
	} {
		list, _ := all(t, text)
		require.Len(t, list, len(want), "%q", text)
		for i := range want {
			require.Equal(t, want[i].ID, list[i].ID, "%q", text)
			require.Equal(t, want[i].Event, list[i].Event, "%q", text)
			require.Equal(t, string(want[i].Data), string(list[i].Data), "%q", text)
		}
	}
}

// An id without data is remembered and dispatches nothing, so a server can move a quiet client on; the time to wait is
// taken only where it is a number.
func TestReaderRemembers(t *testing.T) {
	t.Parallel()
	list, r := all(t, "retry: 3000\n\nid: 7\n\nretry: +5\n\nretry: soon\n\nid: 8\n")
	require.Empty(t, list)
	require.Equal(t, "7", r.LastID())
	require.Equal(t, 3*time.Second, r.Retry())
}

// A caller that waits for a stream's position can read it block by block.
func TestBlocks(t *testing.T) {
	t.Parallel()
	r := sse.NewReader(strings.NewReader("retry: 1\n\nid: 7\n\nid: 8\ndata: x\n\n"), limit)
	for _, want := range []struct {
		id      string
		isEvent bool
	}{{"", false}, {"7", false}, {"8", true}} {
		m, isEvent, err := r.NextBlock()
		require.NoError(t, err)
		require.Equal(t, want.isEvent, isEvent)
		require.Equal(t, want.id, r.LastID())
		require.Equal(t, want.isEvent, string(m.Data) == "x")
	}
	_, _, err := r.NextBlock()
	require.ErrorIs(t, err, io.EOF)
}

// A peer's endless data fills no memory.
func TestReaderIsBounded(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("x", limit+1), strings.Repeat("data: "+strings.Repeat("x", 100)+"\n",
		limit/100+1)} {
		_, err := sse.NewReader(strings.NewReader(text), limit).Next()
		require.ErrorIs(t, err, sse.ErrTooLong)
	}
	broken := errors.New("broken")
	_, err := sse.NewReader(io.MultiReader(strings.NewReader("data: x\n"), failing{broken}), limit).Next()
	require.ErrorIs(t, err, broken)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A reader gets the written text, with any lines. A browser cannot distinguish CR, LF and CR LF, so each comes back as
// LF.
func TestWrittenIsRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		field := rapid.StringMatching(`[a-z:. ]{1,8}`)
		var text []byte
		var want []sse.Message
		for range rapid.IntRange(1, 4).Draw(rt, "messages") {
			m := sse.Message{ID: field.Draw(rt, "id"), Event: field.Draw(rt, "event"),
				Data: []byte(rapid.StringMatching(`[a: \r\n]{1,12}`).Draw(rt, "data"))}
			var err error
			text, err = m.Append(sse.AppendComment(text, "a\r\ncomment"))
			require.NoError(rt, err)
			m.Data = bytes.ReplaceAll(bytes.ReplaceAll(m.Data, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
			want = append(want, m)
		}
		list, _ := all(rt, string(text))
		require.Equal(rt, want, list)
	})
}

// A value that the format cannot carry is refused: it would end the field and begin another.
func TestRefusedMessages(t *testing.T) {
	t.Parallel()
	for _, m := range []sse.Message{
		{ID: "a\nb", Data: []byte("x")}, {ID: "a\rb", Data: []byte("x")}, {ID: "a\x00", Data: []byte("x")},
		{Event: "a\nb", Data: []byte("x")}, {Event: "a\rdata: y", Data: []byte("x")}, {}, {Event: "a"}, {ID: "1", Event: "a"},
	} {
		b, err := m.Append(nil)
		require.Error(t, err)
		require.Empty(t, b)
	}
}

// A stream has the headers that keep it from being buffered or stored, and every write is flushed. It outlives the
// server's write timeout; a client that does not read ends it.
func TestWriter(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := sse.NewWriter(w, 100*time.Millisecond)
		err := s.Open(3 * time.Second)
		for block := append(bytes.Repeat([]byte("data: x\n"), 1<<14), '\n'); err == nil; {
			err = s.Write(block)
		}
		ended <- err
	}))
	server.Config.WriteTimeout = time.Nanosecond
	server.Start()
	await.Close(t, server)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	require.NoError(t, err)
	resp, err := server.Client().Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	require.Equal(t, "no", resp.Header.Get("X-Accel-Buffering"))
	preamble := make([]byte, len("retry: 3000\n\n"))
	_, err = io.ReadFull(resp.Body, preamble)
	require.NoError(t, err)
	require.Equal(t, "retry: 3000\n\n", string(preamble))
	require.ErrorIs(t, <-ended, os.ErrDeadlineExceeded)
}

// A stream outlives the server's read timeout, too: net/http treats a passed deadline as a client that left.
func TestWriterReadsWithoutEnd(t *testing.T) {
	t.Parallel()
	w := &deadlines{ResponseRecorder: httptest.NewRecorder(), read: time.UnixMilli(1)}
	s := sse.NewWriter(w, time.Second)
	require.NoError(t, s.Open(time.Second))
	require.True(t, w.read.IsZero())
	before := w.write
	require.NoError(t, s.Write([]byte("data: x\n\n")))
	require.False(t, w.write.Before(before), "each write has its own time")
	require.True(t, w.Flushed)
}

type deadlines struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

// Any input of a peer is read to its end or refused.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{"data: x\n\n", "id\r\ndata\r\r", "\uFEFF:\n\n", "retry: 99999999999\n\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := sse.NewReader(bytes.NewReader(stream), 64)
		for {
			m, err := r.Next()
			if err != nil {
				require.True(t, errors.Is(err, io.EOF) || errors.Is(err, sse.ErrTooLong))
				return
			}
			require.NotEmpty(t, m.Event)
			require.NotContains(t, m.ID, "\n")
		}
	})
}
