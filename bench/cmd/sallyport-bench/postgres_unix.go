//go:build unix

package main

import (
	"fmt"
	"os"

	"sallyport/internal/platform/testkit/pgserver"
)

// startPostgres starts a server that commits as an installed one does.
func startPostgres(dir string) (url string, stop func(), err error) {
	if err := os.Mkdir(dir, 0o711); err != nil {
		return "", nil, fmt.Errorf("make PostgreSQL's folder: %w", err)
	}
	server, err := pgserver.NewOwn(dir, "fsync=on", "full_page_writes=on", "synchronous_commit=on", "wal_level=replica",
		"max_wal_size=4GB", "shared_buffers=128MB")
	if err != nil {
		return "", nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return server.URL, server.Kill, nil
}
