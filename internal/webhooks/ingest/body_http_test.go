package ingest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
)

// pipeListener accepts connections that exist in memory, on which deadlines follow the bubble's clock.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	close(l.done)
	return nil
}

func (*pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// serve serves on connections in memory, within the bubble of t, and returns the function that makes one.
func serve(t *testing.T, handler http.HandlerFunc) (dial func() net.Conn) {
	t.Helper()
	l := &pipeListener{make(chan net.Conn), make(chan struct{})}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		<-time.After(time.Second) // in which the server lets its last response reach the sender
	})
	return func() net.Conn {
		client, server := net.Pipe()
		l.conns <- server
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		return client
	}
}

// reading is a handler that reads the body, calls a function, and responds with the status and the number of bytes.
func reading(b *bodyReader, then func(ctx context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, memory, err := b.read(&Request{HTTP: r, Deadlines: http.NewResponseController(w)}, largest)
		defer memory.release()
		if err == nil {
			err = then(r.Context())
		}
		var e *apperr.Error
		switch {
		case err == nil:
			_, _ = fmt.Fprintf(w, "%x", len(body))
		case errors.As(err, &e):
			w.WriteHeader(e.HTTPStatus())
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
}

func nothing(context.Context) error { return nil }

// Over a real connection, a body is dropped when its first 256 KiB do not arrive within ten seconds, for any announced
// length, or the rest within a minute after them. The sender gets a response, and memory and disk are free again.
func TestSlowSenders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header string
		sent   int
		after  time.Duration
	}{
		"small, nothing":           {"Content-Length: 1024", 0, 10 * time.Second},
		"small, begun":             {"Content-Length: 1024", 1000, 10 * time.Second},
		"charged, begun":           {"Content-Length: 262144", 100_000, 10 * time.Second},
		"large, nothing":           {"Content-Length: 262145", 0, 10 * time.Second},
		"large, on the disk":       {"Content-Length: 1048576", 500_000, time.Minute},
		"of unknown size, begun":   {"Transfer-Encoding: chunked", 5000, 10 * time.Second},
		"of unknown size, nothing": {"Transfer-Encoding: chunked", 0, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newTestReader(t)
				start := time.Now()
				conn := serve(t, reading(b, nothing))()
				_, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", c.header)
				require.NoError(t, err)
				if c.sent > 0 && c.header == "Transfer-Encoding: chunked" {
					_, err = fmt.Fprintf(conn, "%x\r\n", 2*c.sent)
					require.NoError(t, err)
				}
				_, err = conn.Write(content(c.sent))
				require.NoError(t, err)
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, http.StatusRequestTimeout, resp.StatusCode)
				require.Equal(t, c.after, time.Since(start))
				unused(t, b.memory, memorySize)
				unused(t, b.disk, diskSize)
				gone(t, b.dir)
			})
		})
	}
}

// A request whose body came in time is not cancelled while its event waits to be committed, however long that takes,
// and the connection serves the next one.
func TestDeadlineEndsWithTheBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slowCommit := func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(5 * time.Minute):
				return nil
			}
		}
		conn := serve(t, reading(newTestReader(t), slowCommit))()
		answers := bufio.NewReader(conn)
		for range 2 {
			_, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1024\r\n\r\n%s", content(1024))
			require.NoError(t, err)
			resp, err := http.ReadResponse(answers, nil)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Equal(t, "400", string(body), "0x400 bytes came")
		}
	})
}

func BenchmarkReadBody(b *testing.B) {
	for name, size := range map[string]int{"1KiB": 1 << 10, "100KiB": 100 << 10, "1MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			reader := newBodyReader(memorySize, diskSize, largest, b.TempDir())
			all := content(size)
			sender := bytes.NewReader(all)
			r := arriving(1, int64(size), sender)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				sender.Reset(all)
				_, memory, err := reader.read(r, largest)
				if err != nil {
					b.Fatal(err)
				}
				memory.release()
			}
		})
	}
}
