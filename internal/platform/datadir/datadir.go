// Package datadir takes the data folder of a server, so that no two servers work on one SQLite database, and names the
// node that works in it.
package datadir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// errInUse says that another server works in the data folder.
var errInUse = errors.New("another `sallyport serve` is using this data folder; stop it, or give this one its own " +
	"with --data")

// Lock is a data folder that this process works in.
type Lock struct {
	file *flock.Flock
	// Node is the name of this process among those that share a database. Leases carry it, so that a process recognises
	// those of its predecessor.
	Node string
}

// Open makes the data folder where it is missing, and takes it for this process. When the folder is taken already, Open
// fails where sole is set, because the folder holds the database; elsewhere nodes may share a folder, and only the
// first of them has a name that outlives it.
func Open(dir string, sole bool) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the data folder: %w", err)
	}
	l := &Lock{file: flock.New(filepath.Join(dir, "serve.lock"))}
	held, err := l.file.TryLock()
	switch {
	case err != nil:
		return nil, fmt.Errorf("lock the data folder: %w", err)
	case held && sole:
		l.Node = soleNode
	case held:
		l.Node, err = nodeName(filepath.Join(dir, "node-id"))
	case sole:
		return nil, errInUse
	default:
		l.Node, err = newNodeName()
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close leaves the folder to others.
func (l *Lock) Close() error { return l.file.Unlock() }

// soleNode is the name of the one server that a SQLite database has: any lease that it finds at its start is a
// predecessor's, also in a database that was restored elsewhere.
const soleNode = "sole"

const nodeNameBytes = 6

// nodeName reads this data folder's node name, or gives it one. It is how a process recognises its predecessor's
// leases.
func nodeName(path string) (string, error) {
	b, err := os.ReadFile(path) //nolint:gosec // the operator chooses the data folder
	if err == nil {
		if name := strings.TrimSpace(string(b)); len(name) == 2*nodeNameBytes {
			return name, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the node name: %w", err)
	}
	name, err := newNodeName()
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write the node name: %w", err)
	}
	return name, nil
}

func newNodeName() (string, error) {
	var b [nodeNameBytes]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("make a node name: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}
