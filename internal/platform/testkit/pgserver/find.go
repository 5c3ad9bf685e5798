package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// ErrNone is the error of a machine on which no PostgreSQL can be used, as opposed to one that does not start.
var ErrNone = errors.New("this machine has no PostgreSQL for tests")

// oldest is the oldest major version of PostgreSQL that the product runs on.
const oldest = 15

// find returns the folder of the newest PostgreSQL server installed, and its version.
func find() (bin, version string, err error) {
	newest := 0
	for _, dir := range candidates() {
		v, number, err := versionOf(dir)
		if err != nil {
			continue // no server here, or one that does not run
		}
		if number > newest {
			bin, version, newest = dir, v, number
		}
	}
	switch {
	case newest == 0:
		return "", "", fmt.Errorf("%w: none is installed", ErrNone)
	case newest < oldest:
		return "", "", fmt.Errorf("%w: %s is too old, version %d or later is needed", ErrNone, version, oldest)
	default:
		return bin, version, nil
	}
}

// Program returns the path of one of PostgreSQL's programs, such as pg_dump: that of the newest server installed, or
// the one on PATH.
func Program(name string) (string, error) {
	if bin, _, err := find(); err == nil {
		path := filepath.Join(bin, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find PostgreSQL's %s: %w", name, err)
	}
	return path, nil
}

// candidates returns the folders in which servers are found: on PATH, and where Debian, Homebrew and the PostgreSQL
// project's RPMs put them.
func candidates() []string {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin",
		"/usr/pgsql-*/bin",
		"/usr/local/pgsql/bin",
	} {
		found, err := filepath.Glob(pattern)
		if err == nil {
			dirs = append(dirs, found...)
		}
	}
	return dirs
}

// versionOf runs a server for its version, such as "15.18" and its major number 15.
func versionOf(dir string) (version string, major int, err error) {
	for _, name := range []string{"initdb", "pg_ctl"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", 0, fmt.Errorf("look for %s: %w", name, err)
		}
	}
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output() //nolint:noctx // prints and ends
	if err != nil {
		return "", 0, fmt.Errorf("ask for the version: %w", err)
	}
	found := regexp.MustCompile(`(\d+)[.\w]*`).FindStringSubmatch(string(out))
	if found == nil {
		return "", 0, fmt.Errorf("%q names no version", out)
	}
	major, err = strconv.Atoi(found[1])
	if err != nil {
		return "", 0, fmt.Errorf("read the version: %w", err)
	}
	return found[0], major, nil
}
