package ingest

import (
	"fmt"
	"io"
	"os"

	"sallyport/internal/platform/apperr"
)

// copyPiece is the memory that a body uses while it is written to a file.
const copyPiece = 32 << 10

// clearSpool creates the folder of large bodies, and deletes files that a crash left in it.
func (b *bodyReader) clearSpool() error {
	if b.dir == "" {
		return nil
	}
	if err := os.RemoveAll(b.dir); err != nil {
		return fmt.Errorf("clear the spool folder: %w", err)
	}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return fmt.Errorf("create the spool folder: %w", err)
	}
	return nil
}

// readSpooled reads a body that is larger than its buffer in memory: head, the next byte, and the rest. It waits in a
// file until it is complete; only then the memory for all of it is allocated.
func (b *bodyReader) readSpooled(head []byte, next byte, rest io.Reader, limit int64, memory *lease) ([]byte, error) {
	f, err := os.CreateTemp(b.dir, "sallyport-body-*")
	if err != nil {
		b.failed()
		return nil, apperr.Unavailable(fmt.Errorf("create a spool file: %w", err))
	}
	file := &spoolFile{f: f, disk: lease{of: b.disk, holder: memory.holder}, failed: b.failed}
	defer file.discard()
	if err := file.write(head); err != nil {
		return nil, err
	}
	memory.shrink(copyPiece)
	piece := make([]byte, copyPiece)
	piece[0] = next
	for filled, ended := 1, false; !ended; filled = 0 {
		var n int
		if n, ended, err = fill(rest, piece[filled:]); err != nil {
			return nil, err
		}
		filled += n
		if file.size()+int64(filled) > limit {
			return nil, tooLarge()
		}
		if err := file.write(piece[:filled]); err != nil {
			return nil, err
		}
	}
	if err := memory.grow(file.size()); err != nil {
		return nil, err
	}
	return file.read()
}

// spoolFile is a temporary file whose bytes are charged to the disk budget before they are written.
type spoolFile struct {
	f    *os.File
	disk lease
	// failed is called when nothing can be written.
	failed func()
}

func (s *spoolFile) size() int64 { return s.disk.held }

func (s *spoolFile) write(p []byte) error {
	if err := s.disk.grow(s.size() + int64(len(p))); err != nil {
		return err
	}
	if _, err := s.f.Write(p); err != nil {
		s.failed()
		return apperr.Unavailable(fmt.Errorf("write a spool file: %w", err))
	}
	return nil
}

func (s *spoolFile) read() ([]byte, error) {
	body := make([]byte, s.size())
	if _, err := s.f.ReadAt(body, 0); err != nil {
		return nil, apperr.Unavailable(fmt.Errorf("read a spool file: %w", err))
	}
	return body, nil
}

// discard closes and removes the file. If that fails, cleaning up is left to the system; the webhook does not depend on
// it.
func (s *spoolFile) discard() {
	_ = s.f.Close()
	_ = os.Remove(s.f.Name())
	s.disk.release()
}
