package egress

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// However an exchange ends, nothing of it remains: a bubble fails when one of its goroutines is still blocked after the
// test. Time in it is not real, so deadlines pass immediately.
func TestExchangesLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	flow := func(w http.ResponseWriter, r *http.Request) { // sends until the client goes away
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, "data: x\n\n"); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
		}
	}
	finish := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "3")
		_, _ = io.WriteString(w, "end")
		_ = http.NewResponseController(w).Flush()
	}
	silent := func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	for name, tt := range map[string]struct {
		serve  http.HandlerFunc
		bounds Bounds
		use    func(t *testing.T, cancel context.CancelFunc, body io.ReadCloser)
	}{
		"read to the end": {finish, Bounds{},
			func(t *testing.T, _ context.CancelFunc, body io.ReadCloser) {
				_, err := io.ReadAll(body)
				require.NoError(t, err) // and not closed
			}},
		"closed unread": {flow, Bounds{}, func(t *testing.T, _ context.CancelFunc, body io.ReadCloser) {
			require.NoError(t, body.Close())
		}},
		"closed half-read": {flow, Bounds{IdleTimeout: time.Minute},
			func(t *testing.T, _ context.CancelFunc, body io.ReadCloser) {
				_, err := body.Read(make([]byte, 5))
				require.NoError(t, err)
				require.NoError(t, body.Close())
			}},
		"cancelled": {silent, Bounds{}, func(_ *testing.T, cancel context.CancelFunc, _ io.ReadCloser) { cancel() }},
		"deadline without a reader": {silent, Bounds{Timeout: time.Second},
			func(*testing.T, context.CancelFunc, io.ReadCloser) { <-time.After(2 * time.Second) }},
		"idle timeout": {silent, Bounds{IdleTimeout: time.Second},
			func(t *testing.T, _ context.CancelFunc, body io.ReadCloser) {
				_, err := body.Read(make([]byte, 1))
				requireCode(t, CodeTimeout, err)
			}},
		"too large": {flow, Bounds{MaxResponseBytes: 10}, func(t *testing.T, _ context.CancelFunc, body io.ReadCloser) {
			_, err := io.ReadAll(body)
			requireCode(t, CodeResponseTooLarge, err)
		}},
		"closed during a read": {silent, Bounds{}, func(t *testing.T, _ context.CancelFunc, body io.ReadCloser) {
			read := make(chan error)
			go func() {
				_, err := body.Read(make([]byte, 1))
				read <- err
			}()
			synctest.Wait()
			require.NoError(t, body.Close())
			requireCode(t, CodeCanceled, <-read)
		}},
	} {
		for _, upload := range []string{"no upload", "stalled upload", "upload"} {
			t.Run(name+", "+upload, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					c := inBubble(t, tt.serve)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var body io.Reader
					switch upload {
					case "stalled upload":
						r, w := io.Pipe()
						defer func() {
							synctest.Wait()
							_, err := w.Write([]byte("x"))
							require.ErrorIs(t, err, io.ErrClosedPipe, "the body is closed")
						}()
						body = r
					case "upload":
						body = io.NopCloser(strings.NewReader(strings.Repeat("x", 100_000)))
					}
					req := request(t, "http://127.0.0.1/", body).WithContext(ctx)
					resp, err := c.RoundTripper(tt.bounds).RoundTrip(req) //nolint:bodyclose // the point of some cases
					require.NoError(t, err)
					tt.use(t, cancel, resp.Body)
				})
			})
		}
	}
}

// inBubble returns a client whose connections lead to h over memory, for any address.
func inBubble(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	l := &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	duplex := func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		read := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, r.Body) // or the server would not notice that its client goes away
			close(read)
		}()
		h(w, r)
		<-read
	}
	s := &http.Server{Handler: http.HandlerFunc(duplex), ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		_ = s.Serve(l) // until it is closed
		close(ended)
	}()
	c := New(dev(), Options{})
	c.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		l.conns <- server
		return &countedConn{Conn: client}, nil
	}
	t.Cleanup(func() {
		c.Close()
		_ = s.Close()
		<-ended
	})
	return c
}

// memoryListener accepts connections that never leave the process.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	close(l.closed)
	return nil
}

func (l *memoryListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
