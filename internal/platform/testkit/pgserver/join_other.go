//go:build !unix

package pgserver

import (
	"context"
	"fmt"
	"io"
)

// Join is for systems with file locks that end with the process.
func Join(context.Context) (*Server, error) {
	return nil, fmt.Errorf("%w: tests start none on this system", ErrNone)
}

// Keep is for systems with file locks that end with the process.
func Keep(_, _, _ string, _ io.WriteCloser) error {
	return fmt.Errorf("%w: tests start none on this system", ErrNone)
}
