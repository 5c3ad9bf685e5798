package registry

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Limits of a folder of definitions.
const (
	maxFileBytes   = 256 << 10
	maxFiles       = 256
	maxFolderBytes = 16 << 20
)

// definitionFile is one file as it was read.
type definitionFile struct {
	name string
	data []byte
	// imported is true of a definition that was made from a description of an API, which may name no documentation.
	imported bool
}

// readFolder reads every definition at the root of fsys, sorted by name. It skips files of other kinds and names that
// begin with a dot, which editors and mounted volumes create; .yml is a definition with the wrong name. Files that
// cannot be read as definitions are problems. The error is that of the folder, or that the folder exceeds its limits.
func readFolder(fsys fs.FS) ([]definitionFile, []Problem, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		var place *fs.PathError // which says "." for the folder
		if errors.As(err, &place) {
			err = place.Err
		}
		return nil, nil, fmt.Errorf("read provider definitions: %w", err)
	}
	var files []definitionFile
	var problems []Problem
	total := 0
	for _, entry := range entries { // ReadDir sorts by name
		name := entry.Name()
		if entry.IsDir() || strings.HasPrefix(name, ".") || path.Ext(name) != ".yaml" && path.Ext(name) != ".yml" {
			continue
		}
		if len(files)+len(problems) == maxFiles {
			return nil, nil, fmt.Errorf("read provider definitions: there are more than the %d that a folder can have", maxFiles)
		}
		data, err := readFile(fsys, name)
		if err != nil {
			problems = append(problems, unreadable(name, err))
			continue
		}
		if total += len(data); total > maxFolderBytes {
			return nil, nil, fmt.Errorf("read provider definitions: together they are larger than %d bytes", maxFolderBytes)
		}
		files = append(files, definitionFile{name: name, data: data})
	}
	return files, problems, nil
}

// fileError is why a file cannot be a definition, as a clause behind its name.
type fileError string

func (e fileError) Error() string { return string(e) }

func unreadable(name string, err error) Problem {
	var known fileError
	switch {
	case errors.As(err, &known):
		return Problem{File: name, Message: known.Error()}
	case errors.Is(err, fs.ErrNotExist):
		return Problem{File: name, Message: "does not exist"}
	case errors.Is(err, fs.ErrPermission):
		return Problem{File: name, Message: "is not readable for this user"}
	default:
		return Problem{File: name, Message: "cannot be read: " + err.Error()}
	}
}

// readFile reads a file that is a regular one: a named pipe, for example, would not end.
func readFile(fsys fs.FS, name string) ([]byte, error) {
	switch path.Ext(name) {
	case ".yaml":
	case ".yml":
		return nil, fileError("must end in .yaml")
	default:
		return nil, fileError("is no .yaml file")
	}
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fileError("is no regular file")
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, fileError(fmt.Sprintf("is larger than %d bytes", maxFileBytes))
	}
	return data, nil
}
