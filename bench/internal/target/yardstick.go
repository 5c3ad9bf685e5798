package target

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"sallyport/internal/platform/id"
)

const (
	// YardstickPath is the request target of the yardstick.
	YardstickPath = "/hook"

	yardstickReady   = "listening "
	yardstickMaxBody = 10 << 20
	// headerTimeout ends connections that send nothing; no peer of the yardstick is that slow.
	headerTimeout = 30 * time.Second
)

// Yardstick is a process that does what no gateway can do without: read the delivery, check its GitHub signature,
// respond. It stores nothing. Its figures say what this machine and this generator can do at most.
type Yardstick struct {
	// Addr is host:port of its listener.
	Addr string

	process *process
	stdin   io.Closer
}

// StartYardstick runs program with args, which has to call ServeYardstick with its standard input and output.
func StartYardstick(ctx context.Context, program string, args []string, secret string) (*Yardstick, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start yardstick: %w", err)
	}
	// Not StdoutPipe: Wait closes that, and Wait runs during the reading here.
	stdout, childStdout, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start yardstick: %w", err)
	}
	defer stdout.Close() //nolint:errcheck // only read; the one line that matters has been by then
	cmd.Stdout = childStdout
	p, err := start(cmd)
	if err := errors.Join(err, childStdout.Close()); err != nil {
		return nil, fmt.Errorf("start yardstick: %w", err)
	}
	y := &Yardstick{process: p, stdin: stdin}
	line := ""
	if _, err = io.WriteString(stdin, secret+"\n"); err == nil {
		line, err = bufio.NewReader(stdout).ReadString('\n')
	}
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), yardstickReady)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%w: the yardstick did not start", ErrServer), err, y.Stop())
	}
	y.Addr = addr
	return y, nil
}

// PID returns the yardstick's process identifier.
func (y *Yardstick) PID() int { return y.process.pid() }

// Stop ends the yardstick by closing its standard input and waits.
func (y *Yardstick) Stop() error {
	if err := errors.Join(y.stdin.Close(), y.process.wait()); err != nil {
		return fmt.Errorf("stop yardstick: %w", err)
	}
	return nil
}

// ServeYardstick reads the secret as the first line of in, serves on a free loopback port whose address it writes to
// out, and returns when in ends, so that the yardstick never outlives the process that started it.
func ServeYardstick(ctx context.Context, in io.Reader, out io.Writer) error {
	input := bufio.NewReader(in)
	secret, err := input.ReadString('\n')
	if err != nil {
		return fmt.Errorf("read secret: %w", err)
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: yardstickHandler(strings.TrimSuffix(secret, "\n")), ReadHeaderTimeout: headerTimeout}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if _, err := fmt.Fprintf(out, "%s%s\n", yardstickReady, listener.Addr()); err != nil {
		return errors.Join(fmt.Errorf("report address: %w", err), server.Close())
	}
	_, err = io.Copy(io.Discard, input)
	err = errors.Join(err, server.Close())
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

func yardstickHandler(secret string) http.Handler {
	key := []byte(secret)
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+YardstickPath, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, yardstickMaxBody))
		if err != nil {
			http.Error(w, "unreadable body", http.StatusBadRequest)
			return
		}
		mac := hmac.New(sha256.New, key)
		mac.Write(body)
		given, _ := strings.CutPrefix(r.Header.Get("X-Hub-Signature-256"), "sha256=")
		if got, err := hex.DecodeString(given); err != nil || !hmac.Equal(got, mac.Sum(nil)) {
			http.Error(w, "bad signature", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		// A sender that has gone notices by itself.
		_, _ = io.WriteString(w, `{"event_uuid":"`+id.NewUUID()+`","status":"received","duplicate":false}`)
	})
	return mux
}
