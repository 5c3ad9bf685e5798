//go:build !unix

package filelock

import (
	"errors"
	"os"
)

func lock(*os.File, Mode) error { return errors.ErrUnsupported }
