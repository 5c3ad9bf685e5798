package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A connection to the operator's server cannot be kept beyond its lifetime: not by a later deadline, nor by none, nor
// when the process stops. Loopback is reachable without being allowed.
func TestDialOperatorEnds(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }() // says nothing
		}
	}()
	for name, put := range map[string]func(c net.Conn) error{
		"an hour":      func(c net.Conn) error { return c.SetDeadline(time.Now().Add(time.Hour)) },
		"none":         func(c net.Conn) error { return c.SetDeadline(time.Time{}) },
		"none to read": func(c net.Conn) error { return c.SetReadDeadline(time.Time{}) },
		"as it is":     func(net.Conn) error { return nil },
	} {
		conn, err := DialOperator(t.Context(), l.Addr().String(), 20*time.Millisecond)
		require.NoError(t, err, name)
		require.NoError(t, put(conn))
		_, err = conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, name)
		require.NoError(t, conn.SetWriteDeadline(time.Now().Add(time.Hour)))
		_, err = conn.Write([]byte("x"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, name)
		require.NoError(t, conn.Close())
	}
	ctx, stop := context.WithCancel(t.Context())
	conn, err := DialOperator(ctx, l.Addr().String(), time.Hour)
	require.NoError(t, err)
	stop()
	_, err = conn.Read(make([]byte, 1))
	require.True(t, errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF), err)
}
