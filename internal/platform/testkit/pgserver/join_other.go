//go:build !unix

package pgserver

import (
	"context"
	"errors"
	"io"
)

// Join is for systems with file locks that end with the process.
func Join(context.Context) (*Server, error) {
	return nil, errors.New("tests start no PostgreSQL server on this system")
}

// Keep is for systems with file locks that end with the process.
func Keep(_, _, _ string, _ io.WriteCloser) error {
	return errors.New("tests start no PostgreSQL server on this system")
}
