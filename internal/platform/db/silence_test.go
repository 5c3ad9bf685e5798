package db_test

import (
	"context"
	"database/sql"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// network stands between the database and its server. Once it is silent, it accepts everything and passes nothing.
type network struct {
	address string
	target  string
	silent  chan struct{}
	mu      sync.Mutex
	conns   []net.Conn
}

func newNetwork(t *testing.T, target string) *network {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &network{address: l.Addr().String(), target: target, silent: make(chan struct{})}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // the listener was closed
			}
			n.keep(client)
			var d net.Dialer
			server, err := d.DialContext(t.Context(), "tcp", target)
			if err != nil {
				return
			}
			n.keep(server)
			serving.Go(func() { n.pass(client, server) })
			serving.Go(func() { n.pass(server, client) })
		}
	})
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		n.mu.Lock()
		for _, c := range n.conns {
			_ = c.Close() // it may have ended by itself
		}
		n.mu.Unlock()
		await.Return(t, "the end of the connections", serving.Wait)
	})
	return n
}

func (n *network) keep(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns = append(n.conns, c)
}

func (n *network) pass(from, to net.Conn) {
	for buffer := make([]byte, 32<<10); ; {
		read, err := from.Read(buffer)
		if err != nil {
			return
		}
		select {
		case <-n.silent:
			continue
		default:
		}
		if _, err := to.Write(buffer[:read]); err != nil {
			return
		}
	}
}

// A transaction ends in its time although its server has gone silent, also if the contexts of its statements have no
// end, and it may be stored then. The next ones leave the silent connections for the server's other address, in their
// time.
func TestTransactionsEndWhenTheServerGoesSilent(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(testkit.NewPostgres(t))
	require.NoError(t, err)
	n := newNetwork(t, u.Host)
	u.Host = n.address + "," + u.Host
	q := u.Query()
	q.Set("connect_timeout", "1")
	u.RawQuery = q.Encode()
	d, err := db.Open(t.Context(), u.String(), "")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	insert := func(tx *sql.Tx, name string) error {
		_, err := d.ExecLast(context.Background(), tx, named(name)) //nolint:usetesting // has no end of its own
		return err
	}
	require.NoError(t, d.Tx(t.Context(), func(*sql.Tx) error { // two connections
		return d.Tx(t.Context(), func(tx *sql.Tx) error { return insert(tx, "before") })
	}))

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err = d.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "SELECT 1")
		require.NoError(t, err)
		close(n.silent)
		return insert(tx, "lost")
	})
	require.ErrorIs(t, err, db.ErrCommitUnknown)
	require.True(t, db.IsUnavailable(err))
	require.NoError(t, d.Tx(t.Context(), func(tx *sql.Tx) error { return insert(tx, "after") }))
}
