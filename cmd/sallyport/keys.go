package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport/internal/app"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/platform/secretbox"
)

type keysCommand struct {
	Create  keysCreate  `cmd:"" help:"Make an API key and print it, this once."`
	List    keysList    `cmd:"" help:"List the API keys."`
	Get     keysGet     `cmd:"" help:"Show an API key as JSON."`
	Update  keysUpdate  `cmd:"" help:"Change the name, the life, the networks or the limit of an API key."`
	Rotate  keysRotate  `cmd:"" help:"Give an API key another secret and print it, this once; the old one works on for a while."`
	Disable keysDisable `cmd:"" help:"Have an API key refused until it is enabled."`
	Enable  keysEnable  `cmd:"" help:"Let a disabled API key work again."`
	Revoke  keysRevoke  `cmd:"" help:"End an API key for good."`
	Usage   keysUsage   `cmd:"" help:"Show how an API key is used."`
	Verify  keysVerify  `cmd:"" help:"Say whether a text is an API key that works, and which."`
}

// withStore runs f on the database, and closes it.
func (e *env) withStore(ctx context.Context, f func(s *app.Store) error) error {
	s, err := app.OpenStore(ctx, e.cfg, e.logger())
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

type keysCreate struct {
	Name        string         `required:"" placeholder:"TEXT" help:"What the key is for."`
	Environment string         `required:"" placeholder:"ID|NAME" help:"The environment whose data the key works on."`
	Routes      []access.Route `required:"" placeholder:"ROUTE" help:"What the key may do: webhooks (subscriptions, replays, and reading events), events (reading events), events:write (publishing events), connections."`
	Connections []string       `placeholder:"CONNECTION_ID" help:"The connections that it may do so with; without, all of the environment."`
	SourceCIDRs []string       `name:"source-cidrs" placeholder:"CIDR" help:"The networks that it works from; without, all."`
	keyRate
	ExpiresIn time.Duration `default:"2160h" placeholder:"DURATION" help:"How long the key works."`
	JSON      bool          `name:"json" help:"Print JSON: the key's properties, with the key itself as \"key\"."`
}

// keyRate is how many requests may be made with a key.
type keyRate struct {
	RatePerSecond *int64 `and:"rate" placeholder:"N" help:"How many requests a second may be made with the key in the long run, in place of what the service allows each key."`
	RateBurst     *int64 `and:"rate" placeholder:"N" help:"How many requests may be made with it at once after a pause."`
}

// limit returns nil where the flags are not given.
func (r keyRate) limit() *ratelimit.Limit {
	if r.RatePerSecond == nil || r.RateBurst == nil {
		return nil
	}
	return &ratelimit.Limit{PerSecond: *r.RatePerSecond, Burst: *r.RateBurst}
}

// Validate holds the flags to what exists.
func (c *keysCreate) Validate() error {
	for _, r := range c.Routes {
		if !slices.Contains(access.Routes(), r) {
			return fmt.Errorf("--routes takes %s", join(access.Routes(), ", "))
		}
	}
	if c.ExpiresIn <= 0 {
		return errors.New("--expires-in must be above 0")
	}
	return nil
}

// Run prints the key alone on standard output, so that a script can take it.
func (c *keysCreate) Run(ctx context.Context, e *env) error {
	return e.withStore(ctx, func(s *app.Store) error {
		k, text, err := s.CreateKey(ctx, e.clock.Now(), app.KeyRequest{
			Name: c.Name, Environment: c.Environment, Routes: slices.Compact(slices.Sorted(slices.Values(c.Routes))),
			Lifetime: c.ExpiresIn, Connections: c.Connections, SourceCIDRs: c.SourceCIDRs, Rate: c.limit(),
		})
		if err != nil {
			return err
		}
		return e.printKey(k, text, c.JSON, fmt.Sprintf("%s, of environment %s, until %s. The key is shown this once.", k.ID,
			k.Environment, day(time.Time(k.ExpiresAt))))
	})
}

// printKey prints the text of a key, which is shown this once: alone with a note beside it, or within its properties.
func (e *env) printKey(k app.Key, text secretbox.Secret, asJSON bool, note string) error {
	if asJSON {
		return printJSON(e.stdout, struct {
			app.Key
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

// Run lists the keys, newest first, the revoked and expired ones too.
func (c keysList) Run(ctx context.Context, e *env) error {
	return e.withStore(ctx, func(s *app.Store) error {
		list, err := s.ListKeys(ctx, e.clock.Now())
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(e.stdout, list)
		}
		rows := [][]string{{"ID", "NAME", "ENVIRONMENT", "KEY", "ROUTES", "STATUS", "CREATED", "EXPIRES"}}
		for _, k := range list {
			rows = append(rows, []string{k.ID, k.Name, k.Environment, k.Prefix + "_…" + k.LastFour, routes(k.Grants),
				string(k.Status), day(time.Time(k.CreatedAt)), day(time.Time(k.ExpiresAt))})
		}
		return printTable(e.stdout, rows)
	})
}

// routes shows what grants open, and with a minus what they close.
func routes(grants []app.Grant) string {
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
