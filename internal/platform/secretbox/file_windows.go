package secretbox

import (
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile waits for the exclusive lock of f, which ends when f is closed.
func lockFile(f *os.File) error {
	var whole windows.Overlapped
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &whole)
}

// keepOwner does nothing: a new file inherits the access list of its folder.
func keepOwner(*os.File, fs.FileInfo) error { return nil }

// syncDir does nothing: NTFS journals a rename itself.
func syncDir(string) error { return nil }
