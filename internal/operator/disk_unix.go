//go:build linux || darwin

package operator

import "golang.org/x/sys/unix"

// freeBytes returns how many bytes an ordinary user can still write to the disk of a folder.
func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil //nolint:gosec // a block size is positive
}
