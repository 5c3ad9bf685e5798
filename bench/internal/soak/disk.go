//go:build linux

package soak

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// disk is a small file system of its own, which can be filled. Where mounting is not permitted it is a plain folder.
type disk struct {
	dir     string
	mounted bool
}

const diskBytes = 512 << 20

func mountDisk(dir string) (*disk, error) {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, err
	}
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0711", diskBytes))
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return &disk{dir: dir}, nil
	}
	return &disk{dir: dir, mounted: true}, err
}

// filler is the file that fills the disk.
func (d *disk) filler() string { return filepath.Join(d.dir, "filler") }

// fill takes all space but so many bytes, or less than that where others take it meanwhile.
func (d *disk) fill(leave int64) error {
	f, err := os.Create(d.filler())
	if err != nil {
		return err
	}
	const step = 16 << 20
	for filled := int64(0); err == nil; {
		var s unix.Statfs_t
		if err = unix.Statfs(d.dir, &s); err != nil {
			break
		}
		size := min(int64(s.Bavail)*s.Bsize-leave, step)
		if size <= 0 {
			break
		}
		err = unix.Fallocate(int(f.Fd()), 0, filled, size)
		filled += size
	}
	if errors.Is(err, unix.ENOSPC) {
		err = nil // that is what was to be done
	}
	return errors.Join(err, f.Close())
}

// free ends fill.
func (d *disk) free() error {
	if err := os.Remove(d.filler()); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// close unmounts the disk. Its content is copied first if it is to be kept.
func (d *disk) close(keep string) error {
	if !d.mounted {
		return nil
	}
	var err error
	if keep != "" {
		err = os.CopyFS(keep, os.DirFS(d.dir))
	}
	return errors.Join(err, unix.Unmount(d.dir, unix.MNT_DETACH))
}
