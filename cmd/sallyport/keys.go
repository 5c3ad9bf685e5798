package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport/internal/operator"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/platform/secretbox"
)

type keysCommand struct {
	Create  keysCreate  `cmd:"" help:"Create an API key and print it. It is shown only once."`
	List    keysList    `cmd:"" help:"List the API keys."`
	Get     keysGet     `cmd:"" help:"Show an API key as JSON."`
	Update  keysUpdate  `cmd:"" help:"Change the name, expiry, networks or rate limit of an API key."`
	Rotate  keysRotate  `cmd:"" help:"Give an API key a new secret and print it. It is shown only once. The old secret stays valid for a while."`
	Disable keysDisable `cmd:"" help:"Disable an API key. Requests with it are rejected until it is enabled."`
	Enable  keysEnable  `cmd:"" help:"Enable a disabled API key."`
	Revoke  keysRevoke  `cmd:"" help:"Revoke an API key permanently."`
	Usage   keysUsage   `cmd:"" help:"Show the usage of an API key."`
	Verify  keysVerify  `cmd:"" help:"Check whether a text is a valid API key, and show which."`
}

// withStore opens the database, calls f and closes it.
func (e *env) withStore(ctx context.Context, f func(s *operator.Store) error) error {
	s, err := operator.OpenStore(ctx, e.cfg, e.logger())
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

type keysCreate struct {
	Name        string         `required:"" placeholder:"TEXT" help:"The purpose of the key."`
	Environment string         `required:"" placeholder:"ID|NAME" help:"The environment that the key gives access to."`
	Routes      []access.Route `required:"" placeholder:"ROUTE" help:"The routes that the key may use: webhooks (subscriptions, replays, and reading events), events (reading events), events:write (publishing events), connections, catalog (reading the catalog of actions), actions (running actions)."`
	Connections []string       `placeholder:"CONNECTION_ID" help:"The connections that the key may use. Default: all of the environment."`
	Actions     []string       `placeholder:"PATTERN" help:"The actions that the route actions may run, such as github/create_issue or github/*. Default: all."`
	Methods     []string       `placeholder:"METHOD" help:"The HTTP methods that these actions may have. Default: all."`
	MaxRisk     string         `placeholder:"LEVEL" help:"The highest risk that these actions may have: low, medium, high or critical. Default: any."`
	SourceCIDRs []string       `name:"source-cidrs" placeholder:"CIDR" help:"The networks that the key works from. Default: all."`
	keyRate
	ExpiresIn time.Duration `default:"2160h" placeholder:"DURATION" help:"The time until the key expires. Default: 90 days."`
	JSON      bool          `name:"json" help:"Print JSON: the key's properties, and the key itself as \"key\"."`
}

// keyRate is the rate limit of a key.
type keyRate struct {
	RatePerSecond *int64 `and:"rate" placeholder:"N" help:"Requests a second that the key may make in the long run, instead of the service's limit for each key."`
	RateBurst     *int64 `and:"rate" placeholder:"N" help:"Requests that the key may make in one burst after a pause."`
}

// limit returns nil if the flags are not given.
func (r keyRate) limit() *ratelimit.Limit {
	if r.RatePerSecond == nil || r.RateBurst == nil {
		return nil
	}
	return &ratelimit.Limit{PerSecond: *r.RatePerSecond, Burst: *r.RateBurst}
}

// Validate checks the flags against the routes that exist.
func (c *keysCreate) Validate() error {
	for _, r := range c.Routes {
		if !slices.Contains(access.Routes(), r) {
			return fmt.Errorf("--routes takes %s", join(access.Routes(), ", "))
		}
	}
	if c.ExpiresIn <= 0 {
		return errors.New("--expires-in must be above 0")
	}
	if !c.calls().Empty() && !slices.Contains(c.Routes, access.RouteActions) {
		return errors.New("--actions, --methods and --max-risk need the route actions")
	}
	return nil
}

// calls returns the limits of the actions that the key may run.
func (c *keysCreate) calls() *access.CallLimits {
	return &access.CallLimits{Actions: c.Actions, Methods: c.Methods, MaxRisk: c.MaxRisk}
}

// Run prints only the key on standard output, so that a script can read it.
func (c *keysCreate) Run(ctx context.Context, e *env) error {
	return e.withStore(ctx, func(s *operator.Store) error {
		k, text, err := s.CreateKey(ctx, e.clock.Now(), operator.KeyRequest{
			Name: c.Name, Environment: c.Environment, Routes: slices.Compact(slices.Sorted(slices.Values(c.Routes))),
			Lifetime: c.ExpiresIn, Connections: c.Connections, SourceCIDRs: c.SourceCIDRs, Rate: c.limit(),
			Calls: c.calls(),
		})
		if err != nil {
			return err
		}
		return e.printKey(k, text, c.JSON, fmt.Sprintf("%s, of environment %s, until %s UTC. The key is shown only once.",
			k.ID, k.Environment, second(time.Time(k.ExpiresAt))))
	})
}

// printKey prints the text of a key, which is shown only once: alone with a note on standard error, or within its
// properties.
func (e *env) printKey(k operator.Key, text secretbox.Secret, asJSON bool, note string) error {
	if asJSON {
		return printJSON(e.stdout, struct {
			operator.Key
			Text string `json:"key"`
		}{k, text.Reveal()})
	}
	if _, err := fmt.Fprintln(e.stdout, text.Reveal()); err != nil {
		return err
	}
	e.note("%s", note)
	return nil
}

type keysList struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run lists the keys, newest first, including revoked and expired ones.
func (c keysList) Run(ctx context.Context, e *env) error {
	return e.withStore(ctx, func(s *operator.Store) error {
		list, err := s.ListKeys(ctx, e.clock.Now())
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(e.stdout, list)
		}
		rows := [][]string{{"ID", "NAME", "ENVIRONMENT", "KEY", "ROUTES", "STATUS", "CREATED", "EXPIRES (UTC)"}}
		for _, k := range list {
			rows = append(rows, []string{k.ID, k.Name, k.Environment, k.Prefix + "_…" + k.LastFour, routes(k.Grants),
				string(k.Status), day(time.Time(k.CreatedAt)), second(time.Time(k.ExpiresAt))})
		}
		return printTable(e.stdout, rows)
	})
}

// routes lists the routes that grants allow and, with a minus, the routes that they deny.
func routes(grants []operator.Grant) string {
	var parts []string
	for _, g := range grants {
		sign := ""
		if g.Effect != "allow" {
			sign = "-"
		}
		for _, r := range g.Routes {
			parts = append(parts, sign+string(r))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ",")
}

func join[T ~string](list []T, separator string) string {
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = string(v)
	}
	return strings.Join(parts, separator)
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
