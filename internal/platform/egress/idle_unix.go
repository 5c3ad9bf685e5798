//go:build unix

package egress

import (
	"errors"
	"syscall"
)

// canCheckIdle is set where it can be seen without waiting whether the peer has ended an idle connection.
const canCheckIdle = true

// isQuiet reports whether nothing waits to be read from the socket, not even its end.
func isQuiet(fd uintptr) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EWOULDBLOCK)
}
