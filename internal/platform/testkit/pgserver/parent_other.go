//go:build unix && !linux

package pgserver

import "syscall"

// endWithParent does nothing: the next keeper stops a server that was left behind.
func endWithParent(*syscall.SysProcAttr) {}
