package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sallyport/internal/platform/clock"
)

const (
	readyTimeout  = 60 * time.Second
	readyInterval = 50 * time.Millisecond
	// credentialsFile is what the gateway writes into its data folder in development mode.
	credentialsFile = "dev-credentials.json"
	// environmentPrefix begins the names of the variables that configure a gateway.
	environmentPrefix = "SALLYPORT_"
)

// ErrServer reports a gateway that did not behave as its contract says.
var ErrServer = errors.New("gateway")

// ServerConfig says how to start a gateway.
type ServerConfig struct {
	// Binary is the path of the gateway's program.
	Binary string
	// DataDir is an empty folder for the gateway's files.
	DataDir string
	// DatabaseURL is a PostgreSQL database; empty means SQLite in DataDir.
	DatabaseURL string
	// LogPath takes the gateway's standard output and error.
	LogPath string
	// Admin asks for the admin listener, which serves profiles.
	Admin bool
	// Args are further arguments of the gateway.
	Args []string
}

// Server is a running gateway. Variables that configure a gateway are kept from it, so that a run depends on its
// arguments alone.
type Server struct {
	// API calls the gateway with the credentials of its development environment.
	API *API
	// User is the user that development mode has created.
	User Credentials
	// EnvironmentID is the development environment's.
	EnvironmentID string
	// Addr is host:port of the public listener, AdminAddr that of the admin listener or empty.
	Addr, AdminAddr string

	clk     clock.Clock
	process *process
	log     string
}

// StartServer starts a gateway and waits until it is ready. The gateway ends with ctx at the latest.
func StartServer(ctx context.Context, clk clock.Clock, cfg ServerConfig) (*Server, error) {
	s := &Server{clk: clk, log: cfg.LogPath}
	var err error
	if s.Addr, err = FreeAddr(ctx); err != nil {
		return nil, err
	}
	args := []string{"serve", "--dev", "--listen", s.Addr, "--data", cfg.DataDir, "--log-format", "json",
		"--rate-limit-key-per-second", "0"}
	if cfg.DatabaseURL != "" {
		args = append(args, "--database-url", cfg.DatabaseURL)
	}
	if cfg.Admin {
		if s.AdminAddr, err = FreeAddr(ctx); err != nil {
			return nil, err
		}
		args = append(args, "--admin-listen", s.AdminAddr)
	}
	cmd := exec.CommandContext(ctx, cfg.Binary, append(args, cfg.Args...)...)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, environmentPrefix) {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	if s.process, err = runWithLog(cmd, cfg.LogPath); err != nil {
		return nil, fmt.Errorf("start gateway: %w", err)
	}
	if err := s.awaitReady(ctx, clk, filepath.Join(cfg.DataDir, credentialsFile)); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// PID returns the gateway's process identifier.
func (s *Server) PID() int { return s.process.pid() }

// Stop ends the gateway by SIGTERM and waits. It returns an error when the gateway ended otherwise than with status 0.
func (s *Server) Stop() error {
	if err := s.process.cmd.Cancel(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop gateway: %w", err)
	}
	timer := s.clk.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-s.process.done:
	case <-timer.C():
		if err := s.process.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("kill gateway: %w", err)
		}
	}
	if err := s.process.wait(); err != nil {
		return fmt.Errorf("%w ended with %w; see %s", ErrServer, err, s.log)
	}
	return nil
}

// awaitReady polls until the gateway returns 200 for /readyz, then reads its credentials.
func (s *Server) awaitReady(ctx context.Context, clk clock.Clock, credentials string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	client := newClient()
	for !ready(ctx, client, s.Addr) {
		timer := clk.NewTimer(readyInterval)
		select {
		case <-timer.C():
		case <-s.process.done:
			timer.Stop()
			return fmt.Errorf("%w ended before it was ready; see %s", ErrServer, s.log)
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w not ready: %w; see %s", ErrServer, ctx.Err(), s.log)
		}
	}
	text, err := os.ReadFile(credentials)
	if err != nil {
		return fmt.Errorf("read credentials: %w", err)
	}
	var found struct {
		BaseURL string `json:"base_url"`
		APIKey  string `json:"api_key"`
		Credentials
		EnvironmentID string `json:"environment_id"`
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return fmt.Errorf("read credentials: %w", err)
	}
	base, err := url.Parse(found.BaseURL)
	if err != nil || base.Path == "" || found.APIKey == "" {
		return fmt.Errorf("%w: %s holds no base_url with a path, or no api_key", ErrServer, credentialsFile)
	}
	// The listener is known; the host in the file is only how the gateway names itself.
	s.User, s.EnvironmentID = found.Credentials, found.EnvironmentID
	s.API = NewAPI("http://"+s.Addr+base.Path, found.APIKey)
	return nil
}

func ready(ctx context.Context, client *http.Client, addr string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close()) == nil && resp.StatusCode == http.StatusOK
}
