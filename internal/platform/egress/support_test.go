package egress

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

// short is a deadline for exchanges that are meant to miss it, but to send their request in it on a busy machine too;
// long one for those that are not.
const (
	short = time.Second
	long  = 20 * time.Second
)

// dev is the policy under which the tests' peers on loopback can be reached.
func dev() Policy { return Policy{AllowLoopback: true, AllowHTTP: true} }

func newClient(t *testing.T, p Policy, o Options) *Client {
	t.Helper()
	c := New(p, o)
	t.Cleanup(c.Close)
	return c
}

func target(t *testing.T, c *Client, raw string) *url.URL {
	t.Helper()
	u, terr := c.ParseTarget(raw)
	require.Nil(t, terr)
	return u
}

// post is a POST of a small body with room for 1 KiB of response.
func post(u *url.URL, timeout time.Duration) Request {
	return Request{Method: http.MethodPost, URL: u, Body: []byte(`{"a":1}`), Timeout: timeout, MaxResponseBytes: 1024}
}

// peer listens on loopback and serves each connection with f, which owns it. All of them have ended when the test ends.
func peer(t *testing.T, f func(net.Conn)) (address string) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for {
			accepted, err := l.Accept()
			if err != nil {
				return
			}
			conn := &watched{Conn: accepted, closed: make(chan struct{})}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			wg.Go(func() {
				defer func() { _ = conn.Close() }()
				f(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		await.Return(t, "the end of the connections", wg.Wait)
	})
	return l.Addr().String()
}

// watched reports the closing of a connection.
type watched struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (w *watched) Close() error {
	w.once.Do(func() { close(w.closed) })
	return w.Conn.Close()
}

// peerConn returns what peer hands to its function.
func peerConn(c net.Conn) *watched {
	w, _ := c.(*watched)
	return w
}

// readRequest reads one request with its body; it reports false when the peer went away.
func readRequest(r *bufio.Reader) bool {
	q, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, q.Body)
	return err == nil
}

// responding serves one request per connection with the raw text, then closes.
func responding(t *testing.T, raw string) string {
	t.Helper()
	return peer(t, func(c net.Conn) {
		if readRequest(bufio.NewReader(c)) {
			_, _ = io.WriteString(c, raw)
		}
	})
}

// hold keeps a connection open until the other side ends it.
func hold(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// resolver resolves names by f, in memory.
func resolver(f func(name string) []netip.Addr) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go serveDNS(server, f)
		return client, nil
	}}
}

// serveDNS serves queries over a stream (RFC 1035 §4.2.2: each message after its length).
func serveDNS(c net.Conn, f func(name string) []netip.Addr) {
	defer func() { _ = c.Close() }()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		reply := replyDNS(query, f)
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// replyDNS builds the response to a query of one question (RFC 1035 §4.1).
func replyDNS(query []byte, f func(name string) []netip.Addr) []byte {
	const headerSize, typeA, typeAAAA = 12, 1, 28
	name, at := "", headerSize
	for query[at] != 0 {
		n := int(query[at])
		name += string(query[at+1:at+1+n]) + "."
		at += 1 + n
	}
	end := at + 5
	kind := binary.BigEndian.Uint16(query[at+1:])
	var records []byte
	count := uint16(0)
	addrs := f(name)
	for _, a := range addrs {
		if (kind == typeA) != a.Is4() || (kind != typeA && kind != typeAAAA) {
			continue
		}
		records = append(records, 0xc0, headerSize, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(a.BitLen()/8))
		records = append(records, a.AsSlice()...)
		count++
	}
	flags := uint16(0x8180)
	if addrs == nil {
		flags |= 3 // NXDOMAIN
	}
	out := append([]byte{}, query[:2]...)
	for _, v := range []uint16{flags, 1, count, 0, 0} {
		out = binary.BigEndian.AppendUint16(out, v)
	}
	return append(append(out, query[headerSize:end]...), records...)
}
