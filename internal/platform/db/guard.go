package db

import (
	"fmt"
	"runtime"
	"strings"
)

// Guard makes the database panic if the function of a transaction reads through a pool or begins another transaction.
// Such a function holds the writer while it waits for a connection, whose holder may wait for the writer. Functions of
// tests may do that. Guard looks at the stack of each call, which takes microseconds, so only tests use it.
func Guard(d *DB) { d.guarded.Store(true) }

// refuseInTx panics if it is called, at any depth, by the function of a transaction, and Guard is on.
func refuseInTx(d *DB, use string) {
	if !d.guarded.Load() {
		return
	}
	var callers [128]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for before := (runtime.Frame{}); ; {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "db.(*DB).once") && !strings.HasSuffix(before.File, "_test.go") {
			panic(fmt.Sprintf("the function of a transaction uses %s of the database", use))
		}
		if before = frame; !more {
			return
		}
	}
}
