package egress

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/testkit/await"
)

// overNetHTTP returns a context under which Do leaves the exchange to net/http.
func overNetHTTP(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{})
}

// A request that is sent directly has the bytes that net/http sends, and one that net/http would not send as it is, is
// never sent directly: no name and no value can end a line or add a field.
func TestDirectRequestIsThatOfNetHTTP(t *testing.T) {
	t.Parallel()
	direct := 0
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.StringMatching(`[ -~]{0,20}`), rapid.String(), rapid.Just(" padded\t"))
		name := rapid.OneOf(rapid.StringMatching(`[A-Z][a-z]{0,8}(-[A-Z][a-z]{0,8}){0,2}`), rapid.StringMatching(`.{0,5}`),
			rapid.SampledFrom([]string{"Connection", "Host", "Content-Length", "Transfer-Encoding", "User-Agent", "te"}))
		u := &url.URL{Scheme: "http", Host: rapid.SampledFrom([]string{"example.com", "example.com:8080", "[::1]:80"}).
			Draw(t, "host"), Path: rapid.SampledFrom([]string{"", "/", "/a b", "/x/\r\n"}).Draw(t, "path"),
			RawQuery: rapid.SampledFrom([]string{"", "q=1", "q=a%20b", "q=\r\n"}).Draw(t, "query")}
		r := Request{Method: rapid.SampledFrom([]string{"POST", "PUT", "GET", "P OST", "CONNECT"}).Draw(t, "method"), URL: u,
			Header: rapid.MapOfN(name, rapid.SliceOfN(value, 0, 2), 0, 5).Draw(t, "headers"),
			Head:   []byte(rapid.StringN(0, 10, -1).Draw(t, "head")), Body: []byte("x")}
		got, ok := appendRequest(nil, &r)
		if !ok {
			return
		}
		direct++
		header := r.Header.Clone()
		if header == nil {
			header = http.Header{}
		}
		if _, has := header["User-Agent"]; !has {
			header.Set("User-Agent", defaultUserAgent)
		}
		var want bytes.Buffer
		q := http.Request{Method: r.Method, URL: u, Host: u.Host, Header: header, Body: inMemory(r.Head, r.Body),
			ContentLength: int64(len(r.Head) + len(r.Body))}
		require.NoError(t, q.Write(&want))
		require.Equal(t, want.String(), string(got))

		parsed, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(got)))
		require.NoError(t, err, "net/http reads it")
		body, err := io.ReadAll(parsed.Body)
		require.NoError(t, err)
		require.Equal(t, string(r.Head)+string(r.Body), string(body))
	})
	require.Positive(t, direct)
}

// Which requests are sent directly: small ones with a body over http. All others, and those that a caller follows with
// hooks, are net/http's.
func TestSentDirectly(t *testing.T) {
	t.Parallel()
	c := newClient(t, dev(), Options{})
	base := site(t, func(http.ResponseWriter, *http.Request) {})
	idle := func() int {
		c.idle.mu.Lock()
		defer c.idle.mu.Unlock()
		return c.idle.count
	}
	do := func(ctx context.Context, change func(r *Request)) {
		r := post(target(t, c, base), long)
		change(&r)
		_, err := c.Do(ctx, r)
		require.Nil(t, err)
	}
	do(t.Context(), func(r *Request) { r.Body = nil })
	do(t.Context(), func(r *Request) { r.Body = make([]byte, maxDirect+1) })
	do(t.Context(), func(r *Request) { r.Header = http.Header{"Connection": {"close"}} })
	do(overNetHTTP(t.Context()), func(*Request) {})
	require.Zero(t, idle())
	do(t.Context(), func(*Request) {})
	require.Equal(t, 1, idle())
	c.Close()
	require.Zero(t, idle())
}

// A response without a request is not taken for that of the next request, which goes over another connection: a
// receiver cannot respond for another one behind the same address.
func TestUnaskedResponseIsNotUsed(t *testing.T) {
	t.Parallel()
	const response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
	for name, serve := range map[string]func(conn net.Conn, later chan struct{}){
		"with the response": func(conn net.Conn, _ chan struct{}) {
			_, _ = io.WriteString(conn, response+"ok"+response+"no")
		},
		"later": func(conn net.Conn, later chan struct{}) {
			_, _ = io.WriteString(conn, response+"ok")
			<-later
			_, _ = io.WriteString(conn, response+"no")
			later <- struct{}{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			later := make(chan struct{})
			var conns atomic.Int64
			address := peer(t, func(conn net.Conn) {
				r := bufio.NewReader(conn)
				if conns.Add(1) > 1 {
					if readRequest(r) {
						_, _ = io.WriteString(conn, response+"ok")
					}
					return
				}
				if readRequest(r) {
					serve(conn, later)
				}
				hold(conn)
			})
			c := newClient(t, dev(), Options{})
			q := post(target(t, c, "http://"+address+"/"), long)
			for i := range 2 {
				resp, err := c.Do(t.Context(), q)
				require.Nil(t, err)
				require.Equal(t, "ok", string(resp.Body))
				if i == 0 && name == "later" {
					later <- struct{}{}
					<-later
					awaitNotQuiet(t, c)
				}
			}
			require.Equal(t, int64(2), conns.Load())
		})
	}
}

// An idle connection that its peer has ended is noticed before the next request, which the receiver gets once.
func TestDirectReplacesEndedConnection(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	conns := make(chan net.Conn, 2)
	address := peer(t, func(conn net.Conn) {
		conns <- conn
		for r := bufio.NewReader(conn); readRequest(r); {
			requests.Add(1)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	c := newClient(t, dev(), Options{})
	q := post(target(t, c, "http://"+address+"/"), long)
	for i := range int64(2) {
		resp, err := c.Do(t.Context(), q)
		require.Nil(t, err)
		require.Equal(t, "ok", string(resp.Body))
		require.Positive(t, resp.Timings.Connect)
		require.Equal(t, i+1, requests.Load())
		_ = (<-conns).Close()
		awaitNotQuiet(t, c)
	}
}

// awaitNotQuiet waits until something has arrived on the idle connection of the client.
func awaitNotQuiet(t *testing.T, c *Client) {
	t.Helper()
	await.Condition(t, "something arrives on the idle connection", func() bool {
		c.idle.mu.Lock()
		defer c.idle.mu.Unlock()
		for _, list := range c.idle.byHost {
			for _, conn := range list {
				return !conn.isQuiet()
			}
		}
		return true // the sweep has closed it
	})
}

// A function that ends an exchange ends that one alone, whenever it is called: the connection is in use by another
// exchange by then.
func TestLateInterruptIsHarmless(t *testing.T) {
	t.Parallel()
	c := newClient(t, dev(), Options{})
	u := target(t, c, site(t, func(http.ResponseWriter, *http.Request) {}))
	interrupts := make(chan func(), 64)
	var wg sync.WaitGroup
	wg.Go(func() {
		for interrupt := range interrupts {
			interrupt()
		}
	})
	for range 200 {
		var own func()
		q := post(u, long)
		q.Begun = func(interrupt func()) { own = interrupt }
		resp, err := c.Do(t.Context(), q)
		require.Nil(t, err)
		require.Equal(t, http.StatusOK, resp.Status)
		interrupts <- own
	}
	close(interrupts)
	await.Return(t, "the interrupts", wg.Wait)
}

// However a direct exchange ends, also while it dials, it ends in time and leaves no goroutine and no connection in use
// behind.
func TestDirectExchangesLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, tt := range map[string]struct {
		serve http.HandlerFunc
		code  string
		use   func(c *Client, q *Request, cancel context.CancelFunc)
	}{
		"response": {func(http.ResponseWriter, *http.Request) {}, "", func(*Client, *Request, context.CancelFunc) {}},
		"long response": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		}, "", func(*Client, *Request, context.CancelFunc) {}},
		"deadline": {silent, CodeTimeout, func(*Client, *Request, context.CancelFunc) {}},
		"cancelled": {silent, CodeCanceled, func(_ *Client, _ *Request, cancel context.CancelFunc) {
			time.AfterFunc(time.Second, cancel)
		}},
		"interrupted": {silent, CodeCanceled, func(_ *Client, q *Request, _ context.CancelFunc) {
			q.Begun = func(interrupt func()) { time.AfterFunc(time.Second, interrupt) }
		}},
		"interrupted during the dial": {silent, CodeCanceled, func(c *Client, q *Request, _ context.CancelFunc) {
			dialForever(c)
			q.Begun = func(interrupt func()) { time.AfterFunc(time.Second, interrupt) }
		}},
		"deadline during the dial": {silent, CodeTimeout, func(c *Client, _ *Request, _ context.CancelFunc) {
			dialForever(c)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := inBubble(t, tt.serve)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				q := post(&url.URL{Scheme: "http", Host: "127.0.0.1", Path: "/"}, time.Minute)
				tt.use(c, &q, cancel)
				start := time.Now()
				_, err := c.Do(ctx, q)
				if tt.code == "" {
					require.Nil(t, err)
				} else {
					require.NotNil(t, err)
					require.Equal(t, tt.code, err.Code)
					require.Equal(t, !strings.Contains(name, "dial"), err.BytesSent)
				}
				switch tt.code {
				case CodeTimeout:
					require.Equal(t, time.Minute, time.Since(start))
				case CodeCanceled:
					require.Equal(t, time.Second, time.Since(start))
				}
			})
		})
	}
}

func dialForever(c *Client) {
	c.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
}

// Idle connections are limited for each host and in all, and end when they have been idle for long. The newest is used
// first, so that those that a burst has left behind end.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := idleConns{perHost: 2, all: 3}
		closed := map[*directConn]chan struct{}{}
		put := func(host string) *directConn {
			a, b := net.Pipe()
			t.Cleanup(func() { _ = b.Close() })
			c := newDirectConn(host, a)
			ended := make(chan struct{})
			closed[c] = ended
			go func() {
				_, _ = b.Read(make([]byte, 1)) // until the other side is closed
				close(ended)
			}()
			p.put(c)
			return c
		}
		open := func() (n int) {
			synctest.Wait()
			for _, ended := range closed {
				select {
				case <-ended:
				default:
					n++
				}
			}
			return n
		}
		put("a")
		second := put("a")
		put("a")
		require.Equal(t, 2, open(), "the limit of the host")
		put("b")
		put("c")
		require.Equal(t, 3, open(), "the limit of all")
		require.Nil(t, p.take("d"))
		c := p.take("a")
		require.Same(t, second, c, "the newest first")
		p.put(c)
		<-time.After(idleConnTimeout - time.Second)
		last := put("b")
		<-time.After(sweepInterval + time.Second)
		require.Equal(t, 1, open())
		require.Same(t, last, p.take("b"))
		p.put(last)
		p.close()
		require.Zero(t, open())
	})
}
