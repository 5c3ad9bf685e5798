package storing

import (
	"errors"
	"fmt"
	"os"
)

// Folder is a folder in which this node writes.
type Folder struct {
	// Name names the folder in metrics and messages: "data" or "spool".
	Name, Path string
	// Probe makes probes write a file there.
	Probe bool
}

// leastFree is the free space, in bytes, with which a folder counts as full: what is in progress needs some. It counts
// as full until enoughFree are free again.
const leastFree, enoughFree = 16 << 20, 24 << 20

// folderError is a folder in which nothing can be written. Its text may be shown to anyone.
type folderError struct{ reason string }

func (e *folderError) Error() string { return e.reason }

// SpoolFolder is the name of the folder in which large bodies wait.
const SpoolFolder = "spool"

func unwritable(folder string) error {
	return &folderError{"nothing can be written in the " + folder + " folder"}
}

// probeFolders measures the free space of the folders and writes a file where probes do.
func (m *Monitor) probeFolders(failing bool) error {
	for _, f := range m.cfg.Folders {
		if err := m.probeSpace(f); err != nil {
			return err
		}
		if !f.Probe {
			continue
		}
		size := 1
		if failing {
			size = fillerSize
		}
		if err := writeFile(f.Path, size); err != nil {
			return unwritable(f.Name)
		}
	}
	return nil
}

func (m *Monitor) probeSpace(f Folder) error {
	free, err := m.cfg.Free(f.Path)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return &folderError{"the " + f.Name + " folder cannot be read"}
	}
	m.free.WithLabelValues(f.Name).Set(float64(free))
	least := uint64(leastFree)
	if m.low[f.Name] {
		least = enoughFree
	}
	if m.low[f.Name] = free < least; m.low[f.Name] {
		return &folderError{"the disk of the " + f.Name + " folder is full"}
	}
	return nil
}

// writeFile writes a file in the folder, and removes it.
func writeFile(dir string, size int) error {
	f, err := os.CreateTemp(dir, "sallyport-probe-*")
	if err != nil {
		return fmt.Errorf("create a probe: %w", err)
	}
	_, err = f.Write(make([]byte, size))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}
