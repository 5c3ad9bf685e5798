package db

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// A server that vanished without closing its connections, as with its machine or the network, is noticed after about
// twenty seconds on a connection that waits for nothing else.
const (
	idleBeforeProbe = 10 * time.Second
	betweenProbes   = 5 * time.Second
	lostProbes      = 2
)

// noticeSilence makes the connections of dial end when the other side no longer confirms that it receives anything.
// Connections that are not TCP stay as they are.
func noticeSilence(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
			// Without these options the timeouts of statements apply alone.
			_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: idleBeforeProbe, Interval: betweenProbes,
				Count: lostProbes})
			_ = setUserTimeout(tcp)
		}
		return conn, err
	}
}
