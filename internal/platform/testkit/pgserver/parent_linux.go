package pgserver

import "syscall"

// endWithParent makes a child end when its parent is killed.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
