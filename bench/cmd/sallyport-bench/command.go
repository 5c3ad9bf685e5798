package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"sallyport/bench/internal/event"
	"sallyport/bench/internal/load"
	"sallyport/bench/internal/phases"
	"sallyport/bench/internal/report"
)

// Limits that keep every loop of a run short and its records small (32 bytes an event).
const (
	maxConnections = 1024
	maxPhase       = 10 * time.Minute
	maxRate        = 10_000
	maxEvents      = 10_000_000
)

var errFlag = errors.New("invalid flag")

type runCommand struct {
	Binary      string `required:"" type:"existingfile" placeholder:"PATH" help:"The sallyport program to measure."`
	PostgresURL string `name:"postgres-url" placeholder:"URL" help:"Measure on PostgreSQL too: a postgres:// URL, on this machine, of a role that may create databases."`
	Provider    string `enum:"github,standard-webhooks" default:"github" help:"Signature scheme of the deliveries: ${enum}."`

	Connections int           `default:"64" placeholder:"N" help:"Connections of the generator (${default})."`
	Warmup      time.Duration `default:"2s" placeholder:"TIME" help:"Load before each closed loop's measured part (${default})."`
	Duration    time.Duration `default:"10s" placeholder:"TIME" help:"Measured part of each phase (${default})."`
	Rate        int           `default:"200" placeholder:"N" help:"Events per second of the open loop (${default})."`
	MaxEvents   int           `default:"2000000" placeholder:"N" help:"Events at most in any phase (${default})."`
	Drain       time.Duration `name:"drain-timeout" default:"60s" placeholder:"TIME" help:"How long acknowledged events may take to arrive after the load (${default})."`

	Out            string   `default:"bench/out" type:"path" placeholder:"DIR" help:"Folder for the server's logs, profiles and result.json (${default})."`
	DataRoot       string   `type:"path" placeholder:"DIR" help:"Folder in which the server's data folders are made and removed; the system's temporary folder unless given. Its disk decides what a commit costs."`
	ServerArgs     []string `name:"server-arg" sep:"none" placeholder:"ARG" help:"Further argument of the server; repeatable."`
	ProfileSeconds int      `name:"cpuprofile-seconds" placeholder:"N" help:"Take a CPU profile of N seconds and a heap profile in the first two phases. It slows the server down."`

	JSON  bool `help:"Print JSON instead of tables."`
	Check bool `help:"Exit with status 1 when a figure misses its target."`
}

// Validate is called by kong.
func (c *runCommand) Validate() error {
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%w: "+format, append([]any{errFlag}, args...)...))
		}
	}
	require(c.Connections >= 1 && c.Connections <= maxConnections, "--connections is from 1 to %d", maxConnections)
	require(c.Warmup >= 0 && c.Warmup <= maxPhase, "--warmup is from 0s to %s", maxPhase)
	require(c.Duration > 0 && c.Duration <= maxPhase, "--duration is above 0s and at most %s", maxPhase)
	require(c.Drain > 0 && c.Drain <= maxPhase, "--drain-timeout is above 0s and at most %s", maxPhase)
	require(c.Rate >= 1 && c.Rate <= maxRate, "--rate is from 1 to %d", maxRate)
	require(c.MaxEvents >= 1 && c.MaxEvents <= maxEvents, "--max-events is from 1 to %d", maxEvents)
	require(c.ProfileSeconds >= 0 && time.Duration(c.ProfileSeconds)*time.Second <= c.Duration,
		"--cpuprofile-seconds is at most the duration: a longer profile would show an idle server")
	if c.PostgresURL != "" {
		// The other form, "host=… password=…", could not be printed with the command line.
		u, err := url.Parse(c.PostgresURL)
		require(err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql"), "--postgres-url is a postgres:// URL")
	}
	return errors.Join(errs...)
}

func (c *runCommand) phases() phases.Settings {
	return phases.Settings{
		Connections: c.Connections, Warmup: c.Warmup, Duration: c.Duration, PerSecond: c.Rate, MaxEvents: c.MaxEvents,
		Drain: c.Drain,
	}
}

func (c *runCommand) settings() report.Settings {
	return report.Settings{
		Provider: c.Provider, Connections: c.Connections, WarmupSeconds: c.Warmup.Seconds(),
		DurationSeconds: c.Duration.Seconds(), PerSecond: c.Rate, MaxEvents: c.MaxEvents, BodyBytes: event.BodySize,
		ProfileSeconds: c.ProfileSeconds, ServerArgs: c.ServerArgs,
	}
}

func (c *runCommand) scheme() load.Scheme { return load.Scheme(c.Provider) }

// commandText is the command line as a shell would take it, without passwords of URLs.
func commandText(args []string) string {
	words := []string{"sallyport-bench"}
	for _, arg := range args {
		words = append(words, quote(redact(arg)))
	}
	return strings.Join(words, " ")
}

// redact replaces the password of a URL that is an argument, or the value in one.
func redact(arg string) string {
	flag, value, joined := strings.Cut(arg, "=")
	if !joined || !strings.HasPrefix(flag, "-") {
		flag, value, joined = "", arg, false
	}
	if strings.Contains(value, "://") {
		u, err := url.Parse(value)
		if err != nil {
			value = "[unreadable URL]"
		} else {
			query := u.Query()
			if query.Has("password") {
				query.Set("password", "xxxxx")
				u.RawQuery = query.Encode()
			}
			value = u.Redacted()
		}
	}
	if joined {
		return flag + "=" + value
	}
	return value
}

// quote makes a word that a POSIX shell reads back as arg.
func quote(arg string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@,+%", r)
	}
	if arg != "" && strings.IndexFunc(arg, func(r rune) bool { return !plain(r) }) < 0 {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
