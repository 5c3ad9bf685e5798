package secretbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/tink-crypto/tink-go/v2/keyset"

	"sallyport/internal/platform/atomicfile"
)

const (
	// maxKeysetBytes limits the size of a keyset: some thousand keys.
	maxKeysetBytes = 1 << 20
	// lockSuffix names the file whose lock serialises the writers of a keyset. It stays, because deleting it would race.
	lockSuffix = ".lock"
	// nextSuffix names the file for a new keyset before it replaces the old one.
	nextSuffix = ".next"
)

// Create writes a keyset with one new key to a new file that only its owner can read. It returns ErrExists, and
// changes nothing, if there is a file at path.
func Create(path string) error {
	return locked(path, func() error {
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("secretbox: create %s: %w", path, ErrExists)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("secretbox: create keyset: %w", err)
		}
		h, err := newHandle()
		if err != nil {
			return err
		}
		return replaceFile(path, h, nil)
	})
}

// Rotate adds a new primary key to the keyset at path and returns it. The older keys stay, so that their values still
// open. The file changes atomically and keeps its owner. Concurrent changes run one after the other.
func Rotate(path string) (KeyInfo, error) {
	return change(path, func(h *keyset.Handle) (*keyset.Handle, uint32, error) { return withNewKey(h, true) })
}

// Add adds a key that opens values and seals none before Promote: with it in the keysets of all nodes, none of them
// meets values that it cannot open.
func Add(path string) (KeyInfo, error) {
	return change(path, func(h *keyset.Handle) (*keyset.Handle, uint32, error) { return withNewKey(h, false) })
}

// Promote makes the key the one that seals. It returns ErrNoKey for one that is not in the keyset.
func Promote(path string, key uint32) (KeyInfo, error) {
	return change(path, func(h *keyset.Handle) (*keyset.Handle, uint32, error) { return withPrimary(h, key) })
}

// Remove removes a key, whose values then open no longer. It returns ErrNoKey for one that is not in the keyset and
// ErrPrimary for the one that seals. It calls unused while no other process can change the file, with the time of its
// last change, and removes nothing if that returns an error.
func Remove(path string, key uint32, unused func(changed time.Time) error) error {
	_, err := changeAt(path, func(h *keyset.Handle, info fs.FileInfo) (*keyset.Handle, uint32, error) {
		next, err := withoutKey(h, key)
		if err == nil {
			err = unused(info.ModTime())
		}
		return next, key, err
	})
	return err
}

// change replaces the keyset at path with what edit makes of it, and returns the key that edit names.
func change(path string, edit func(*keyset.Handle) (*keyset.Handle, uint32, error)) (KeyInfo, error) {
	return changeAt(path, func(h *keyset.Handle, _ fs.FileInfo) (*keyset.Handle, uint32, error) { return edit(h) })
}

func changeAt(path string, edit func(*keyset.Handle, fs.FileInfo) (*keyset.Handle, uint32, error)) (key KeyInfo,
	err error) {
	// The file behind a symbolic link is replaced, not the link.
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return KeyInfo{}, fmt.Errorf("secretbox: change keyset: %w", err)
	}
	err = locked(target, func() error {
		h, old, err := readFile(target)
		if err != nil {
			return err
		}
		next, id, err := edit(h, old)
		if err != nil {
			return err
		}
		for _, k := range keyInfos(next) {
			if k.ID == id {
				key = k
			}
		}
		return replaceFile(target, next, old)
	})
	if err != nil {
		return KeyInfo{}, err
	}
	return key, nil
}

// List describes the keys of the keyset at path, oldest first.
func List(path string) ([]KeyInfo, error) {
	h, _, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return keyInfos(h), nil
}

// Copy writes the keyset at src to a new file that only its owner can read. It returns fs.ErrExist, and changes
// nothing, if there is a file at path.
func Copy(src Source, path string) error {
	var h *keyset.Handle
	var err error
	if src.Inline != "" {
		h, err = decodeHandle([]byte(src.Inline.Reveal()))
	} else {
		h, _, err = readFile(src.Path)
	}
	if err != nil {
		return fmt.Errorf("secretbox: copy keyset: %w", err)
	}
	b, err := encodeHandle(h)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, b)
}

// readFile reads and checks a keyset file. It checks the open file, so that it cannot be replaced in between.
func readFile(path string) (*keyset.Handle, fs.FileInfo, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, nil, fmt.Errorf("secretbox: open keyset: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("secretbox: open keyset: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("secretbox: open %s: %w: it is not a regular file", path, ErrKeyset)
	}
	// On Windows the permission bits do not show who can read.
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, nil, fmt.Errorf("secretbox: open %s: %w (mode %04o, wanted 0600)", path, ErrPermissions,
			info.Mode().Perm())
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeysetBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("secretbox: read keyset: %w", err)
	}
	if len(b) > maxKeysetBytes {
		return nil, nil, fmt.Errorf("secretbox: open %s: %w: it is over %d bytes", path, ErrKeyset, maxKeysetBytes)
	}
	h, err := decodeHandle(b)
	if err != nil {
		return nil, nil, fmt.Errorf("secretbox: open %s: %w", path, err)
	}
	return h, info, nil
}

// replaceFile writes the keyset to path atomically, also across a crash: it writes and syncs a file in the same
// folder, renames it, and syncs the folder. The new file gets the owner of old, if given: an administrator who
// rotates as root must not lock the server out. The caller holds the lock.
func replaceFile(path string, h *keyset.Handle, old fs.FileInfo) error {
	b, err := encodeHandle(h)
	if err != nil {
		return err
	}
	next := path + nextSuffix
	// A writer that crashed may have left one; under the lock no other writer uses it.
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("secretbox: write keyset: %w", err)
	}
	if err := writeNew(next, b, old); err != nil {
		return errors.Join(fmt.Errorf("secretbox: write keyset: %w", err), removeIfThere(next))
	}
	if err := os.Rename(next, path); err != nil {
		return errors.Join(fmt.Errorf("secretbox: write keyset: %w", err), removeIfThere(next))
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("secretbox: write keyset: %w", err)
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeNew writes a file that must not exist yet, with mode 0600, and syncs it.
func writeNew(path string, b []byte, owner fs.FileInfo) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // next to the operator's file
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	if owner != nil {
		if err := keepOwner(f, owner); err != nil {
			return err
		}
	}
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.Sync()
}

// locked runs f under the lock of the writers of the keyset at path. The operating system releases the lock when the
// process ends, in any way.
func locked(path string, f func() error) (err error) {
	l, err := os.OpenFile(path+lockSuffix, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // next to the operator's file
	if err != nil {
		return fmt.Errorf("secretbox: lock keyset: %w", err)
	}
	defer func() {
		if cerr := l.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("secretbox: unlock keyset: %w", cerr)
		}
	}()
	if err := lockFile(l); err != nil {
		return fmt.Errorf("secretbox: lock keyset: %w", err)
	}
	return f()
}
