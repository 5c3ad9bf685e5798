// Package pgserver gives tests a PostgreSQL server where one is installed and none is named. The first process to join
// starts it; all later ones, of the same user, share it. A keeper process of its own stops the server and deletes its
// data soon after the last process that joined has ended, even if it was killed: each holds a file lock, which the
// operating system releases.
//
// The folder of the server holds:
//
//	start.lock    held while a process joins, and while the keeper stops the server
//	holders.lock  held, shared, by every process that has joined
//	keeper.lock   held by the keeper while it runs; has its process id
//	keeper        its binary
//	data, log     of the server
//	url           how to reach it, once it accepts connections
package pgserver

import "os"

// Server is a running server that this process holds.
type Server struct {
	// URL is that of the administrative database, for a role that may do everything.
	URL string
	// Version is PostgreSQL's, such as "15.18".
	Version string
	// hold keeps the server running. It is never closed: the process holds the server until it ends.
	hold *os.File
}
