package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"sallyport/bench/internal/load"
	"sallyport/bench/internal/phases"
	"sallyport/bench/internal/procstat"
	"sallyport/bench/internal/report"
	"sallyport/bench/internal/sink"
	"sallyport/bench/internal/target"
	"sallyport/internal/platform/clock"
)

const (
	sqlite   = "sqlite"
	postgres = "postgres"

	resultFile  = "result.json"
	secretBytes = 32
)

var errIncomplete = errors.New("parts of the run could not be made; see Problems")

type bench struct {
	cmd runCommand
	// stream is set where readers of the stream are measured instead of what the command measures otherwise.
	stream   *streamCommand
	args     []string
	clk      clock.Clock
	progress io.Writer
	runner   *phases.Runner
}

// run measures the yardstick and every engine, writes the report, and returns whether every target was met. A part that
// fails is a problem in the report and does not stop the others, unless ctx has ended.
func (b *bench) run(ctx context.Context, stdout io.Writer) (met bool, err error) {
	if err := os.MkdirAll(b.cmd.Out, 0o750); err != nil {
		return false, fmt.Errorf("make output folder: %w", err)
	}
	dataRoot, err := os.MkdirTemp(b.cmd.DataRoot, "sallyport-bench-")
	if err != nil {
		return false, fmt.Errorf("make data folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dataRoot)) }()
	r := report.Report{Started: b.clk.Now(), Command: commandText(b.args), Settings: b.cmd.settings()}
	if r.Environment, err = readEnvironment(ctx, b.clk, b.cmd.Binary, dataRoot); err != nil {
		return false, err
	}
	b.runner = phases.NewRunner(b.clk, b.cmd.phases(), firstEpoch())
	r.Streams = b.stream != nil
	if !r.Streams {
		if err := b.yardstick(ctx, &r); err != nil {
			r.Problems = append(r.Problems, "yardstick: "+err.Error())
		}
	}
	names := []string{sqlite}
	if b.cmd.PostgresURL != "" {
		names = append(names, postgres)
	}
	for _, name := range names {
		e := report.Engine{Name: name}
		if err := b.engine(ctx, &e, filepath.Join(dataRoot, name)); err != nil {
			e.Problem = err.Error()
		}
		r.Engines = append(r.Engines, e)
	}
	met = r.Complete()
	if err := b.write(&r, stdout); err != nil {
		return false, err
	}
	for _, e := range r.Engines {
		if e.Problem != "" {
			return false, errIncomplete
		}
	}
	if len(r.Problems) > 0 {
		return false, errIncomplete
	}
	return met, ctx.Err()
}

func (b *bench) write(r *report.Report, stdout io.Writer) error {
	path := filepath.Join(b.cmd.Out, resultFile)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := errors.Join(r.WriteJSON(file), file.Close()); err != nil {
		return err
	}
	if b.cmd.JSON {
		return r.WriteJSON(stdout)
	}
	return r.WriteText(stdout)
}

func (b *bench) yardstick(ctx context.Context, r *report.Report) (err error) {
	b.say("yardstick: ingest")
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own program: %w", err)
	}
	secret := newSecret(load.GitHub)
	y, err := target.StartYardstick(ctx, program, []string{"yardstick"}, secret)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, y.Stop()) }()
	process := procstat.Of(y.PID())
	r.Yardstick, err = b.runner.Ingest(ctx, phases.Subject{
		Target:  load.Target{Addr: y.Addr, Path: target.YardstickPath, Scheme: load.GitHub, Secret: secret},
		Process: process,
	})
	if err != nil {
		return err
	}
	memory, err := process.Memory()
	r.YardstickPeakBytes = memory.Peak
	return err
}

// engine starts the gateway on one engine and runs the three phases. Measurements from before a failure stay in e.
func (b *bench) engine(ctx context.Context, e *report.Engine, dataDir string) (err error) {
	if err := os.Mkdir(dataDir, 0o700); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	cfg := target.ServerConfig{
		Binary: b.cmd.Binary, DataDir: dataDir, LogPath: filepath.Join(b.cmd.Out, e.Name+".log"),
		Admin: b.cmd.ProfileSeconds > 0, Args: b.cmd.ServerArgs,
	}
	checkpoint := func(context.Context) error { return nil } // SQLite copies its log by itself within seconds
	if e.Name == postgres {
		db, createErr := target.CreateDatabase(ctx, b.cmd.PostgresURL)
		if createErr != nil {
			return createErr
		}
		// Deferred first, so that it runs after the server has ended.
		defer func() { err = errors.Join(err, db.Drop(ctx)) }()
		cfg.DatabaseURL, e.Database = db.URL, db.Settings
		checkpoint = db.Checkpoint
	}
	b.say("%s: start", e.Name)
	server, err := target.StartServer(ctx, b.clk, cfg)
	if err != nil {
		return err
	}
	process := procstat.Of(server.PID())
	defer func() {
		memory, memoryErr := process.Memory()
		e.PeakBytes = memory.Peak
		err = errors.Join(err, memoryErr, server.Stop())
	}()
	return b.phases(ctx, e, server, process, checkpoint)
}

func (b *bench) phases(ctx context.Context, e *report.Engine, server *target.Server, process procstat.Proc,
	checkpoint func(context.Context) error,
) (err error) {
	secret := newSecret(b.cmd.scheme())
	path, err := server.API.CreateConnection(ctx, b.cmd.Provider, secret)
	if err != nil {
		return err
	}
	subject := phases.Subject{
		Target:  load.Target{Addr: server.Addr, Path: path, Scheme: b.cmd.scheme(), Secret: secret},
		Process: process,
	}
	if server.AdminAddr != "" {
		subject.Profile = func(ctx context.Context, phase string) error {
			return b.profile(ctx, server.AdminAddr, filepath.Join(b.cmd.Out, e.Name+"-"+phase))
		}
	}
	if b.stream != nil {
		return b.streams(ctx, e, server, subject)
	}
	b.say("%s: ingest", e.Name)
	if e.Ingest, err = b.runner.Ingest(ctx, subject); err != nil {
		return err
	}
	receiver, err := sink.Listen(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, receiver.Close()) }()
	signing, err := server.API.CreateSubscription(ctx, b.cmd.Provider, receiver.URL())
	if err != nil {
		return err
	}
	verifier, err := sink.NewVerifier(signing, b.cmd.Provider, target.ConnectionID)
	if err != nil {
		return err
	}
	b.say("%s: receive and deliver", e.Name)
	if e.Delivery, err = b.runner.Delivery(ctx, subject, receiver, verifier); err != nil {
		return err
	}
	if err := checkpoint(ctx); err != nil {
		return err
	}
	b.say("%s: latency at %d/s", e.Name, b.cmd.Rate)
	e.Latency, err = b.runner.Latency(ctx, subject, receiver, verifier)
	return err
}

// profile saves a CPU profile and, right after it and still under load where the load lasts, a heap profile.
func (b *bench) profile(ctx context.Context, adminAddr, prefix string) error {
	cpu := fmt.Sprintf("/debug/pprof/profile?seconds=%d", b.cmd.ProfileSeconds)
	if err := target.SaveProfile(ctx, adminAddr, cpu, prefix+"-cpu.pprof"); err != nil {
		return err
	}
	return target.SaveProfile(ctx, adminAddr, "/debug/pprof/heap", prefix+"-heap.pprof")
}

func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.progress, format+"\n", args...) // progress is for the eye; the report does not depend on it
}

// newSecret returns a random secret in the form that a scheme's providers use.
func newSecret(scheme load.Scheme) string {
	raw := make([]byte, secretBytes)
	_, _ = rand.Read(raw) // never fails: it ends the process when the system has no randomness
	text := base64.StdEncoding.EncodeToString(raw)
	if scheme == load.StandardWebhooks {
		return "whsec_" + text
	}
	return text
}

// firstEpoch leaves the low byte free for the loads of one run.
func firstEpoch() uint32 {
	var raw [4]byte
	_, _ = rand.Read(raw[:]) // see newSecret
	return binary.BigEndian.Uint32(raw[:]) &^ 0xff
}
