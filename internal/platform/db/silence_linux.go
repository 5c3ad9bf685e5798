package db

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// userTimeout is how long sent data may stay unconfirmed before the connection ends. Linux would go on for some fifteen
// minutes.
const userTimeout = 8 * time.Second

func setUserTimeout(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return set
}
