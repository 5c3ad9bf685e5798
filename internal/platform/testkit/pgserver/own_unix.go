//go:build unix

package pgserver

import (
	"crypto/rand"
	"os"
	"syscall"
)

// Own is a server of one process, which stops it and starts it again. Nothing else joins it, and it ends with the
// process.
type Own struct {
	// URL is that of the administrative database, for a role that may do everything. It stays the same over starts.
	URL string

	keeper keeper
	port   int
}

// NewOwn makes a database cluster in a folder that exists, is empty, and that the server's user can enter, and starts
// its server with further settings in the form name=value.
func NewOwn(dir string, settings ...string) (*Own, error) {
	bin, _, err := find()
	if err != nil {
		return nil, err
	}
	o := &Own{keeper: keeper{dir: dir, bin: bin, settings: settings}}
	if err := o.keeper.chooseUser(); err != nil {
		return nil, err
	}
	password := rand.Text()
	if err := o.keeper.initialise(password); err != nil {
		return nil, err
	}
	if o.port, err = freePort(); err != nil {
		return nil, err
	}
	o.URL = serverURL(o.port, password)
	return o, o.Start()
}

// Start starts the server after Stop, Kill, or an end of its own, and returns when it accepts connections.
func (o *Own) Start() error {
	// The file of a server that was killed would count as the mark of one that is ready.
	if err := os.Remove(o.keeper.pidFile()); err != nil && !os.IsNotExist(err) {
		return err
	}
	return o.keeper.run(o.port)
}

// Running reports whether the server has not ended.
func (o *Own) Running() bool {
	select {
	case <-o.keeper.exited:
		return false
	default:
		return true
	}
}

// Stop ends the server in order: it cuts its connections, rolls back what is open, and writes what it has.
func (o *Own) Stop() error {
	if err := o.keeper.server.Process.Signal(syscall.SIGINT); err != nil && o.Running() {
		return err
	}
	<-o.keeper.exited
	return nil
}

// Kill ends the server as a crash does. Its next start recovers.
func (o *Own) Kill() { o.keeper.stop() }
