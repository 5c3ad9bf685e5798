//go:build unix

package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sallyport/internal/platform/testkit/filelock"
)

// Files in the server's folder, and what the keeper prints when the server accepts connections.
const (
	startLock   = "start.lock"
	holdersLock = "holders.lock"
	keeperLock  = "keeper.lock"
	keeperFile  = "keeper"
	dataFolder  = "data"
	logFile     = "log"
	urlFile     = "url"

	ready = "ready"
)

const (
	// linger is long enough for the pause between two packages of one `go test`.
	linger = 15 * time.Second
	// look is how often the keeper looks for holders.
	look = 200 * time.Millisecond
	// startTimeout bounds the start, and stopTimeout the end of the server.
	startTimeout = 60 * time.Second
	stopTimeout  = 10 * time.Second
)

// keeper runs one server.
type keeper struct {
	dir, bin string
	// linger is how long the server outlives its last holder.
	linger time.Duration
	// as is the user who runs the server; nil for the present one.
	as  *syscall.Credential
	url string
	// settings are further settings of the server, in the form name=value.
	settings []string

	server *exec.Cmd
	exited chan struct{}
}

// Keep starts a server with the programs in bin, prints "ready" or the error, and stops the server when no process has
// held it for the time given.
func Keep(dir, bin, linger string, out io.WriteCloser) error {
	// The system signals to the server the end of the thread that started it.
	runtime.LockOSThread()
	self, err := filelock.Try(filepath.Join(dir, keeperLock), filelock.Exclusive)
	if err != nil {
		return err
	}
	if err := self.Truncate(0); err != nil {
		return errors.Join(fmt.Errorf("write the process id: %w", err), closing(self))
	}
	if _, err := fmt.Fprintln(self, os.Getpid()); err != nil {
		return errors.Join(fmt.Errorf("write the process id: %w", err), closing(self))
	}
	signal.Ignore(syscall.SIGPIPE) // the process that waits for the report may be killed
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	k := &keeper{dir: dir, bin: bin}
	if k.linger, err = time.ParseDuration(linger); err != nil {
		return errors.Join(fmt.Errorf("read the time: %w", err), closing(self))
	}
	if err := k.start(); err != nil {
		k.clean()
		report(out, strings.ReplaceAll(err.Error(), "\n", " "))
		return errors.Join(err, closing(self))
	}
	report(out, ready)
	start, err := k.wait(ended)
	if err != nil || start == nil {
		k.stop()
		return errors.Join(err, closing(self))
	}
	k.clean()
	return errors.Join(closing(self), closing(start))
}

// report sends the start's outcome to the process that started the keeper.
func report(out io.WriteCloser, line string) {
	_, _ = fmt.Fprintln(out, line) // perhaps no process is left to read it
	_ = out.Close()                // likewise
}

// wait returns when the server is to end, with start.lock held, so that no process joins a server that is about to end.
// It returns no lock where the server's folder was deleted, and may be another server's by now.
func (k *keeper) wait(ended <-chan os.Signal) (*os.File, error) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for idle := time.Duration(0); ; idle += look {
		select {
		case <-tick.C:
		case <-ended:
			return k.lockStart()
		case <-k.exited:
			return k.lockStart()
		}
		if !k.owns() {
			return nil, nil //nolint:nilnil // as documented
		}
		if !k.free() {
			idle = 0
		}
		if idle < k.linger {
			continue
		}
		start, err := k.lockStart()
		if err != nil || k.free() {
			return start, err
		}
		if err := closing(start); err != nil { // another process joined before the lock was ours
			return nil, err
		}
		idle = 0
	}
}

// lockStart waits for the lock, which a process that joins holds for a moment.
func (k *keeper) lockStart() (*os.File, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return filelock.Wait(ctx, filepath.Join(k.dir, startLock), filelock.Exclusive)
}

// owns reports whether the folder is still this server's.
func (k *keeper) owns() bool {
	text, err := os.ReadFile(filepath.Join(k.dir, urlFile))
	return err == nil && string(text) == k.url
}

// free reports whether no process holds the server. A lock that cannot be checked counts as held.
func (k *keeper) free() bool {
	f, err := filelock.Try(filepath.Join(k.dir, holdersLock), filelock.Exclusive)
	if err != nil {
		return false
	}
	return closing(f) == nil
}

// start clears away what a keeper that was killed has left, makes a new database cluster and starts a server on it.
func (k *keeper) start() error {
	if err := k.chooseUser(); err != nil {
		return err
	}
	k.clean()
	password := rand.Text()
	if err := k.initialise(password); err != nil {
		return err
	}
	var err error
	for range 5 { // a port may be taken between the choice and the start
		var port int
		if port, err = freePort(); err != nil {
			return err
		}
		if err = k.run(port); err == nil {
			k.url = serverURL(port, password)
			return os.WriteFile(filepath.Join(k.dir, urlFile), []byte(k.url), 0o600)
		}
	}
	return err
}

// serverURL is the URL of the administrative database of a server on the port.
func serverURL(port int, password string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Path: "/postgres", RawQuery: "sslmode=disable"}
	return u.String()
}

// chooseUser picks a user to run the server for root, whom PostgreSQL refuses.
func (k *keeper) chooseUser() error {
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return fmt.Errorf("read the id of %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return fmt.Errorf("read the group of %s: %w", name, err)
		}
		k.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return nil
	}
	return errors.New("there is no user but root who could run the server")
}

// initialise makes a database cluster. A linguistic collation, as most servers have, shows where text is compared that
// only byte order compares right.
func (k *keeper) initialise(password string) error {
	data := filepath.Join(k.dir, dataFolder)
	pwfile := filepath.Join(k.dir, "password")
	defer os.Remove(pwfile) //nolint:errcheck // or with the folder
	if err := os.WriteFile(pwfile, []byte(password), 0o600); err != nil {
		return fmt.Errorf("write the password: %w", err)
	}
	if err := k.give(pwfile); err != nil {
		return err
	}
	var out []byte
	var err error
	for _, locale := range [][]string{
		{"--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US"},
		{"--locale=C", "--locale-provider=icu", "--icu-locale=en-US"}, // where the system has no C.UTF-8
		{"--locale=C"}, // where PostgreSQL was built without ICU
	} {
		if err := os.RemoveAll(data); err != nil {
			return fmt.Errorf("clear the data folder: %w", err)
		}
		if err := os.Mkdir(data, 0o700); err != nil {
			return fmt.Errorf("make the data folder: %w", err)
		}
		if err := k.give(data); err != nil {
			return err
		}
		args := append([]string{"-D", data, "-U", "postgres", "-A", "password", "--pwfile", pwfile, "-E", "UTF8",
			"--no-sync"}, locale...)
		if out, err = k.command("initdb", args...).CombinedOutput(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("initdb: %w: %s", err, out)
}

// give makes the server's user own a file.
func (k *keeper) give(path string) error {
	if k.as == nil {
		return nil
	}
	if err := os.Chown(path, int(k.as.Uid), int(k.as.Gid)); err != nil {
		return fmt.Errorf("hand %s to the server's user: %w", path, err)
	}
	return nil
}

// command returns a command of PostgreSQL that runs as the server's user, without the variables of the test's
// environment.
func (k *keeper) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(k.bin, name), args...) //nolint:noctx // ends with the keeper
	c.Dir = "/"
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: k.as}
	return c
}

// run starts the server and returns when it accepts connections. Nothing of it is to outlive a loss of power, so that
// it never waits for the disk; it never speaks to another machine.
func (k *keeper) run(port int) error {
	log, err := os.OpenFile(filepath.Join(k.dir, logFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("open the server's log: %w", err)
	}
	defer log.Close() //nolint:errcheck // the server has its own descriptor
	args := []string{"-D", filepath.Join(k.dir, dataFolder), "-p", strconv.Itoa(port)}
	for _, setting := range []string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=",
		"max_connections=" + strconv.Itoa(300+50*runtime.NumCPU()),
		"fsync=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0",
	} {
		args = append(args, "-c", setting)
	}
	for _, setting := range k.settings {
		args = append(args, "-c", setting)
	}
	k.server = k.command("postgres", args...)
	k.server.Stdout, k.server.Stderr = log, log
	endWithParent(k.server.SysProcAttr)
	if err := k.server.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	exited := make(chan struct{})
	k.exited = exited
	go func() {
		_ = k.server.Wait() // the log says why
		close(exited)
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(startTimeout)
	defer end.Stop()
	for !k.accepts() {
		select {
		case <-tick.C:
		case <-exited:
			text, _ := os.ReadFile(log.Name()) // the error says what there is to say
			return fmt.Errorf("the server ended while starting: %s", text)
		case <-end.C:
			k.stop()
			return errors.New("the server did not start in time")
		}
	}
	return nil
}

// accepts reports whether the server accepts connections, by the line that it writes for pg_ctl.
func (k *keeper) accepts() bool {
	const status = 7 // of the lines of the file
	text, err := os.ReadFile(k.pidFile())
	if err != nil {
		return false
	}
	lines := strings.Split(string(text), "\n")
	return len(lines) > status && strings.TrimSpace(lines[status]) == "ready"
}

// pidFile is the file in which a server shows that it runs, and whether it accepts connections.
func (k *keeper) pidFile() string { return filepath.Join(k.dir, dataFolder, "postmaster.pid") }

// stop ends the server without ceremony: its data is about to be deleted.
func (k *keeper) stop() {
	for _, how := range []os.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		_ = k.server.Process.Signal(how) // it may have ended
		select {
		case <-k.exited:
			return
		case <-time.After(stopTimeout):
		}
	}
}

// clean stops the server, also one that an earlier keeper left behind, and deletes what it had.
func (k *keeper) clean() {
	data := filepath.Join(k.dir, dataFolder)
	switch {
	case k.server != nil:
		k.stop()
	default:
		if _, err := os.Stat(filepath.Join(data, "postmaster.pid")); err == nil {
			_ = k.command("pg_ctl", "-D", data, "-m", "immediate", "-w", "-t", "10", "stop").Run() // may have ended
		}
	}
	for _, name := range []string{urlFile, logFile, keeperFile, dataFolder} {
		_ = os.RemoveAll(filepath.Join(k.dir, name)) // the next keeper makes another attempt
	}
}

// freePort returns a port that is not in use now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // binds without waiting
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close() //nolint:errcheck // nothing was accepted
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("%s is no TCP address", l.Addr())
	}
	return addr.Port, nil
}
