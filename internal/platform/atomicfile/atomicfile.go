// Package atomicfile writes files that appear complete or not at all, and that only their owner can read. They replace
// no other file, except those of Replace.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// File is a file that is being written. Until Commit it has a temporary name in the same folder. Abort must be called
// at the end; after Commit it does nothing.
type File struct {
	*os.File
	path string
	// replace permits another file at path, which Commit replaces.
	replace bool
	done    bool
}

// Create begins a file for path, with mode 0600. It returns fs.ErrExist if path exists.
func Create(path string) (*File, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, exists(path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	return begin(path)
}

func begin(path string) (*File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.partial")
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	return &File{File: f, path: path}, nil
}

func exists(path string) error {
	return fmt.Errorf("%s: %w; nothing was overwritten", path, fs.ErrExist)
}

// Commit makes the content durable and moves the file to its path atomically. It returns fs.ErrExist if path exists by
// now.
func (f *File) Commit() error {
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	if err := f.publish(); err != nil {
		return err
	}
	f.done = true
	if err := syncFolder(filepath.Dir(f.path)); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

// publish gives the file its final name. Unless it may replace another file it links, because renaming would replace
// it. Where the file system has no links, it renames, with a short race.
func (f *File) publish() error {
	if f.replace {
		return f.rename()
	}
	err := os.Link(f.Name(), f.path)
	switch {
	case err == nil:
		return os.Remove(f.Name())
	case errors.Is(err, fs.ErrExist):
		return exists(f.path)
	case !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EPERM):
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	if _, err := os.Lstat(f.path); !errors.Is(err, fs.ErrNotExist) {
		return exists(f.path)
	}
	return f.rename()
}

func (f *File) rename() error {
	if err := os.Rename(f.Name(), f.path); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

// Abort deletes the file, unless it was committed.
func (f *File) Abort() error {
	if f.done {
		return nil
	}
	f.done = true
	if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Remove(f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the unfinished %s: %w", f.path, err)
	}
	return nil
}

// Write writes a complete file with this content. It returns fs.ErrExist if path exists.
func Write(path string, content []byte) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	return f.write(content)
}

// Replace writes a complete file with this content. A file at path is replaced: readers see the old content or the new.
func Replace(path string, content []byte) error {
	f, err := begin(path)
	if err != nil {
		return err
	}
	f.replace = true
	return f.write(content)
}

func (f *File) write(content []byte) (err error) {
	defer func() { err = errors.Join(err, f.Abort()) }()
	if _, err := f.Write(content); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return f.Commit()
}

// syncFolder makes a new name in dir durable. NTFS journals names itself.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
