//go:build linux || darwin

package datadir

import "golang.org/x/sys/unix"

// Free returns how many bytes an ordinary user can still write to the disk of a folder.
func Free(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil //nolint:gosec // a block size is positive
}
