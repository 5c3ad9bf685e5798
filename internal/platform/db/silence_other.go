//go:build !linux

package db

import "net"

// setUserTimeout does nothing where the system has no such option: there, the timeouts of statements apply alone.
func setUserTimeout(*net.TCPConn) error { return nil }
