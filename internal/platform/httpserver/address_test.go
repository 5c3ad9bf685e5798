package httpserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The error of an address that cannot be opened names the address, the setting and the reason in words, and is still
// the system's error.
func TestListenError(t *testing.T) {
	t.Parallel()
	s := &Server{cfg: Config{Name: "public", Setting: "listen", Address: ":80"}}
	for number, why := range map[syscall.Errno]string{syscall.EADDRINUSE: "another program uses it",
		syscall.EACCES:        "the system reserves its port for programs with more rights",
		syscall.EADDRNOTAVAIL: "this machine does not have it"} {
		err := s.listenError(&net.OpError{Op: "listen", Err: os.NewSyscallError("bind", number)})
		require.EqualError(t, err, "cannot listen on :80, the value of listen: "+why)
		require.ErrorIs(t, err, number)
		var address *AddressError
		require.ErrorAs(t, fmt.Errorf("start: %w", err), &address)
	}
	other := errors.New("another error")
	require.ErrorIs(t, s.listenError(other), other)
	require.ErrorContains(t, s.listenError(other), "(listen)")
}
