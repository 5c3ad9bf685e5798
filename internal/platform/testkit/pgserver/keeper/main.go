// Command keeper runs the PostgreSQL server of tests until no process uses it. Tests start it; see pgserver.
package main

import (
	"os"

	"sallyport/internal/platform/testkit/pgserver"
)

func main() {
	const arguments = 4
	if len(os.Args) != arguments || pgserver.Keep(os.Args[1], os.Args[2], os.Args[3], os.Stdout) != nil {
		os.Exit(1) // Keep has printed the error
	}
}
