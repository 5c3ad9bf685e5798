package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sallyport/bench/internal/load"
	"sallyport/bench/internal/phases"
	"sallyport/bench/internal/procstat"
	"sallyport/bench/internal/report"
	"sallyport/bench/internal/sink"
	"sallyport/bench/internal/target"
)

const (
	provider = "github"
	// secret is that of all connections; nothing depends on it.
	secret = "a secret shared with GitHub"
	// warmUp is how long a gateway has load before anything is measured, and an attack goes on before the work next to it
	// is measured.
	warmUp = 2 * time.Second
	// drain is how long acknowledged events may take to arrive.
	drain = 2 * time.Minute
	// maxEvents bounds a load, and with it the memory of its records.
	maxEvents = 500_000
)

// scene is a gateway with one environment that is measured: its events go to a receiver that is well.
type scene struct {
	bench    *Bench
	servers  []*target.Server
	config   target.ServerConfig
	database *target.Database
	postgres procstat.Proc

	// receiving is how many nodes the events go to; 0 means all.
	receiving int
	path      string
	receiver  *sink.Sink
	verifier  *sink.Verifier
	others    *target.API // of the other environment, once there is one
	theirs    string      // the path of its connection
}

// open starts a gateway, with these arguments besides those of all. It forwards to a receiver that needs a delay for
// each response.
func (b *Bench) open(ctx context.Context, delay time.Duration, args ...string) (s *scene, err error) {
	s = &scene{bench: b}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(context.WithoutCancel(ctx)))
		}
	}()
	if s.database, err = b.database(ctx); err != nil {
		return s, err
	}
	name, dir := b.folder()
	if err = os.Mkdir(dir, 0o700); err != nil {
		return s, fmt.Errorf("make data folder: %w", err)
	}
	s.config = target.ServerConfig{Binary: b.Binary, DataDir: dir, LogPath: filepath.Join(b.LogDir, name+".log"),
		Args: slices.Concat(b.ServerArgs, args)}
	if s.database != nil {
		s.config.DatabaseURL = s.database.URL
		if s.postgres, err = s.database.Process(ctx); err != nil {
			return s, err
		}
	}
	if err = s.start(ctx); err != nil {
		return s, err
	}
	if s.path, err = s.api().CreateConnection(ctx, provider, secret); err != nil {
		return s, err
	}
	if s.receiver, err = sink.Listen(ctx); err != nil {
		return s, err
	}
	url := s.receiver.URL()
	if delay > 0 {
		if url, err = b.peers.late(ctx, url, delay); err != nil {
			return s, err
		}
	}
	signing, err := s.api().CreateSubscription(ctx, provider, url)
	if err != nil {
		return s, err
	}
	s.verifier, err = sink.NewVerifier(signing, provider, target.ConnectionID)
	return s, err
}

func (s *scene) api() *target.API { return s.servers[0].API }

// start starts a node; stop ends all.
func (s *scene) start(ctx context.Context) error {
	server, err := target.StartServer(ctx, s.bench.clk, s.config)
	if err != nil {
		return err
	}
	s.servers = append(s.servers, server)
	return nil
}

func (s *scene) stop() (err error) {
	for _, server := range s.servers {
		err = errors.Join(err, server.Stop())
	}
	s.servers = nil
	return err
}

// change lets the gateway stop, changes its database and starts it again.
func (s *scene) change(ctx context.Context, do func(context.Context) error) error {
	if err := s.stop(); err != nil {
		return err
	}
	if err := do(ctx); err != nil {
		return err
	}
	old := s.others
	if err := s.start(ctx); err != nil {
		return err
	}
	if old != nil {
		s.others = s.api().WithKeyOf(old)
	}
	return nil
}

// close ends everything and removes the data.
func (s *scene) close(ctx context.Context) error {
	err := s.stop()
	if s.receiver != nil {
		err = errors.Join(err, s.receiver.Close())
	}
	if s.database != nil {
		err = errors.Join(err, s.database.Drop(ctx))
	}
	if s.config.DataDir != "" {
		err = errors.Join(err, os.RemoveAll(s.config.DataDir))
	}
	return err
}

// wait lets a moment go by, in which the gateway ends what it does after events.
func (s *scene) wait(ctx context.Context, d time.Duration) error {
	timer := s.bench.clk.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *scene) target(path string) load.Target {
	t := load.Target{Addr: s.servers[0].Addr, Path: path, Scheme: load.GitHub, Secret: secret}
	nodes := s.servers
	if s.receiving > 0 {
		nodes = nodes[:s.receiving]
	}
	for _, node := range nodes[1:] {
		t.Others = append(t.Others, node.Addr)
	}
	return t
}

// runner makes the runner and the subject of a phase.
func (s *scene) runner(length time.Duration, most int) (*phases.Runner, phases.Subject) {
	b := s.bench
	b.epoch += 8 // more than the loads of a phase
	return phases.NewRunner(b.clk, phases.Settings{Connections: b.Connections, Duration: length, PerSecond: b.PerSecond,
			MaxEvents: most, Drain: drain}, b.epoch), phases.Subject{Process: procstat.Of(s.servers[0].PID()), Target: s.target(
			s.path)}
}

// usage is the processor time of the gateway's processes and of PostgreSQL so far.
func (s *scene) usage() (gateway, postgres time.Duration, err error) {
	for _, server := range s.servers {
		used, cpuErr := procstat.Of(server.PID()).CPU()
		gateway, err = gateway+used, errors.Join(err, cpuErr)
	}
	if s.database != nil {
		var familyErr error
		postgres, familyErr = s.postgres.FamilyCPU()
		err = errors.Join(err, familyErr)
	}
	return gateway, postgres, err
}

// short is the time of a warm-up.
func (b *Bench) short() time.Duration { return min(warmUp, b.Duration) }

// metered measures the processor time of a phase, which says how many events it had.
func (s *scene) metered(phase func() (Figures, int, error)) (Figures, error) {
	gateway, postgres, err := s.usage()
	if err != nil {
		return nil, err
	}
	f, events, err := phase()
	if err != nil {
		return nil, err
	}
	gatewayAfter, postgresAfter, err := s.usage()
	if err != nil {
		return nil, err
	}
	f[Events] = float64(events)
	thousands := f[Events] / 1000
	f[PostgresCPU] = (postgresAfter - postgres).Seconds() / thousands
	f[CPU] = (gatewayAfter-gateway).Seconds()/thousands + f[PostgresCPU]
	for _, server := range s.servers {
		memory, err := procstat.Of(server.PID()).Memory()
		if err != nil {
			return nil, err
		}
		f[Peak] = max(f[Peak], float64(memory.Peak)/(1<<20))
	}
	return f, nil
}

// steady measures events at the rate of the open loop. Times are from the moment before a request is written.
func (s *scene) steady(ctx context.Context) (Figures, error) {
	return s.metered(func() (Figures, int, error) {
		runner, subject := s.runner(s.bench.Duration, maxEvents)
		got, err := runner.Latency(ctx, subject, s.receiver, s.verifier)
		if err != nil {
			return nil, 0, err
		}
		return figures(&got.Ack, &got.ToSink, got.Requests, got.Arrival), got.Acknowledged, nil
	})
}

// burst measures events as fast as they are acknowledged, for a time and up to a number.
func (s *scene) burst(ctx context.Context, length time.Duration, most int) (Figures, error) {
	return s.metered(func() (Figures, int, error) {
		runner, subject := s.runner(length, most)
		got, err := runner.Delivery(ctx, subject, s.receiver, s.verifier)
		if err != nil {
			return nil, 0, err
		}
		f := figures(&got.Ack, &got.ToSink, got.Requests, got.Arrival)
		f[Rate] = got.SustainedPerSecond
		return f, got.Acknowledged, nil
	})
}

func figures(ack, toSink *report.Quantiles, requests report.Requests, arrival report.Arrival) Figures {
	return Figures{AckP50: ack.P50, AckP99: ack.P99, SinkP50: toSink.P50, SinkP99: toSink.P99,
		Refused: float64(requests.Refused + requests.Failed), Missing: float64(arrival.Missing)}
}
