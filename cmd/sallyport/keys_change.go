package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sallyport/internal/app"
	"sallyport/internal/platform/secretbox"
)

// keyID is the argument of what works on one key.
type keyID struct {
	ID string `arg:"" name:"key_id" help:"The key's id, as keys list shows it."`
}

// change runs f on the key and says what has become of it.
func (c keyID) change(ctx context.Context, e *env, f func(s *app.Store) (app.Key, error)) error {
	return e.withStore(ctx, func(s *app.Store) error {
		k, err := f(s)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.stdout, "%s (%s) is %s\n", k.ID, k.Name, k.Status)
		return err
	})
}

type keysGet struct{ keyID }

// Run prints the key with the first of its grants, without its secret.
func (c keysGet) Run(ctx context.Context, e *env) error {
	return e.withStore(ctx, func(s *app.Store) error {
		k, err := s.Key(ctx, e.clock.Now(), c.ID)
		if err != nil {
			return err
		}
		return printJSON(e.stdout, k)
	})
}

type keysUpdate struct {
	keyID
	Name        *string        `placeholder:"TEXT" help:"What the key is for."`
	ExpiresIn   *time.Duration `placeholder:"DURATION" help:"How long the key works from now on. An expired key works again."`
	SourceCIDRs []string       `name:"source-cidrs" xor:"source" placeholder:"CIDR" help:"The networks that the key works from, in place of those it had."`
	AnySource   bool           `xor:"source" help:"Let the key work from everywhere."`
	keyRate
	ServiceRate bool `help:"Allow as many requests with the key as the service allows each."`
}

// Validate refuses a command that changes nothing, and a life that is over.
func (c *keysUpdate) Validate() error {
	if c.Name == nil && c.ExpiresIn == nil && c.SourceCIDRs == nil && !c.AnySource && c.keyRate == (keyRate{}) &&
		!c.ServiceRate {
		return errors.New("say what to change: --name, --expires-in, --source-cidrs or --any-source, --rate-per-second " +
			"and --rate-burst or --service-rate")
	}
	if c.limit() != nil && c.ServiceRate {
		return errors.New("--service-rate and --rate-per-second can't be used together")
	}
	if c.ExpiresIn != nil && *c.ExpiresIn <= 0 {
		return errors.New("--expires-in must be above 0")
	}
	return nil
}

// Run changes what is given.
func (c *keysUpdate) Run(ctx context.Context, e *env) error {
	u := app.KeyUpdate{Name: c.Name, Lifetime: c.ExpiresIn}
	if c.AnySource || c.SourceCIDRs != nil {
		u.SourceCIDRs = &c.SourceCIDRs
	}
	if l := c.limit(); l != nil || c.ServiceRate {
		u.Rate = &l
	}
	return c.change(ctx, e, func(s *app.Store) (app.Key, error) { return s.UpdateKey(ctx, e.clock.Now(), c.ID, u) })
}

type keysRotate struct {
	keyID
	Overlap time.Duration `default:"24h" placeholder:"DURATION" help:"How long the old secret works; 0s ends every secret but the new one."`
	JSON    bool          `name:"json" help:"Print JSON: the key's properties, with the key itself as \"key\"."`
}

// Validate holds the overlap to what a caller could also ask the API for.
func (c *keysRotate) Validate() error {
	if c.Overlap%time.Second != 0 || c.Overlap < 0 || c.Overlap > app.MaxKeyOverlap {
		return fmt.Errorf("--overlap must be whole seconds from 0s to %s", app.MaxKeyOverlap)
	}
	return nil
}

// Run prints the key with its new secret alone on standard output, so that a script can take it.
func (c *keysRotate) Run(ctx context.Context, e *env) error {
	return e.withStore(ctx, func(s *app.Store) error {
		k, text, err := s.RotateKey(ctx, e.clock.Now(), c.ID, c.Overlap)
		if err != nil {
			return err
		}
		old := "The old secret has ended."
		if k.PreviousUntil != nil {
			old = "The old secret works until " + second(time.Time(*k.PreviousUntil)) + "."
		}
		return e.printKey(k, text, c.JSON, k.ID+", of environment "+k.Environment+". "+old+" The key is shown this once.")
	})
}

type keysDisable struct{ keyID }

// Run disables the key. Disabling it again changes nothing.
func (c keysDisable) Run(ctx context.Context, e *env) error {
	return c.change(ctx, e, func(s *app.Store) (app.Key, error) { return s.DisableKey(ctx, e.clock.Now(), c.ID) })
}

type keysEnable struct{ keyID }

// Run enables the key. An expired key stays expired.
func (c keysEnable) Run(ctx context.Context, e *env) error {
	return c.change(ctx, e, func(s *app.Store) (app.Key, error) { return s.EnableKey(ctx, e.clock.Now(), c.ID) })
}

type keysRevoke struct{ keyID }

// Run revokes the key. Revoking it again changes nothing.
func (c keysRevoke) Run(ctx context.Context, e *env) error {
	return c.change(ctx, e, func(s *app.Store) (app.Key, error) { return s.RevokeKey(ctx, e.clock.Now(), c.ID) })
}

type keysUsage struct {
	keyID
	From   moment `placeholder:"TIME" help:"Where the range begins (RFC 3339), or how long ago, as 90m or 48h. Default: a day or 30 days before its end, by hour or day."`
	To     moment `placeholder:"TIME" help:"Where the range ends, or how long ago. Default: now."`
	Bucket string `enum:"hour,day" default:"day" placeholder:"LENGTH" help:"What the range is cut into: hour or day."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

// Run shows the requests with the key, oldest first. A running server stores them once a minute.
func (c keysUsage) Run(ctx context.Context, e *env) error {
	now := e.clock.Now()
	r := app.UsageRange{Bucket: c.Bucket}
	if c.From.given {
		r.From = new(c.From.time(now))
	}
	if c.To.given {
		r.To = new(c.To.time(now))
	}
	return e.withStore(ctx, func(s *app.Store) error {
		list, err := s.KeyUsage(ctx, c.ID, r)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(e.stdout, list)
		}
		rows := [][]string{{"START", "ROUTE", "OUTCOME", "REQUESTS"}}
		for _, u := range list {
			rows = append(rows, []string{second(time.Time(u.Start)), string(u.Route), string(u.Outcome),
				strconv.FormatInt(u.Requests, 10)})
		}
		return printTable(e.stdout, rows)
	})
}

type keysVerify struct {
	File string `arg:"" default:"-" name:"file" help:"The file that holds the text; - is standard input, so that the text stands in no list of processes."`
	JSON bool   `name:"json" help:"Print JSON."`
}

// errNotAKey is told of a text that does not work; it makes the exit code that of a failure.
var errNotAKey = errors.New("the text is no API key that works")

// Run says whose the text is; the exit code tells whether it works.
func (c keysVerify) Run(ctx context.Context, e *env) error {
	text, err := e.readSecret(c.File)
	if err != nil {
		return err
	}
	return e.withStore(ctx, func(s *app.Store) error {
		v, err := s.VerifyKey(ctx, e.clock.Now(), secretbox.Secret(text))
		if err != nil {
			return err
		}
		switch {
		case c.JSON:
			err = printJSON(e.stdout, v)
		case v.Match != nil:
			_, err = fmt.Fprintf(e.stdout, "%s (%s) of environment %s, %s secret, %s\n", v.Match.ID, v.Match.Name,
				v.Match.Environment, *v.Generation, v.Match.Status)
		}
		if err == nil && !v.Valid {
			err = errNotAKey
		}
		return err
	})
}
