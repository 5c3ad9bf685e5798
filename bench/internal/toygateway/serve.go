package toygateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrRefused reports arguments or variables with which the toy does not start.
var ErrRefused = errors.New("the toy does not start")

const headerTimeout = time.Minute

// Serve is the toy as a process with the gateway's command line: it writes its arguments to out and its credentials
// into --data, responds on --listen and --admin-listen, and returns nil on SIGTERM. Its own argument --drop-every sets
// Defects.DropEvery. It refuses the argument --fail and variables that would configure a gateway.
func Serve(ctx context.Context, out io.Writer, args, environ []string) error {
	if _, err := fmt.Fprintln(out, strings.Join(args, " ")); err != nil {
		return err
	}
	configured := slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, "SALLYPORT_") })
	if configured || slices.Contains(args, "--fail") {
		return ErrRefused
	}
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer cancel()
	var defects Defects
	if every := value(args, "--drop-every"); every != "" {
		n, err := strconv.ParseInt(every, 10, 64)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
		defects.DropEvery = n
	}
	toy, err := New(context.WithoutCancel(ctx), defects)
	if err != nil {
		return err
	}
	credentials, err := json.Marshal(map[string]string{
		"base_url": "http://public.test/api/v1", "api_key": APIKey, "environment_id": "env_toy",
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(value(args, "--data"), "dev-credentials.json"), credentials, 0o600); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", toy)
	profile := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "profile") // a client that has gone notices by itself
	}
	mux.HandleFunc("GET /debug/pprof/heap", profile)
	mux.HandleFunc("GET /debug/pprof/profile", profile)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout}
	served := make(chan error, 2)
	listeners := 0
	for _, addr := range []string{value(args, "--listen"), value(args, "--admin-listen")} {
		if addr == "" {
			continue
		}
		var lc net.ListenConfig
		listener, err := lc.Listen(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		listeners++
		go func() { served <- server.Serve(listener) }()
	}
	<-ctx.Done()
	err = server.Shutdown(context.WithoutCancel(ctx))
	for range listeners {
		if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
			err = errors.Join(err, serveErr)
		}
	}
	return errors.Join(err, toy.Close())
}

// value returns the argument after a flag, and "" without the flag.
func value(args []string, flag string) string {
	if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}
